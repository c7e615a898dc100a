/* SPDX-License-Identifier: Apache-2.0
 * Pointwise programs with AVX2: the portable loops, of which the compiler makes vectors. */
#define XRT_EW_BLOCK 256
#define xrt_generic_ew xrt_x86_ew_avx2
#include "../generic/ew.c"
