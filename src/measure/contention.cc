// SPDX-License-Identifier: Apache-2.0
#include "measure/contention.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace xrt {
namespace {

constexpr double kWaiting = 0.2;
constexpr double kOthers = 0.15;

double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

}  // namespace

std::atomic<bool> Contention::disregarded{false};

Contention::Counters Contention::now() {
  Counters counters;
  // Threads that end meanwhile take their share with them; engines keep theirs.
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "schedstat");
    double ran_ns = 0;
    double waited_ns = 0;
    if (file >> ran_ns >> waited_ns) counters.waited_s += waited_ns * 1e-9;
  }
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    counters.own_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  // "cpu user nice system idle iowait irq softirq steal …", in ticks.
  std::ifstream stat("/proc/stat");
  std::string word;
  stat >> word;
  double ticks = 0;
  for (int i = 0; i < 8 && stat >> ticks; ++i) {
    counters.all_ticks += ticks;
    if (i != 3 && i != 4) counters.busy_ticks += ticks;
  }
  return counters;
}

Contention::Contention() : begin_(now()) {}

double Contention::waiting_share() const {
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start_;
  return std::max(0.0, now().waited_s - begin_.waited_s) / std::max(wall.count(), 1e-6);
}

double Contention::others_share() const {
  const Counters end = now();
  const auto per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double all = (end.all_ticks - begin_.all_ticks) / per_second;
  const double busy = (end.busy_ticks - begin_.busy_ticks) / per_second;
  return all > 0 ? std::max(0.0, busy - (end.own_s - begin_.own_s)) / all : 0;
}

bool Contention::disturbed() const {
  return !disregarded && waiting_share() > kWaiting && others_share() > kOthers;
}

}  // namespace xrt
