/* SPDX-License-Identifier: Apache-2.0
 * The driver "x86": AVX2, AVX-512 (with VNNI) or AMX for int8, picked when a model is loaded. */
#ifndef XRT_LITE_X86_H_
#define XRT_LITE_X86_H_

#include "../../tiles/tiles.h"

extern const xrt_tile_isa xrt_x86_avx2, xrt_x86_avx512;

/* The portable kernel, compiled for wider vectors. */
xrt_lite_status xrt_x86_ew_avx2(const xrt_kernel_call* call);
xrt_lite_status xrt_x86_ew_avx512(const xrt_kernel_call* call);

/* Sums of float32, from the rows to the result. */
void xrt_x86_sum_f32_avx512(const xrt_tile* tile, const xrt_tile_finish* finish);
void xrt_x86_sum_f16_avx512(const xrt_tile* tile, const xrt_tile_finish* finish);
void xrt_x86_depthwise_row_avx512(const xrt_tile_depthwise_row* work);
void xrt_x86_pool_avx512(float* y, const float* const* taps, int32_t tap_count, int32_t channels,
                         float divisor);
void xrt_x86_sum_f32_avx2(const xrt_tile* tile, const xrt_tile_finish* finish);
void xrt_x86_sum_f16_avx2(const xrt_tile* tile, const xrt_tile_finish* finish);
void xrt_x86_depthwise_row_avx2(const xrt_tile_depthwise_row* work);
void xrt_x86_pool_avx2(float* y, const float* const* taps, int32_t tap_count, int32_t channels,
                       float divisor);

/* Depthwise windows of int8 and pools of bytes (bytes_avx512.c). */
void xrt_x86_depthwise_q8_avx512(const xrt_tile_depthwise_image* work, int32_t begin, int32_t end);
void xrt_x86_pool_u8_avx512(uint8_t* y, const uint8_t* const* taps, int32_t tap_count,
                            int32_t channels, uint8_t flip);

/* int8 sums in tiles (amx.c). They leave no tile in use. */
xrt_lite_status xrt_x86_amx_conv_q8(const xrt_kernel_call* call);
xrt_lite_status xrt_x86_amx_gemm_q8(const xrt_kernel_call* call);

/* Kernel tables by instruction set, "avx2", "avx512" or "amx" (AVX-512 beside it); null where the
 * machine lacks it. */
const xrt_lite_kernel* xrt_x86_kernels(const char* name);

#endif /* XRT_LITE_X86_H_ */
