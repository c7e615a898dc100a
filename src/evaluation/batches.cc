// SPDX-License-Identifier: Apache-2.0
#include "evaluation/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/interrupt.h"
#include "xrt/error.h"
#include "xrt/threads.h"

namespace xrt {
namespace {

constexpr std::size_t kComplaints = 10;

}  // namespace

BatchLoader::BatchLoader(const LabelledSet& set, const std::vector<Port>& inputs,
                         const BatchOptions& options, std::size_t held)
    : set_(set),
      options_(options),
      shape_(set, inputs, options),
      size_(static_cast<std::size_t>(shape_.batch())),
      total_(options.limit > 0 ? std::min(options.limit, set.size()) : set.size()),
      held_(held),
      buffers_(held + 1) {
  for (std::size_t number = 0; number < buffers_.size(); ++number) {
    buffers_[number].whole = shape_.allocate(shape_.batch());
    begin(number);
  }
  const std::size_t wanted = options.workers > 0 ? static_cast<std::size_t>(options.workers)
                                                 : static_cast<std::size_t>(thread_budget());
  for (std::size_t i = 0; i < std::min(wanted, total_); ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// The buffer of batch `number` is for that batch from now on.
void BatchLoader::begin(std::size_t number) {
  const std::size_t first = number * size_;
  Buffer& buffer = buffers_[number % buffers_.size()];
  const std::size_t count = first < total_ ? std::min(size_, total_ - first) : 0;
  buffer.left = count;
  buffer.errors.clear();
  buffer.batch.first = first;
  buffer.batch.labels.assign(count, 0);
  buffer.batch.counts.assign(count, true);
  buffer.batch.inputs = count < size_ && shape_.open_batch()
                            ? shape_.first_of(buffer.whole, static_cast<std::int64_t>(count))
                            : buffer.whole;
}

void BatchLoader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    room_.wait(lock, [this] {
      return stop_ || next_sample_ >= total_ || next_sample_ / size_ < done_ + buffers_.size();
    });
    if (stop_ || next_sample_ >= total_) return;
    const std::size_t index = next_sample_++;
    Buffer& buffer = buffers_[index / size_ % buffers_.size()];
    lock.unlock();
    const std::exception_ptr error = fill(index, buffer, index % size_);
    lock.lock();
    if (error != nullptr) buffer.errors[index] = error;
    if (--buffer.left == 0) ready_.notify_one();
  }
}

std::exception_ptr BatchLoader::fill(std::size_t index, Buffer& buffer, std::size_t row) {
  try {
    const LabelledSample sample = set_.read(index);
    shape_.store(sample, buffer.whole, static_cast<std::int64_t>(row));
    buffer.batch.labels[row] = sample.label + options_.label_offset;
    return nullptr;
  } catch (const Error& e) {
    return std::make_exception_ptr(
        Error(e.code(), fmt::format("{}: {}", set_.place(index), e.what())));
  } catch (...) {  // out of memory: the caller is told
    return std::current_exception();
  }
}

const Batch* BatchLoader::next() {
  std::unique_lock lock(mutex_);
  if (given_ == held_) {
    --given_;
    ++done_;
    begin(done_ + held_);
    room_.notify_all();
  }
  const std::size_t number = done_ + given_;
  if (number * size_ >= total_) return nullptr;
  Buffer& buffer = buffers_[number % buffers_.size()];
  while (!ready_.wait_for(lock, std::chrono::milliseconds(50), [&] { return buffer.left == 0; })) {
    throw_if_interrupted();
  }
  for (const auto& [index, error] : buffer.errors) {
    if (!options_.skip_bad) std::rethrow_exception(error);
    try {
      std::rethrow_exception(error);
    } catch (const Error& e) {
      buffer.batch.counts[index - buffer.batch.first] = false;
      ++skipped_;
      if (complaints_.size() < kComplaints) complaints_.emplace_back(e.what());
    }
  }
  ++given_;
  return &buffer.batch;
}

std::size_t BatchLoader::skipped() const {
  const std::lock_guard lock(mutex_);
  return skipped_;
}

std::vector<std::string> BatchLoader::complaints() const {
  const std::lock_guard lock(mutex_);
  return complaints_;
}

}  // namespace xrt
