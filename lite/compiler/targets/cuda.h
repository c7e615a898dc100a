// SPDX-License-Identifier: Apache-2.0
// Parts of the target "cuda": kernels are written for each op of a model, its sizes constants, and
// compiled by NVRTC, which needs no GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel.h"
#include "targets/target.h"

namespace xrt::lite {

// A sum's tile and how many blocks share the terms of an output (cuda_sums.cc).
struct CudaTile {
  int bm, bn, tm, splits;
};
// Of y[m][n] per outer (groups or batches) over k terms. `pack`: columns that lie together in the
// packed factor, 0 where it is not packed.
CudaTile choose_cuda_tile(std::int64_t outer, std::int64_t m, std::int64_t n, std::int64_t k,
                          int pack);
// How a constant factor of n columns (per group) is packed. int8 and float16, and float32 where
// XRT_CUDA_TF32 is 1: for tensor cores.
Packing cuda_packing(int weight_dtype, std::int64_t n);
// Bytes of scratch memory for partial sums.
std::size_t cuda_scratch(xrt_kernel_id kernel, const void* params);

// What every file's source begins with.
std::string cuda_prelude();

struct CudaLaunch {
  std::uint32_t op, kernel;
  std::uint32_t grid[3], block;
};
struct CudaProgram {
  std::string source;
  int kernels = 0;
  // Kernels may be started before the one before them is done. Not where sums keep the processors
  // busy in float32: blocks of the next kernel would crowd on the first ones that are done
  // (ResNet-50 on an H200: 0.88 ms instead of 0.73).
  bool overlaps = true;
  std::vector<CudaLaunch> launches;
};
// Source and launches of a function's ops; equal kernels are written once.
CudaProgram write_cuda(const Module& module, const ModuleFunction& function);

struct CudaImage {
  bool ptx = false;
  int arch = 0;
  std::string bytes;
};
// Compiles for each architecture ("80", "90"; "ptx80": PTX for devices that are newer). Throws
// kNotFound where NVRTC cannot be found, kEngine with its log where it refuses.
std::vector<CudaImage> compile_cuda(const std::string& source,
                                    const std::vector<std::string>& architectures);

}  // namespace xrt::lite
