/* SPDX-License-Identifier: Apache-2.0
 * Portable kernels. Constant factors are packed by XRT_GENERIC_PACK output channels. */
#ifndef XRT_LITE_GENERIC_H_
#define XRT_LITE_GENERIC_H_

#include "kernel_math.h"
#include "xrt_lite_hal.h"

#define XRT_GENERIC_PACK 8

xrt_lite_status xrt_generic_conv_f32(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_conv_q8(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_dwconv_f32(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_dwconv_q8(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_gemm_f32(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_gemm_q8(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_pool(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_ew(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_copy(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_fill(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_reduce(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_softmax(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_norm(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_gather(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_resize(const xrt_kernel_call* call);
xrt_lite_status xrt_generic_arg(const xrt_kernel_call* call);

/* Rows of a table of kernels: those that every driver takes from here. */
#define XRT_GENERIC_ROWS                                                      \
  [XRT_K_COPY] = xrt_generic_copy, [XRT_K_FILL] = xrt_generic_fill,           \
  [XRT_K_REDUCE] = xrt_generic_reduce, [XRT_K_SOFTMAX] = xrt_generic_softmax, \
  [XRT_K_NORM] = xrt_generic_norm, [XRT_K_GATHER] = xrt_generic_gather,       \
  [XRT_K_RESIZE] = xrt_generic_resize, [XRT_K_ARG] = xrt_generic_arg

#endif /* XRT_LITE_GENERIC_H_ */
