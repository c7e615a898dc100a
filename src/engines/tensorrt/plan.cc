// SPDX-License-Identifier: Apache-2.0
#include "engines/tensorrt/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/nearest.h"
#include "engine/handles.h"
#include "engines/tensorrt/gpu_plan.h"
#include "engines/tensorrt/library.h"
#include "engines/tensorrt/lowering.h"
#include "xrt/error.h"

namespace xrt::tensorrt {

namespace nv = nvinfer1;
namespace fs = std::filesystem;

namespace {

// Members that only some releases of the headers have are asked for by a template, so that one
// source builds with all of them.
template <typename Config>
void set_compute_capabilities(Config& config, const std::vector<int>& wanted) {
  if (wanted.empty()) return;
  if constexpr (requires { config.setNbComputeCapabilities(1); }) {
    if (!config.setNbComputeCapabilities(static_cast<std::int32_t>(wanted.size()))) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("TensorRT: option compute_capabilities: {} are too many: {}",
                              wanted.size(), logger().take_error()));
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      using Capability = decltype(config.getComputeCapability(0));
      if (!config.setComputeCapability(static_cast<Capability>(wanted[i]),
                                       static_cast<std::int32_t>(i))) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("TensorRT: option compute_capabilities: {} is none that {} builds "
                                "for",
                                wanted[i], library_version()));
      }
    }
  } else {
    throw Error(ErrorCode::kUnsupported,
                "TensorRT: option compute_capabilities needs an engine that was built with the "
                "headers of the TensorRT-RTX SDK");
  }
}

// Forwards the builder's phases to CompileOptions::progress.
class Progress : public nv::IProgressMonitor {
 public:
  explicit Progress(const CompileOptions& options) : options_(options) {}
  void phaseStart(const char* name, const char* parent, std::int32_t steps) noexcept override {
    if (parent == nullptr) steps_ = std::max(1, steps);
    report(name, parent, 0);
  }
  bool stepComplete(const char* name, std::int32_t step) noexcept override {
    report(name, nullptr, step + 1);
    return true;  // false would stop the build
  }
  void phaseFinish(const char* /*name*/) noexcept override {}

 private:
  void report(const char* name, const char* parent, int step) noexcept {
    if (parent != nullptr) return;  // only the outermost phase has a meaningful part
    try {
      options_.progress(name, std::min(1.0, static_cast<double>(step) / steps_));
    } catch (const std::exception& error) {
      // It is called across NVIDIA's frames, so nothing may be thrown; the build goes on.
      log_info(fmt::format("TensorRT: reporting progress failed: {}", error.what()));
    }
  }
  const CompileOptions& options_;
  int steps_ = 1;
};

Tensor owned(const void* data, std::size_t bytes) {
  Tensor out = Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(bytes)});
  std::memcpy(out.raw(), data, bytes);
  return out;
}

void add_profile(nv::IBuilder& builder, nv::IBuilderConfig& config, const Ranges& ranges) {
  nv::IOptimizationProfile* profile = nullptr;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (std::all_of(ranges[i].begin(), ranges[i].end(), [](const Range& r) { return r.fixed(); })) {
      continue;
    }
    if (profile == nullptr) profile = builder.createOptimizationProfile();
    Dims min;
    Dims opt;
    Dims max;
    for (const Range& r : ranges[i]) {
      min.push_back(r.min);
      opt.push_back(r.opt);
      max.push_back(r.max);
    }
    const std::string name = fmt::format("i{}", i);
    if (!profile->setDimensions(name.c_str(), nv::OptProfileSelector::kMIN, to_trt(min)) ||
        !profile->setDimensions(name.c_str(), nv::OptProfileSelector::kOPT, to_trt(opt)) ||
        !profile->setDimensions(name.c_str(), nv::OptProfileSelector::kMAX, to_trt(max))) {
      throw Error(ErrorCode::kEngine,
                  "TensorRT refuses the ranges of input " + name + ": " + logger().take_error());
    }
  }
  if (profile != nullptr && config.addOptimizationProfile(profile) < 0) {
    throw Error(ErrorCode::kEngine, "TensorRT refuses the ranges of the inputs (" +
                                        to_text(ranges) + "): " + logger().take_error());
  }
}

// The timing cache of earlier builds, shared by processes. What it holds is bound to GPU and
// version by the file's name, and TensorRT checks both again.
class TimingCache {
 public:
  TimingCache(nv::IBuilderConfig& config, fs::path file) : config_(config), file_(std::move(file)) {
    if (file_.empty()) return;
    std::string bytes;
    try {
      bytes = read_file(file_);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) log_warning(error.what());
    }
    cache_.reset(config_.createTimingCache(bytes.data(), bytes.size()));
    if (cache_ == nullptr && !bytes.empty()) {  // of another build of the library, or damaged
      log_info(fmt::format("TensorRT: the timing cache {} is not usable; a new one is begun",
                           file_.string()));
      cache_.reset(config_.createTimingCache(nullptr, 0));
    }
    if (cache_ != nullptr && !config_.setTimingCache(*cache_, false)) cache_.reset();
  }

  void save() const {
    if (cache_ == nullptr) return;
    const std::unique_ptr<nv::IHostMemory> bytes(cache_->serialize());
    if (bytes == nullptr || bytes->size() == 0) return;
    try {
      fs::create_directories(file_.parent_path());
      write_file_atomic(file_, {static_cast<const char*>(bytes->data()), bytes->size()});
    } catch (const std::exception& error) {  // a full disk costs the next build time, no more
      log_warning(fmt::format("TensorRT: the timing cache was not kept: {}", error.what()));
    }
  }

 private:
  nv::IBuilderConfig& config_;
  fs::path file_;
  std::unique_ptr<nv::ITimingCache> cache_;
};

// A plan for a GPU that this machine has not.
class StoredPlan : public EnginePlan {
 public:
  explicit StoredPlan(Tensor bytes) : bytes_(std::move(bytes)) {}
  std::unique_ptr<Execution> make_execution() const override {
    throw Error(ErrorCode::kEngine, "a plan of TensorRT runs on a GPU");
  }
  const Tensor& bytes() const override { return bytes_; }
  std::size_t workspace_bytes() const override { return 0; }  // known to the GPU's runtime only

 private:
  Tensor bytes_;
};

// What `use` makes of the network of a function.
template <typename Use>
auto lowered(const Graph& graph, const std::string& name, const Use& use) {
  const auto builder = make_builder();
  const auto network = make_network(*builder);
  Net net(*network);
  lower_function(graph, name, net);
  return use(net);
}

class TrtPlanner : public Planner {
 public:
  TrtPlanner(const Function& function, const CompileOptions& options, BuildOptions build)
      : graph_(graph_of(function.graph)),
        name_(function.name),
        options_(options),
        build_(std::move(build)) {}

  std::shared_ptr<const EnginePlan> build(const Ranges& ranges) const override {
    return load(build_plan(graph_, name_, ranges, build_, options_));
  }
  std::shared_ptr<const EnginePlan> load(const Tensor& bytes) const override {
    if (!build_.loadable) return std::make_shared<StoredPlan>(bytes);
    return open(bytes);
  }

 private:
  std::shared_ptr<const GpuPlan> open(const Tensor& bytes) const {
    fs::path runtime_cache;
    if (!build_.runtime_caches.empty()) {
      runtime_cache =
          build_.runtime_caches /
          fmt::format("tensorrt-rtx-kernels-{}.bin", hash_bytes(bytes.raw(), bytes.bytes()).hex());
    }
    return std::make_shared<GpuPlan>(bytes, graph_.outputs().size(), runtime_cache);
  }

  Graph graph_;  // for later builds; shares the model's tensors
  std::string name_;
  CompileOptions options_;
  BuildOptions build_;
};

int parse_int(std::string_view key, std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("TensorRT: option {}: '{}' is no number from {} to {}", key, text, low, high));
  }
  return value;
}

}  // namespace

std::vector<EngineOption> build_options_table() {
  using Kind = EngineOption::Kind;
  return {
      {"compute_capabilities", Kind::kText, "",
       "GPUs to build for, as 89,120 (TensorRT-RTX); default: the GPU there is"},
      {"optimization_level", Kind::kInt, "", "0 to 5; default: the builder's"},
      {"shapes", Kind::kText, "", "ranges of the graph's symbols, as N=1:8:32,H=224"},
      {"tf32", Kind::kBool, "false", "products of float32 in TF32"},
  };
}

BuildOptions parse_build_options(const CompileOptions& options) {
  BuildOptions out;
  // "shapes" is read by initial_ranges().
  for (const auto& [key, value] : options.engine_options) {
    if (key == "tf32") {
      out.tf32 = value == "1" || value == "true";
    } else if (key == "optimization_level") {
      out.optimization_level = parse_int(key, value, 0, 5);
    } else if (key == "compute_capabilities") {
      std::string_view rest = value;
      while (!rest.empty()) {
        const std::size_t end = rest.find(',');
        // "89" or "8.9".
        std::string number(rest.substr(0, end));
        const std::size_t point = number.find('.');
        if (point != std::string::npos && point + 2 == number.size()) number.erase(point, 1);
        out.compute_capabilities.push_back(parse_int(key, number, 50, 999));
        rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
      }
    }
  }
  return out;
}

std::shared_ptr<const Planner> make_planner(const Function& function, const CompileOptions& options,
                                            BuildOptions build) {
  return std::make_shared<TrtPlanner>(function, options, std::move(build));
}

Tensor build_plan(const Graph& graph, const std::string& name, const Ranges& ranges,
                  const BuildOptions& build, const CompileOptions& options) {
  load_plugins();
  const auto builder = make_builder();
  const auto network = make_network(*builder);
  Net net(*network);
  lower_function(graph, name, net);
  const std::unique_ptr<nv::IBuilderConfig> config(builder->createBuilderConfig());
  if (config == nullptr) throw Error(ErrorCode::kEngine, "TensorRT: " + logger().take_error());
  if (options.max_workspace_bytes > 0) {
    config->setMemoryPoolLimit(nv::MemoryPoolType::kWORKSPACE, options.max_workspace_bytes);
  }
  // float32 stays float32; TensorRT's own default is TF32.
  if (!build.tf32) config->clearFlag(nv::BuilderFlag::kTF32);
  if (build.optimization_level) config->setBuilderOptimizationLevel(*build.optimization_level);
  set_compute_capabilities(*config, build.compute_capabilities);
  add_profile(*builder, *config, ranges);
  Progress progress(options);
  if (options.progress) config->setProgressMonitor(&progress);
  TimingCache timing(*config, build.timing_cache);
  logger().take_error();
  const std::unique_ptr<nv::IHostMemory> plan(builder->buildSerializedNetwork(*network, *config));
  if (plan == nullptr) {
    throw Error(ErrorCode::kEngine, fmt::format("TensorRT: function '{}' could not be built: {}",
                                                name, logger().take_error()));
  }
  timing.save();
  return owned(plan->data(), plan->size());
}

}  // namespace xrt::tensorrt
