// SPDX-License-Identifier: Apache-2.0
// Stand-ins for the GPU: a driver whose device memory is the host's, and plans that double their
// input, so that binding, staging, profiles and rebuilding are tested on any machine.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engines/tensorrt/driver.h"
#include "engines/tensorrt/plan.h"
#include "xrt/error.h"

namespace xrt::tensorrt {

// Counts what is allocated; copies happen at synchronize(), as they may on a device.
class StandInDriver : public Driver {
 public:
  int device_count() const override { return 2; }
  std::string device_name(int device) const override {
    return device == 0 ? "Stand-In 4090" : "Stand-In 5090";
  }
  int compute_capability(int device) const override { return device == 0 ? 89 : 120; }
  std::string version() const override { return "13.0"; }

  void use(int device) const override {
    const std::lock_guard lock(mutex_);
    used_.insert(device);
  }
  void* allocate(std::size_t bytes) const override { return take(bytes, Memory::kDevice); }
  void release(void* memory) const noexcept override { give(memory); }
  void* allocate_host(std::size_t bytes) const override { return take(bytes, Memory::kPageLocked); }
  void release_host(void* memory) const noexcept override { give(memory); }
  Memory kind_of(const void* memory) const override {
    const std::lock_guard lock(mutex_);
    for (const auto& [begin, block] : blocks_) {
      const auto* first = static_cast<const char*>(begin);
      const auto* at = static_cast<const char*>(memory);
      if (at >= first && at < first + block.first) return block.second;
    }
    return Memory::kPageable;
  }

  void* make_stream() const override {
    const std::lock_guard lock(mutex_);
    ++streams_;
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(streams_));
  }
  void destroy_stream(void* /*stream*/) const noexcept override {
    const std::lock_guard lock(mutex_);
    ++destroyed_streams_;
  }
  void synchronize(void* stream) const override {
    ++synchronized_;
    for (const auto& work : std::exchange(pending_[stream], {})) work();
  }
  void copy_to_device(void* device, const void* host, std::size_t bytes,
                      void* stream) const override {
    // What the caller may change as soon as run() goes on must have been staged.
    pending_[stream].push_back([=] { std::memcpy(device, host, bytes); });
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes,
                    void* stream) const override {
    pending_[stream].push_back([=] { std::memcpy(host, device, bytes); });
  }
  void enqueue(void* stream, std::function<void()> work) const {
    pending_[stream].push_back(std::move(work));
  }

  std::size_t live_blocks() const { return blocks_.size(); }
  int streams() const { return streams_; }
  int destroyed_streams() const { return destroyed_streams_; }
  int synchronized() const { return synchronized_; }
  const std::set<int>& used() const { return used_; }

 private:
  void* take(std::size_t bytes, Memory kind) const {
    void* memory = std::malloc(bytes);  // NOLINT: the driver's memory is no object of ours
    const std::lock_guard lock(mutex_);
    blocks_[memory] = {bytes, kind};
    return memory;
  }
  void give(void* memory) const noexcept {
    const std::lock_guard lock(mutex_);
    blocks_.erase(memory);
    std::free(memory);  // NOLINT
  }
  mutable std::mutex mutex_;
  mutable std::map<void*, std::pair<std::size_t, Memory>> blocks_;
  mutable std::map<void*, std::vector<std::function<void()>>> pending_;
  mutable std::set<int> used_;
  mutable int streams_ = 0;
  mutable int destroyed_streams_ = 0;
  mutable int synchronized_ = 0;
};

// y = 2 x over float32 of one input; with `dynamic`, the result is of a shape that only the run
// knows: the elements above zero.
class StandInExecution : public Execution {
 public:
  StandInExecution(const StandInDriver& driver, Ranges ranges, bool dynamic)
      : driver_(driver), ranges_(std::move(ranges)), dynamic_(dynamic) {}
  void set_shape(std::size_t input, const Dims& dims) override {
    if (!fits({ranges_.at(input)}, {dims})) {
      throw Error(ErrorCode::kEngine, "the shape is outside of the profile");
    }
    dims_ = dims;
  }
  Dims output_dims(std::size_t /*output*/) const override { return dynamic_ ? Dims{-1} : dims_; }
  void bind_input(std::size_t /*input*/, const void* device) override { in_ = device; }
  void bind_output(std::size_t /*output*/, void* device) override { out_ = device; }
  void bind_dynamic_output(std::size_t /*output*/, std::function<void*(std::size_t)> allocate,
                           std::function<void(const Dims&)> notify) override {
    allocate_ = std::move(allocate);
    notify_ = std::move(notify);
  }
  void enqueue(void* stream) override {
    const auto count = static_cast<std::size_t>(element_count(dims_));
    if (dynamic_) {
      driver_.synchronize(stream);  // the count must be known before the memory is asked for
      const auto* x = static_cast<const float*>(in_);
      std::vector<float> kept;
      std::copy_if(x, x + count, std::back_inserter(kept), [](float v) { return v > 0; });
      std::memcpy(allocate_(kept.size() * sizeof(float)), kept.data(), kept.size() * sizeof(float));
      notify_({static_cast<std::int64_t>(kept.size())});
      return;
    }
    driver_.enqueue(stream, [count, in = in_, out = out_] {
      for (std::size_t i = 0; i < count; ++i) {
        static_cast<float*>(out)[i] = 2 * static_cast<const float*>(in)[i];
      }
    });
  }

 private:
  const StandInDriver& driver_;
  Ranges ranges_;
  bool dynamic_;
  Dims dims_;
  const void* in_ = nullptr;
  void* out_ = nullptr;
  std::function<void*(std::size_t)> allocate_;
  std::function<void(const Dims&)> notify_;
};

class StandInPlan : public EnginePlan {
 public:
  StandInPlan(std::shared_ptr<const StandInDriver> driver, Ranges ranges, Tensor bytes,
              bool dynamic)
      : driver_(std::move(driver)),
        ranges_(std::move(ranges)),
        bytes_(std::move(bytes)),
        dynamic_(dynamic) {}
  std::unique_ptr<Execution> make_execution() const override {
    return std::make_unique<StandInExecution>(*driver_, ranges_, dynamic_);
  }
  const Tensor& bytes() const override { return bytes_; }
  std::size_t workspace_bytes() const override { return 1000; }

 private:
  std::shared_ptr<const StandInDriver> driver_;
  Ranges ranges_;
  Tensor bytes_;
  bool dynamic_;
};

class StandInPlanner : public Planner {
 public:
  explicit StandInPlanner(std::shared_ptr<const StandInDriver> driver, bool dynamic = false)
      : driver_(std::move(driver)), dynamic_(dynamic) {}
  std::shared_ptr<const EnginePlan> build(const Ranges& ranges) const override {
    built.push_back(to_text(ranges));
    return std::make_shared<StandInPlan>(driver_, ranges, Tensor::from_int64(Dims{42}), dynamic_);
  }
  std::shared_ptr<const EnginePlan> load(const Tensor& bytes) const override {
    return std::make_shared<StandInPlan>(driver_, Ranges{}, bytes, dynamic_);
  }

  mutable std::vector<std::string> built;

 private:
  std::shared_ptr<const StandInDriver> driver_;
  bool dynamic_;
};

}  // namespace xrt::tensorrt
