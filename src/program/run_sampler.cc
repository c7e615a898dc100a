// SPDX-License-Identifier: Apache-2.0
#include "program/run_sampler.h"

#include <algorithm>
#include <utility>

namespace xrt {
namespace {

Dims sizes_of(std::span<const Data> inputs) {
  Dims sizes;
  for (const Data& data : inputs) {
    if (!data.is_tensor()) continue;
    const Dims& dims = data.tensor().dims();
    sizes.push_back(static_cast<std::int64_t>(dims.size()));
    sizes.insert(sizes.end(), dims.begin(), dims.end());
  }
  return sizes;
}

}  // namespace

std::optional<RunSampler::Sample> RunSampler::begin(std::span<const Data> inputs, bool wanted) {
  Sample sample;
  bool is_kept = false;
  {
    const std::lock_guard lock(mutex_);
    if (complete()) return std::nullopt;
    if (is_open_ && sizes_.size() < kMostSizes) {
      sample.has_new_sizes = sizes_.insert(sizes_of(inputs)).second;
    }
    if (!wanted) return std::nullopt;
    is_kept = is_open_ || workload_.runs.empty();
  }
  if (is_kept) sample.inputs = copies(inputs);
  sample.start = Clock::now();
  return sample;
}

bool RunSampler::end(Sample sample) {
  const Clock::time_point now = Clock::now();
  const Clock::duration took = now - sample.start;
  const std::lock_guard lock(mutex_);
  if (complete()) return !taken_;
  if (sample.has_new_sizes) {
    ++new_runs_;
    workload_.served_first_us.push_back(std::chrono::duration<double, std::micro>(took).count());
  }
  if (last_end_) pauses_.push_back(std::max(sample.start - *last_end_, Clock::duration{0}));
  last_end_ = now;
  ++runs_;
  time_ += took;
  if (is_open_ || workload_.runs.empty()) {
    bytes_ += bytes_of(sample.inputs);
    workload_.runs.push_back(std::move(sample.inputs));
  }
  return complete();
}

bool RunSampler::is_complete() const {
  const std::lock_guard lock(mutex_);
  return complete() && !taken_;
}

bool RunSampler::complete() const {
  return taken_ || runs_ >= kEnoughRuns || time_ >= kLongest || bytes_ >= kMostBytes;
}

Workload RunSampler::take() {
  const std::lock_guard lock(mutex_);
  taken_ = true;
  sizes_.clear();
  if (runs_ > 0) workload_.new_share = static_cast<double>(new_runs_) / static_cast<double>(runs_);
  if (!pauses_.empty()) {
    // The smaller of two in the middle: runs in a burst are worth more than the time between
    // bursts.
    const auto middle = pauses_.begin() + static_cast<std::ptrdiff_t>((pauses_.size() - 1) / 2);
    std::nth_element(pauses_.begin(), middle, pauses_.end());
    workload_.pause = *middle;
  }
  return std::move(workload_);
}

}  // namespace xrt
