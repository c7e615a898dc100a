// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel.h"

namespace xrt::lite {

inline const char* kernel_name(int kernel) {
  static constexpr const char* kNames[XRT_K_COUNT] = {
      "none",    "conv_f32", "conv_q8", "dwconv_f32", "dwconv_q8", "gemm_f32",
      "gemm_q8", "pool",     "ew",      "copy",       "fill",      "reduce",
      "softmax", "norm",     "gather",  "resize",     "arg",       "model"};
  return kernel >= 0 && kernel < XRT_K_COUNT ? kNames[kernel] : "unknown";
}

}  // namespace xrt::lite
