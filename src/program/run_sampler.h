// SPDX-License-Identifier: Apache-2.0
// Takes copies of some of a plan's runs, to be measured with: where sizes are fixed of the first
// one, else of all, in the order in which they come.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/fork_mutex.h"
#include "measure/workload.h"
#include "xrt/export.h"
#include "xrt/tensor.h"

namespace xrt {

// Thread-safety: all functions may be called at once.
class XRT_API RunSampler {
 public:
  // A run that counts.
  struct Sample {
    std::vector<Data> inputs;
    bool has_new_sizes = false;
    std::chrono::steady_clock::time_point start;
  };

  explicit RunSampler(bool is_open) : is_open_(is_open) {}

  // Before a run. `wanted`: it may count. Nothing where it does not, or enough have.
  std::optional<Sample> begin(std::span<const Data> inputs, bool wanted);
  // After it. True once there are enough.
  bool end(Sample sample);
  bool is_complete() const;
  // What was sampled, but for who served it; nothing is sampled any more.
  Workload take();

 private:
  // A plan that serves a few runs only is not worth measuring.
  static constexpr std::size_t kEnoughRuns = 8;
  // Of all runs together. What is slow or large is measured after fewer.
  static constexpr std::chrono::milliseconds kLongest{500};
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  static constexpr std::size_t kMostSizes = 4096;  // that are told from new ones

  bool complete() const;  // with the lock held

  using Clock = std::chrono::steady_clock;

  const bool is_open_;
  mutable ForkMutex mutex_;
  std::set<Dims> sizes_;  // of all runs: the dimensions of all tensors
  Workload workload_;
  std::size_t runs_ = 0, new_runs_ = 0;  // that count
  std::size_t bytes_ = 0;
  Clock::duration time_{0};
  std::optional<Clock::time_point> last_end_;  // of a run that counts
  std::vector<Clock::duration> pauses_;        // before those that count, 0 where runs overlap
  bool taken_ = false;
};

}  // namespace xrt
