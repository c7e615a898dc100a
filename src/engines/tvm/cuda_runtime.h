// SPDX-License-Identifier: Apache-2.0
// TVM's CUDA runtime, a library of its own beside libtvm_runtime: opened when somebody asks for a
// GPU, because it needs NVIDIA's driver and CUDA's runtime library.
#pragma once

#include <string>

namespace xrt::tvm_engine {

struct CudaRuntime {
  std::string trouble;  // why no GPU can be used; empty if one can
  int devices = 0;      // that TVM sees
};

// Opens it once.
const CudaRuntime& cuda_runtime();

}  // namespace xrt::tvm_engine
