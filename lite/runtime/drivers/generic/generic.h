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

#endif /* XRT_LITE_GENERIC_H_ */
