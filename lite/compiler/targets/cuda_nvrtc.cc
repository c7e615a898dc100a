// SPDX-License-Identifier: Apache-2.0
// The code of a file for "cuda", by NVRTC (src/device/cuda/nvrtc.h).
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "device/cuda/nvrtc.h"
#include "targets/cuda.h"
#include "xrt/error.h"

namespace xrt::lite {

std::vector<CudaImage> compile_cuda(const std::string& source,
                                    const std::vector<std::string>& architectures) {
  std::vector<CudaImage> images;
  for (const std::string& name : architectures) {
    CudaImage image;
    image.ptx = name.starts_with("ptx");
    const std::string digits = image.ptx ? name.substr(3) : name;
    if (digits.empty() || digits.size() > 3 ||
        !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("XRT_CUDA_ARCHS: '{}' is no architecture; write 90, or ptx80", name));
    }
    image.arch = std::atoi(digits.c_str());
    image.bytes = xrt::cuda::compile(source, image.arch, image.ptx);
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace xrt::lite
