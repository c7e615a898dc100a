// SPDX-License-Identifier: Apache-2.0
// NVRTC, the compiler of CUDA C++ that is a library and needs no GPU. It is opened on first use.
#pragma once

#include <string>

#include "xrt/export.h"

namespace xrt::cuda {

// "12.8", "13.0". Throws kNotFound where there is none.
XRT_API std::string nvrtc_version();

// Compiles C++17 for a compute capability (90 for 9.0): to code of exactly such devices, or with
// `ptx` to PTX for them and newer ones. Throws kNotFound where NVRTC cannot be found, kEngine with
// its log where it refuses.
XRT_API std::string compile(const std::string& source, int capability, bool ptx = false);

}  // namespace xrt::cuda
