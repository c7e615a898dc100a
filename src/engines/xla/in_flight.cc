// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/in_flight.h"

#include <fmt/format.h>

#include <utility>

#include "xrt/error.h"

namespace xrt::xla {

namespace {

// How far a caller may get ahead of the device: what runs give is memory until it has been used.
constexpr std::size_t kMostRuns = 4;

}  // namespace

void InFlight::add(Run run) {
  const std::lock_guard lock(mutex_);
  runs_.push_back(std::move(run));
}

std::vector<InFlight::Run> InFlight::settle(const PjrtApi& api, bool all) {
  std::vector<Run> ended;
  {
    const std::lock_guard lock(mutex_);
    while (!runs_.empty() &&
           (all || runs_.size() > kMostRuns || api.is_ready(runs_.front().complete.get()))) {
      ended.push_back(std::move(runs_.front()));
      runs_.pop_front();
    }
  }
  std::string failed;
  for (Run& run : ended) {
    try {
      api.await(std::move(run.complete), "a run");
    } catch (const Error& error) {
      failed += fmt::format("{}the run of function '{}' that was started earlier failed: {}",
                            failed.empty() ? "" : "; ", run.function, error.what());
    }
  }
  if (!failed.empty()) throw Error(ErrorCode::kEngine, failed);
  return ended;
}

}  // namespace xrt::xla
