// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs by generated kernels, cuBLASLt and cuDNN. All of NVIDIA's libraries are opened at run
// time; the driver and NVRTC are needed, the other two are used where they are.
#include "xrt/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "device/cuda/nvrtc.h"
#include "device/cuda_driver.h"
#include "engine/handles.h"
#include "engines/cuda/executable.h"
#include "engines/cuda/lowering.h"
#include "xrt/error.h"

namespace xrt::cuda {
namespace {

bool is_set(const CompileOptions& options, const char* name, bool otherwise) {
  const auto found = options.engine_options.find(name);
  if (found == options.engine_options.end()) return otherwise;
  return found->second == "true" || found->second == "1";
}

class CudaEngine final : public Engine {
 public:
  CudaEngine() {
    info_.name = "cuda";
    info_.version = "1";
    // Without a GPU the engine is there to be asked which ops it has, and refuses every node.
    if (gpus_ > 0) {
      info_.version += "; NVRTC " + nvrtc_version();
      if (cublas_trouble().empty()) info_.version += "; cuBLASLt " + cublas_version();
      if (cudnn_trouble().empty()) info_.version += "; cuDNN " + cudnn_version();
    }
    info_.core_version = core_version();
    info_.options = {
        {"tf32", EngineOption::Kind::kBool, "false", "products of float32 in TF32"},
        {"graph", EngineOption::Kind::kBool, "true", "replay a function as one CUDA graph"},
        {"measure", EngineOption::Kind::kBool, "true",
         "time the ways of cuBLASLt and cuDNN when a function is compiled"},
        {"libraries", EngineOption::Kind::kBool, "true",
         "use cuBLASLt and cuDNN; else all kernels are generated"},
        {"source_dir", EngineOption::Kind::kText, "", "a folder for each function's CUDA source"},
    };
    info_.devices.clear();
    constexpr bool kAsynchronous = true;
    info_.devices.push_back({"cuda", {Precision::kF32}, kAsynchronous});
    for (int i = 0; i < gpus_; ++i) {
      info_.devices.push_back({fmt::format("cuda:{}", i), {Precision::kF32}, kAsynchronous});
    }
  }

  const EngineInfo& info() const override { return info_; }
  std::vector<std::string> ops() const override { return LoweringRegistry::get().ops(); }

  Support supports(const SupportQuery& query) const override {
    if (gpus_ == 0) {
      return Support::no("NVIDIA's driver (libcuda.so.1) is not on this machine or finds no GPU");
    }
    const bool has_device =
        std::any_of(info_.devices.begin(), info_.devices.end(),
                    [&](const DeviceInfo& device) { return device.name == query.device; });
    if (!has_device) return Support::no("no device '" + query.device + "'");
    return supports_node(query.graph, query.node);
  }

  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    return std::make_shared<CudaExecutable>(function, ordinal_of(options), options,
                                            own_options(options));
  }
  std::shared_ptr<const Executable> load(const TensorView& blob, const Function& function,
                                         const CompileOptions& options) const override {
    return std::make_shared<CudaExecutable>(function, ordinal_of(options), own_options(options),
                                            tensor_of(blob));
  }

 private:
  static int ordinal_of(const CompileOptions& options) {
    return device_of(options.device).value_or(Device{}).ordinal;
  }
  static ExecutableOptions own_options(const CompileOptions& options) {
    ExecutableOptions own;
    own.tf32 = is_set(options, "tf32", own.tf32);
    own.graph = is_set(options, "graph", own.graph);
    own.measure = is_set(options, "measure", own.measure);
    own.use_libraries = is_set(options, "libraries", own.use_libraries);
    const auto source = options.engine_options.find("source_dir");
    if (source != options.engine_options.end()) own.source_dir = source->second;
    return own;
  }

  const int gpus_ = CudaDriver::device_count();
  EngineInfo info_;
};

}  // namespace
}  // namespace xrt::cuda

XRT_ENGINE(xrt::cuda::CudaEngine)
