// SPDX-License-Identifier: Apache-2.0
#include "engines/tvm/cuda_runtime.h"

#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <charconv>
#include <filesystem>

#include "xrt/error.h"

namespace xrt::tvm_engine {
namespace {

namespace ffi = ::tvm::ffi;

constexpr const char* kLibrary = "libtvm_runtime_cuda.so";
constexpr int kMost = 64;

// TVM's attributes of a device, by its numbers.
constexpr int kExists = 0;
constexpr int kThreadsPerBlock = 1;
constexpr int kWarpSize = 2;
constexpr int kSharedMemoryPerBlock = 3;
constexpr int kComputeVersion = 4;  // "9.0"

// The folder of libtvm_runtime, which defines this function for generated code.
std::filesystem::path runtime_folder() {
  Dl_info info{};
  void* symbol = ::dlsym(RTLD_DEFAULT, "TVMBackendParallelLaunch");
  if (symbol == nullptr) symbol = ::dlsym(RTLD_NEXT, "TVMBackendParallelLaunch");
  if (symbol == nullptr || ::dladdr(symbol, &info) == 0) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

CudaRuntime open() {
  CudaRuntime runtime;
  const std::filesystem::path file = runtime_folder() / kLibrary;
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    const char* cause = ::dlerror();
    runtime.trouble = std::string("TVM's CUDA runtime cannot be opened: ") +
                      (cause != nullptr ? cause : "dlopen gave no cause");
    return runtime;
  }
  const auto function = ffi::Function::GetGlobal("runtime.GetDeviceAttr");
  if (!function) {
    runtime.trouble = "this TVM cannot be asked for devices";
    return runtime;
  }
  const auto attribute = [&](int gpu, int which) -> ffi::Any {
    return (*function)(static_cast<int>(kDLCUDA), gpu, which);
  };
  try {
    for (int i = 0; i < kMost; ++i) {
      const ffi::Any exists = attribute(i, kExists);
      if (exists == nullptr || exists.cast<int>() == 0) break;
      Gpu gpu{"sm_", attribute(i, kThreadsPerBlock).cast<int>(),
              attribute(i, kWarpSize).cast<int>(), attribute(i, kSharedMemoryPerBlock).cast<int>()};
      for (const char c : std::string(attribute(i, kComputeVersion).cast<ffi::String>())) {
        if (c != '.') gpu.architecture += c;
      }
      runtime.gpus.push_back(std::move(gpu));
    }
  } catch (const ffi::Error& error) {
    runtime.trouble = std::string("TVM finds no GPU: ") + error.what();
    return runtime;
  }
  if (runtime.gpus.empty()) runtime.trouble = "TVM finds no GPU";
  return runtime;
}

}  // namespace

const CudaRuntime& cuda_runtime() {
  static const CudaRuntime runtime = open();
  return runtime;
}

int gpu_index(std::string_view device) {
  int index = 0;
  if (const std::size_t colon = device.find(':'); colon != std::string_view::npos) {
    std::from_chars(device.data() + colon + 1, device.data() + device.size(), index);
  }
  return index;
}

const Gpu& gpu_of(std::string_view device) {
  const CudaRuntime& runtime = cuda_runtime();
  if (!runtime.trouble.empty()) throw Error(ErrorCode::kUnsupported, "tvm: " + runtime.trouble);
  const int index = gpu_index(device);
  if (index < 0 || index >= static_cast<int>(runtime.gpus.size())) {
    throw Error(ErrorCode::kUnsupported, "tvm: there is no device '" + std::string(device) + "'");
  }
  return runtime.gpus[static_cast<std::size_t>(index)];
}

}  // namespace xrt::tvm_engine
