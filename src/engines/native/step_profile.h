// SPDX-License-Identifier: Apache-2.0
// Time per kernel of an executable, printed to stderr when the executable goes.
//
// Switched on by the environment variable XRT_NATIVE_PROFILE: "1" for time by the clock, "cpu" for
// CPU time of the process, which other programs on the machine disturb less.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace xrt::native {

class StepProfile {
 public:
  StepProfile() = default;
  ~StepProfile();
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  static bool wanted();
  static double now_us();

  // In the order of the steps. `implementation` may be empty.
  void name_step(std::string label, std::string implementation);
  void begin_run();
  void add(std::size_t step, double us);

 private:
  struct Row {
    std::string label;
    std::string implementation;
    double least_us = 1e300;
    double total_us = 0;
  };
  std::mutex mutex_;
  std::vector<Row> rows_;
  std::int64_t runs_ = 0;
};

}  // namespace xrt::native
