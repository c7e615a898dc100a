// SPDX-License-Identifier: Apache-2.0
#include "engines/tensorrt/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "engine/handles.h"
#include "engines/tensorrt/executable.h"
#include "engines/tensorrt/library.h"
#include "engines/tensorrt/lowering.h"
#include "engines/tensorrt/plan.h"
#include "xrt/error.h"

namespace xrt::tensorrt {

namespace {

constexpr std::string_view kDevicePrefix = "cuda:";

int device_number(const std::string& device, const Driver* driver) {
  const std::string_view text(device);
  int number = -1;
  if (text == "cuda") {
    number = 0;
  } else if (text.starts_with(kDevicePrefix)) {
    const std::string_view digits = text.substr(kDevicePrefix.size());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size()) number = -1;
  }
  if (number < 0 || (driver != nullptr && number >= driver->device_count())) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("TensorRT: there is no device '{}'{}", device,
                            driver == nullptr ? "; devices are cuda:0, cuda:1, …"
                                              : fmt::format("; there are cuda:0 to cuda:{}",
                                                            driver->device_count() - 1)));
  }
  return number;
}

// Where builds for this GPU keep their measurements.
std::filesystem::path timing_cache(const CompileOptions& options, const std::string& gpu,
                                   const std::string& version) {
  if (options.records_dir.empty()) return {};
  Hasher hasher;
  hasher.add(gpu).add(version);
  return std::filesystem::path(options.records_dir) /
         fmt::format("tensorrt-timing-{}.bin", hasher.digest().hex());
}

}  // namespace

// What a compilation needs to know first.
struct TensorRtEngine::Setup {
  int device = 0;
  std::shared_ptr<const Planner> planner;
  Ranges ranges;
};

TensorRtEngine::TensorRtEngine(std::shared_ptr<const Driver> driver, std::string no_gpu)
    : driver_(std::move(driver)), no_gpu_(std::move(no_gpu)) {
  const std::string refusal = refuse_pair(NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR,
                                          getInferLibMajorVersion(), getInferLibMinorVersion());
  if (!refusal.empty()) throw Error(ErrorCode::kEngine, refusal);
  // TensorRT measures kernels on the GPU while it builds.
  if (driver_ == nullptr && !is_rtx()) throw Error(ErrorCode::kNotFound, no_gpu_);
  load_plugins();
  info_.name = "tensorrt";
  info_.location = library_location();
  info_.options = build_options_table();
  info_.shapes = Shapes::kAny;
  info_.core_version = core_version();
  info_.devices.clear();
  if (is_rtx()) info_.offline_options = {{"compute_capabilities", "89"}};
  if (driver_ == nullptr) {
    info_.devices = {{fmt::format("{}0", kDevicePrefix)}};
    info_.version = fmt::format("{} (no GPU)", library_version());
    return;
  }
  std::string gpus;
  for (int i = 0; i < driver_->device_count(); ++i) {
    info_.devices.push_back({fmt::format("{}{}", kDevicePrefix, i)});
    gpus += fmt::format("{}{} sm_{}", i == 0 ? "" : ", ", driver_->device_name(i),
                        driver_->compute_capability(i));
  }
  info_.version = fmt::format("{} ({}; CUDA {})", library_version(), gpus, driver_->version());
}

Support TensorRtEngine::supports(const SupportQuery& query) const {
  const bool has_device =
      std::any_of(info_.devices.begin(), info_.devices.end(),
                  [&](const DeviceInfo& device) { return device.name == query.device; });
  if (!has_device) {
    return Support::no(fmt::format("no device '{}'", query.device));
  }
  if (query.phase == Phase::kTraining) return Support::no("TensorRT is for inference only");
  return can_lower(graph_of(query.graph), query.node);
}

TensorRtEngine::Setup TensorRtEngine::prepare(const Function& function,
                                              const CompileOptions& options) const {
  Setup setup;
  setup.device = device_number(options.device, driver_.get());
  BuildOptions build = parse_build_options(options);
  build.loadable = driver_ != nullptr;
  std::string gpu;
  if (driver_ != nullptr) {
    driver_->use(setup.device);
    gpu = driver_->device_name(setup.device);
  } else if (build.compute_capabilities.empty()) {
    throw Error(ErrorCode::kEngine,
                fmt::format("TensorRT: {}: a plan can be built for another machine with the option "
                            "compute_capabilities, for example 89",
                            no_gpu_));
  } else {
    gpu = options.engine_options.at("compute_capabilities");
  }
  // TensorRT measures kernels when it builds, TensorRT-RTX compiles them when it loads.
  if (is_rtx()) {
    build.runtime_caches = options.records_dir;
  } else {
    build.timing_cache = timing_cache(options, gpu, info_.version);
  }
  setup.ranges = initial_ranges(graph_of(function.graph), options);
  // Where a run may come, its shapes decide what stays open; where none can, a guess does.
  if (driver_ == nullptr) close(setup.ranges);
  setup.planner = make_planner(function, options, std::move(build));
  return setup;
}

std::shared_ptr<const Executable> TensorRtEngine::compile(const Function& function,
                                                          const CompileOptions& options) const {
  Setup setup = prepare(function, options);
  std::shared_ptr<const EnginePlan> plan;
  if (complete(setup.ranges)) plan = setup.planner->build(setup.ranges);
  return std::make_shared<TrtExecutable>(graph_of(function.graph), function.name, driver_,
                                         setup.device, std::move(setup.planner),
                                         std::move(setup.ranges), std::move(plan), no_gpu_);
}

std::shared_ptr<const Executable> TensorRtEngine::load(const TensorView& view,
                                                       const Function& function,
                                                       const CompileOptions& options) const {
  Setup setup = prepare(function, options);
  auto [ranges, bytes] = TrtExecutable::unpack(tensor_of(view), function.name);
  if (graph_of(function.graph).inputs().empty()) ranges.clear();
  bool same = ranges.size() == graph_of(function.graph).inputs().size();
  for (std::size_t i = 0; same && i < ranges.size(); ++i) {
    same = ranges[i].size() ==
           graph_of(function.graph).type(graph_of(function.graph).inputs()[i]).rank();
  }
  if (!same) {
    throw Error(
        ErrorCode::kInvalidModel,
        fmt::format("TensorRT: the cached plan is not one of function '{}'", function.name));
  }
  std::shared_ptr<const EnginePlan> plan = setup.planner->load(bytes);
  return std::make_shared<TrtExecutable>(graph_of(function.graph), function.name, driver_,
                                         setup.device, std::move(setup.planner), std::move(ranges),
                                         std::move(plan), no_gpu_);
}

std::vector<std::string> TensorRtEngine::ops() const { return lowerings().ops(); }

}  // namespace xrt::tensorrt
