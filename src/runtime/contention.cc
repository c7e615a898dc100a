// SPDX-License-Identifier: Apache-2.0
#include "runtime/contention.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace xrt {

std::atomic<bool> Contention::disregarded{false};

// Threads that end meanwhile take their share with them; engines keep theirs.
double Contention::waited_s() {
  double total = 0;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "schedstat");
    double ran_ns = 0;
    double waited_ns = 0;
    if (file >> ran_ns >> waited_ns) total += waited_ns * 1e-9;
  }
  return total;
}

Contention::Contention() : begin_s_(waited_s()) {}

double Contention::share() const {
  if (disregarded) return 0;
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start_;
  return std::max(0.0, waited_s() - begin_s_) / std::max(wall.count(), 1e-6);
}

}  // namespace xrt
