// SPDX-License-Identifier: Apache-2.0
#include "engines/native/step_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace xrt::native {

namespace {

std::string_view setting() {
  const char* value = std::getenv("XRT_NATIVE_PROFILE");
  return value == nullptr ? std::string_view() : value;
}

}  // namespace

bool StepProfile::wanted() { return setting() == "1" || setting() == "cpu"; }

double StepProfile::now_us() {
  static const clockid_t clock = setting() == "cpu" ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

void StepProfile::name_step(std::string label, std::string implementation) {
  rows_.push_back({.label = std::move(label), .implementation = std::move(implementation)});
}

void StepProfile::begin_run() {
  const std::lock_guard lock(mutex_);
  ++runs_;
}

void StepProfile::add(std::size_t step, double us) {
  const std::lock_guard lock(mutex_);
  rows_[step].least_us = std::min(rows_[step].least_us, us);
  rows_[step].total_us += us;
}

StepProfile::~StepProfile() {
  if (runs_ == 0) return;
  double least = 0;
  for (const Row& row : rows_) {
    if (row.total_us > 0) least += row.least_us;
  }
  fmt::print(stderr, "{} runs, {} steps, sum of the least times {:.1f} us\n", runs_, rows_.size(),
             least);
  fmt::print(stderr, "{:>5} {:>10} {:>10}  step\n", "step", "least us", "mean us");
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (row.total_us == 0) continue;
    fmt::print(stderr, "{:>5} {:>10.1f} {:>10.1f}  {} {}\n", i, row.least_us,
               row.total_us / static_cast<double>(runs_), row.label, row.implementation);
  }
}

}  // namespace xrt::native
