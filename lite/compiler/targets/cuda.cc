// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs through the driver API (lite/runtime/drivers/cuda).
#include "targets/cuda.h"

#include <algorithm>
#include <cstdlib>

#include "drivers/cuda/code.h"
#include "module.h"
#include "targets/target.h"

namespace xrt::lite {
namespace {

// XRT_CUDA_ARCHS, separated by commas.
std::vector<std::string> architectures() {
  const char* set = std::getenv("XRT_CUDA_ARCHS");
  std::string list = set != nullptr && *set != '\0' ? set : "80,90,ptx80";
  std::vector<std::string> result;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    if (end > at) result.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return result;
}

template <typename T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

class Cuda : public Target {
 public:
  std::string name() const override { return "cuda"; }
  bool host_memory() const override { return false; }

  std::optional<std::string> refuses(xrt_kernel_id kernel, const void*) const override {
    switch (kernel) {
      case XRT_K_GATHER:
        return "indices are checked, and a kernel here cannot report one that is out of range";
      default:
        return {};
    }
  }
  Packing pack_conv(xrt_kernel_id, const xrt_k_conv& p) const override {
    return cuda_packing(p.weight_dtype, p.oc / p.groups);
  }
  Packing pack_gemm(xrt_kernel_id, const xrt_k_gemm& p) const override {
    return cuda_packing(p.weight_dtype, p.n);
  }
  std::size_t scratch_bytes(xrt_kernel_id kernel, const void* params) const override {
    return cuda_scratch(kernel, params);
  }

  std::string code(const Module& module, const ModuleFunction& function) const override {
    const CudaProgram program = write_cuda(module, function);
    const std::vector<CudaImage> images = compile_cuda(program.source, architectures());
    xrt_cuda_code header = {};
    header.magic = XRT_CUDA_MAGIC;
    header.version = XRT_CUDA_VERSION;
    header.flags = program.overlaps ? XRT_CUDA_OVERLAP : 0;
    header.image_count = static_cast<std::uint32_t>(images.size());
    header.kernel_count = static_cast<std::uint32_t>(program.kernels);
    header.launch_count = static_cast<std::uint32_t>(program.launches.size());
    std::string result;
    append(result, header);
    std::size_t at = sizeof(header) + images.size() * sizeof(xrt_cuda_image) +
                     program.launches.size() * sizeof(xrt_cuda_launch);
    for (const CudaImage& image : images) {
      at = (at + 15) / 16 * 16;
      append(result,
             xrt_cuda_image{std::uint32_t{image.ptx ? XRT_CUDA_PTX : XRT_CUDA_CUBIN},
                            static_cast<std::uint32_t>(image.arch), static_cast<std::uint32_t>(at),
                            static_cast<std::uint32_t>(image.bytes.size())});
      at += image.bytes.size();
    }
    for (const CudaLaunch& l : program.launches) {
      append(result, xrt_cuda_launch{l.op, l.kernel, {l.grid[0], l.grid[1], l.grid[2]}, l.block});
    }
    for (const CudaImage& image : images) {
      result.resize((result.size() + 15) / 16 * 16);
      result += image.bytes;
    }
    return result;
  }
};

}  // namespace

const Target& cuda_target() {
  static const Cuda target;
  return target;
}

}  // namespace xrt::lite
