// SPDX-License-Identifier: Apache-2.0
// TVM's CUDA runtime, a library of its own beside libtvm_runtime: opened when somebody asks for a
// GPU, because it needs NVIDIA's driver and CUDA's runtime library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xrt::tvm_engine {

// What a compiler has to know of a GPU.
struct Gpu {
  std::string architecture;  // "sm_90"
  int threads_per_block = 0;
  int warp_size = 0;
  int shared_memory_per_block = 0;  // bytes
};

struct CudaRuntime {
  std::string trouble;    // why no GPU can be used; empty if one can
  std::vector<Gpu> gpus;  // that TVM sees
};

// Opens it once.
const CudaRuntime& cuda_runtime();

// "cuda" is the first GPU, "cuda:2" the third.
int gpu_index(std::string_view device);

// The GPU of such a device. Throws kUnsupported with the reason where there is none.
const Gpu& gpu_of(std::string_view device);

}  // namespace xrt::tvm_engine
