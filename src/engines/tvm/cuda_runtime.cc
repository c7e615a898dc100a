// SPDX-License-Identifier: Apache-2.0
#include "engines/tvm/cuda_runtime.h"

#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <filesystem>

namespace xrt::tvm_engine {
namespace {

namespace ffi = ::tvm::ffi;

constexpr const char* kLibrary = "libtvm_runtime_cuda.so";
constexpr int kExists = 0;  // TVM's attribute of a device
constexpr int kMost = 64;

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
  const auto attribute = ffi::Function::GetGlobal("runtime.GetDeviceAttr");
  if (!attribute) {
    runtime.trouble = "this TVM cannot be asked for devices";
    return runtime;
  }
  try {
    while (runtime.devices < kMost) {
      const ffi::Any answer = (*attribute)(static_cast<int>(kDLCUDA), runtime.devices, kExists);
      if (answer == nullptr || answer.cast<int>() == 0) break;
      ++runtime.devices;
    }
  } catch (const ffi::Error& error) {
    runtime.trouble = std::string("TVM finds no GPU: ") + error.what();
    return runtime;
  }
  if (runtime.devices == 0) runtime.trouble = "TVM finds no GPU";
  return runtime;
}

}  // namespace

const CudaRuntime& cuda_runtime() {
  static const CudaRuntime runtime = open();
  return runtime;
}

}  // namespace xrt::tvm_engine
