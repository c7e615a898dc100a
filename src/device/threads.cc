// SPDX-License-Identifier: Apache-2.0
#include "device/threads.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/control_group.h"
#include "device/thread_gate.h"
#include "xrt/error.h"

namespace xrt {
namespace {

int affinity_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::optional<long long> read_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  long long value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// Control group version 2 states "quota period" or "max period" in one file, version 1 in two.
std::optional<int> cgroup_quota() {
  std::optional<int> least;
  const auto take = [&](long long quota, long long period) {
    if (quota <= 0 || period <= 0) return;
    const auto cpus = static_cast<int>(std::max<long long>(1, (quota + period - 1) / period));
    least = std::min(least.value_or(cpus), cpus);
  };
  for (const std::filesystem::path& group : control_group_folders("cpu")) {
    std::ifstream v2(group / "cpu.max");
    long long quota = 0;
    long long period = 0;
    if (v2 >> quota >> period) take(quota, period);
    const auto v1_quota = read_number(group / "cpu.cfs_quota_us");
    const auto v1_period = read_number(group / "cpu.cfs_period_us");
    if (v1_quota && v1_period) take(*v1_quota, *v1_period);
  }
  return least;
}

}  // namespace

int default_thread_budget() {
  const char* text = std::getenv("XRT_NUM_THREADS");
  if (text != nullptr && *text != '\0') {
    int value = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, status] = std::from_chars(text, end, value);
    if (status != std::errc{} || stop != end || value < 1 || value > kMaxThreads) {
      throw Error(ErrorCode::kInvalidArgument, "XRT_NUM_THREADS is '" + std::string(text) +
                                                   "'; a number from 1 to " +
                                                   std::to_string(kMaxThreads) + " is wanted");
    }
    return value;
  }
  int budget = affinity_count();
  if (const auto quota = cgroup_quota()) budget = std::min(budget, *quota);
  return budget;
}

int thread_budget() { return ThreadGate::process().budget(); }

void set_thread_budget(int threads) {
  if (threads < 1 || threads > kMaxThreads) {
    throw Error(ErrorCode::kInvalidArgument, "a thread budget of " + std::to_string(threads) +
                                                 "; a number from 1 to " +
                                                 std::to_string(kMaxThreads) + " is wanted");
  }
  ThreadGate::process().set_budget(threads);
}

int granted_threads(int wanted) {
  const int budget = thread_budget();
  return wanted > 0 ? std::min(wanted, budget) : budget;
}

ThreadShare thread_share(int num_threads, int streams) {
  const int granted = granted_threads(num_threads);
  if (streams <= 0) return {granted, 1, std::max(1, thread_budget() / granted)};
  const int divided = std::min(streams, granted);
  return {granted / divided, divided, streams};
}

}  // namespace xrt
