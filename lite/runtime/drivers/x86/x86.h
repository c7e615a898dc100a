/* SPDX-License-Identifier: Apache-2.0
 * The driver "x86": AVX2 or AVX-512 (with VNNI), picked when a model is loaded. */
#ifndef XRT_LITE_X86_H_
#define XRT_LITE_X86_H_

#include "../../tiles/tiles.h"

extern const xrt_tile_isa xrt_x86_avx2, xrt_x86_avx512;

/* The portable kernel, compiled for wider vectors. */
xrt_lite_status xrt_x86_ew_avx2(const xrt_kernel_call* call);
xrt_lite_status xrt_x86_ew_avx512(const xrt_kernel_call* call);

/* Kernel tables by instruction set, "avx2" or "avx512"; null where the machine lacks it. */
const xrt_lite_kernel* xrt_x86_kernels(const char* name);

#endif /* XRT_LITE_X86_H_ */
