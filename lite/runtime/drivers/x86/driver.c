/* SPDX-License-Identifier: Apache-2.0
 * The driver "x86": which instruction set, and its table of kernels. */
#include <string.h>

#include "../generic/generic.h"
#include "x86.h"

#define KERNELS(ISA)                                                    \
  static xrt_lite_status ISA##_conv(const xrt_kernel_call* c) {         \
    return xrt_x86_conv(c, &xrt_x86_##ISA);                             \
  }                                                                     \
  static xrt_lite_status ISA##_conv_q8(const xrt_kernel_call* c) {      \
    return xrt_x86_conv_q8(c, &xrt_x86_##ISA);                          \
  }                                                                     \
  static xrt_lite_status ISA##_depthwise(const xrt_kernel_call* c) {    \
    return xrt_x86_depthwise_conv(c, &xrt_x86_##ISA);                   \
  }                                                                     \
  static xrt_lite_status ISA##_depthwise_q8(const xrt_kernel_call* c) { \
    return xrt_x86_depthwise_conv_q8(c, &xrt_x86_##ISA);                \
  }                                                                     \
  static xrt_lite_status ISA##_gemm(const xrt_kernel_call* c) {         \
    return xrt_x86_gemm(c, &xrt_x86_##ISA);                             \
  }                                                                     \
  static xrt_lite_status ISA##_gemm_q8(const xrt_kernel_call* c) {      \
    return xrt_x86_gemm_q8(c, &xrt_x86_##ISA);                          \
  }                                                                     \
  static xrt_lite_status ISA##_pool(const xrt_kernel_call* c) {         \
    return xrt_x86_pool(c, &xrt_x86_##ISA);                             \
  }                                                                     \
  static const xrt_lite_kernel ISA##_table[XRT_K_COUNT] = {             \
      [XRT_K_CONV_F32] = ISA##_conv,                                    \
      [XRT_K_CONV_Q8] = ISA##_conv_q8,                                  \
      [XRT_K_DWCONV_F32] = ISA##_depthwise,                             \
      [XRT_K_DWCONV_Q8] = ISA##_depthwise_q8,                           \
      [XRT_K_GEMM_F32] = ISA##_gemm,                                    \
      [XRT_K_GEMM_Q8] = ISA##_gemm_q8,                                  \
      [XRT_K_POOL] = ISA##_pool,                                        \
      [XRT_K_EW] = xrt_generic_ew,                                      \
      [XRT_K_COPY] = xrt_generic_copy,                                  \
      [XRT_K_FILL] = xrt_generic_fill,                                  \
      [XRT_K_REDUCE] = xrt_generic_reduce,                              \
      [XRT_K_SOFTMAX] = xrt_generic_softmax,                            \
      [XRT_K_NORM] = xrt_generic_norm,                                  \
      [XRT_K_GATHER] = xrt_generic_gather,                              \
      [XRT_K_RESIZE] = xrt_generic_resize,                              \
      [XRT_K_ARG] = xrt_generic_arg,                                    \
  };
KERNELS(avx2)
KERNELS(avx512)

const xrt_lite_kernel* xrt_x86_kernels(const char* name) {
  if (strcmp(name, "avx512") == 0 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni"))
    return avx512_table;
  if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return avx2_table; /* processors with AVX2 have F16C */
  return NULL;
}

static const xrt_lite_kernel* best(void) {
  const xrt_lite_kernel* kernels = xrt_x86_kernels("avx512");
  return kernels ? kernels : xrt_x86_kernels("avx2");
}

static xrt_lite_status open_device(const xrt_lite_allocator* allocator, xrt_lite_device** device) {
  (void)allocator;
  *device = NULL; /* there is nothing to keep */
  return best() ? XRT_LITE_OK : XRT_LITE_DEVICE_ERROR;
}

static void close_device(xrt_lite_device* device) { (void)device; }

static const xrt_lite_kernel* kernels_of(xrt_lite_device* device, int32_t* count) {
  (void)device;
  *count = XRT_K_COUNT;
  return best();
}

const xrt_lite_driver* xrt_lite_x86_driver(void) {
  static const xrt_lite_driver driver = {
      XRT_LITE_HAL_VERSION, "x86", open_device, close_device, kernels_of, NULL, NULL, NULL, NULL};
  return &driver;
}
