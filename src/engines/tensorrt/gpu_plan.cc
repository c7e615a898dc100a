// SPDX-License-Identifier: Apache-2.0
#include "engines/tensorrt/gpu_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "engines/tensorrt/library.h"
#include "engines/tensorrt/lowering.h"
#include "xrt/error.h"

namespace xrt::tensorrt {

namespace nv = nvinfer1;
namespace fs = std::filesystem;

namespace {

// Members that only some releases of the headers have are asked for by a template, so that one
// source builds with all of them.
template <typename PlanEngine>
std::size_t scratch_bytes(const PlanEngine& engine) {
  if constexpr (requires { engine.getDeviceMemorySizeV2(); }) {
    return static_cast<std::size_t>(std::max<std::int64_t>(0, engine.getDeviceMemorySizeV2()));
  } else {
    return engine.getDeviceMemorySize();
  }
}

// Null with headers that know of no such cache.
template <typename Config>
auto new_cache(Config& config) {
  if constexpr (requires { config.createRuntimeCache(); }) {
    return std::unique_ptr<std::remove_pointer_t<decltype(config.createRuntimeCache())>>(
        config.createRuntimeCache());
  } else {
    return std::unique_ptr<Config>();
  }
}

// What TensorRT-RTX compiles on the GPU from a plan's kernels, kept in a file for the next process.
// Without a file, or with TensorRT, contexts are made and nothing is kept. Thread-safe.
template <typename Config>
class RuntimeCacheOf {
 public:
  RuntimeCacheOf(nv::ICudaEngine& engine, fs::path file) : file_(std::move(file)) {
    if constexpr (kHas) {
      if (file_.empty()) return;
      config_.reset(engine.createRuntimeConfig());
      if (config_ == nullptr) return;
      cache_ = new_cache(*config_);
      if (cache_ == nullptr) return;
      try {
        const std::string bytes = read_file(file_);
        if (!cache_->deserialize(bytes.data(), bytes.size())) {  // of another driver, or damaged
          log_info(fmt::format("TensorRT: {} is not usable; a new one is begun", file_.string()));
        }
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kNotFound) log_warning(error.what());
      }
      config_->setRuntimeCache(*cache_);
    }
  }
  nv::IExecutionContext* make_context(nv::ICudaEngine& engine) {
    const std::lock_guard lock(mutex_);
    return config_ == nullptr ? engine.createExecutionContext()
                              : engine.createExecutionContext(config_.get());
  }

  void save() {
    if constexpr (kHas) {
      const std::lock_guard lock(mutex_);
      if (cache_ == nullptr) return;
      const std::unique_ptr<nv::IHostMemory> bytes(cache_->serialize());
      if (bytes == nullptr || bytes->size() == 0) return;
      try {
        fs::create_directories(file_.parent_path());
        write_file_atomic(file_, {static_cast<const char*>(bytes->data()), bytes->size()});
      } catch (const std::exception& error) {  // a full disk costs the next start time, no more
        log_warning(fmt::format("TensorRT: compiled kernels were not kept: {}", error.what()));
      }
    }
  }

 private:
  static constexpr bool kHas = requires(Config & config) { config.createRuntimeCache(); };
  std::mutex mutex_;
  fs::path file_;
  std::unique_ptr<Config> config_;
  decltype(new_cache(std::declval<Config&>())) cache_;  // goes before its maker
};
using RuntimeCache = RuntimeCacheOf<nv::IRuntimeConfig>;

class OutputAllocator : public nv::IOutputAllocator {
 public:
  std::function<void*(std::size_t)> allocate;
  std::function<void(const Dims&)> notify;

  void* reallocateOutputAsync(const char* /*name*/, void* /*memory*/, std::uint64_t bytes,
                              std::uint64_t /*alignment*/, cudaStream_t /*stream*/) override {
    try {
      return allocate(static_cast<std::size_t>(bytes));
    } catch (const Error& error) {
      // Null makes enqueue fail, which then reports this.
      failure = error.what();
      return nullptr;
    }
  }
  void notifyShape(const char* /*name*/, const nv::Dims& dims) noexcept override {
    notify({dims.d, dims.d + std::max(0, dims.nbDims)});
  }

  std::string failure;
};

class TrtExecution : public Execution {
 public:
  TrtExecution(RuntimeCache& cache, nv::ICudaEngine& engine, std::size_t outputs)
      : cache_(cache), context_(cache.make_context(engine)), allocators_(outputs) {
    if (context_ == nullptr) fail("no execution context was made");
  }

  void set_shape(std::size_t input, const Dims& dims) override {
    if (!context_->setInputShape(fmt::format("i{}", input).c_str(), to_trt(dims))) {
      fail(fmt::format("input {} cannot be of shape {}", input, to_string(dims)));
    }
  }
  Dims output_dims(std::size_t output) const override {
    const nv::Dims dims = context_->getTensorShape(fmt::format("o{}", output).c_str());
    return {dims.d, dims.d + std::max(0, dims.nbDims)};
  }
  void bind_input(std::size_t input, const void* device) override {
    if (!context_->setInputTensorAddress(fmt::format("i{}", input).c_str(), device)) {
      fail(fmt::format("input {} cannot be bound", input));
    }
  }
  void bind_output(std::size_t output, void* device) override {
    if (!context_->setOutputTensorAddress(fmt::format("o{}", output).c_str(), device)) {
      fail(fmt::format("output {} cannot be bound", output));
    }
  }
  void bind_dynamic_output(std::size_t output, std::function<void*(std::size_t)> allocate,
                           std::function<void(const Dims&)> notify) override {
    OutputAllocator& allocator = allocators_.at(output);
    allocator.allocate = std::move(allocate);
    allocator.notify = std::move(notify);
    if (!context_->setOutputAllocator(fmt::format("o{}", output).c_str(), &allocator)) {
      fail(fmt::format("output {} cannot be allocated in the run", output));
    }
  }
  void enqueue(void* stream) override {
    if (context_->enqueueV3(static_cast<cudaStream_t>(stream))) {
      if (!std::exchange(has_run_, true)) cache_.save();
      return;
    }
    for (const OutputAllocator& allocator : allocators_) {
      if (!allocator.failure.empty()) fail(allocator.failure);
    }
    fail("the run was not accepted");
  }

 private:
  [[noreturn]] void fail(const std::string& what) {
    throw Error(ErrorCode::kEngine, fmt::format("TensorRT: {}: {}", what, logger().take_error()));
  }
  RuntimeCache& cache_;
  std::unique_ptr<nv::IExecutionContext> context_;
  bool has_run_ = false;
  std::vector<OutputAllocator> allocators_;
};

}  // namespace

struct GpuPlan::Engine {
  Engine(std::unique_ptr<nv::IRuntime> made, const Tensor& bytes)
      : runtime(std::move(made)),
        engine(runtime->deserializeCudaEngine(bytes.raw(), bytes.bytes())) {}
  std::unique_ptr<nv::IRuntime> runtime;
  std::unique_ptr<nv::ICudaEngine> engine;
  std::unique_ptr<RuntimeCache> cache;
};

GpuPlan::GpuPlan(Tensor bytes, std::size_t outputs, const fs::path& runtime_cache)
    : bytes_(std::move(bytes)), outputs_(outputs) {
  load_plugins();
  engine_ = std::make_unique<Engine>(make_runtime(), bytes_);
  if (engine_->engine == nullptr) {
    throw Error(ErrorCode::kEngine,
                "TensorRT: the plan cannot be loaded on this GPU: " + logger().take_error());
  }
  engine_->cache = std::make_unique<RuntimeCache>(*engine_->engine, runtime_cache);
}

GpuPlan::~GpuPlan() = default;

std::unique_ptr<Execution> GpuPlan::make_execution() const {
  return std::make_unique<TrtExecution>(*engine_->cache, *engine_->engine, outputs_);
}

std::size_t GpuPlan::workspace_bytes() const { return scratch_bytes(*engine_->engine); }

nv::ICudaEngine& GpuPlan::engine() const { return *engine_->engine; }

}  // namespace xrt::tensorrt
