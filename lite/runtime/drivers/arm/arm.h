/* SPDX-License-Identifier: Apache-2.0
 * The driver "arm": NEON of 64-bit Arm, with dot products where the processor has them. */
#ifndef XRT_LITE_ARM_H_
#define XRT_LITE_ARM_H_

#include "../../tiles/tiles.h"

#define XRT_ARM_ROWS 6 /* of a tile: their sums are 24 of 32 registers */

extern const xrt_tile_isa xrt_arm_neon, xrt_arm_dotprod;

/* NEON's loops, all but mac_q8: the other instruction set has them, too. */
void xrt_arm_mac_f32(const xrt_tile* tile);
void xrt_arm_mac_f16(const xrt_tile* tile);
void xrt_arm_finish_f32(const xrt_tile_finish* finish);
void xrt_arm_finish_q8(const xrt_tile_finish* finish);
void xrt_arm_depthwise_f32(const xrt_tile_depthwise* work);
void xrt_arm_depthwise_q8(const xrt_tile_depthwise* work);
void xrt_arm_max_f32(float* y, const float* x, int32_t count);
void xrt_arm_add_f32(float* y, const float* x, int32_t count);
void xrt_arm_max_u8(uint8_t* y, const uint8_t* x, int32_t count, uint8_t flip);

#define XRT_ARM_ISA(MAC_Q8)                                                                  \
  {                                                                                          \
    {0, XRT_ARM_ROWS, 0, 0, 0}, 1, 1, xrt_arm_mac_f32, xrt_arm_mac_f16, MAC_Q8,              \
        xrt_arm_finish_f32, xrt_arm_finish_q8, xrt_arm_depthwise_f32, xrt_arm_depthwise_q8,  \
        xrt_arm_max_f32, xrt_arm_add_f32, xrt_arm_max_u8, NULL, NULL, NULL, NULL, NULL, NULL \
  }

/* Kernel tables by instruction set, "neon" or "dotprod"; null where the machine lacks it. */
const xrt_lite_kernel* xrt_arm_kernels(const char* name);

/* As many rows as fit into the registers, half of them, or one. */
#define XRT_ARM_BY_ROWS(CALL)    \
  if (t->row_count > 3) {        \
    CALL(6);                     \
  } else if (t->row_count > 1) { \
    CALL(3);                     \
  } else {                       \
    CALL(1);                     \
  }

/* A short loop, unrolled early enough that arrays over it become registers. */
#if defined(__GNUC__) && !defined(__clang__)
#define XRT_ARM_EACH(I, COUNT) _Pragma("GCC unroll 8") for (int I = 0; I < (COUNT); ++I)
#else
#define XRT_ARM_EACH(I, COUNT) for (int I = 0; I < (COUNT); ++I)
#endif

#endif /* XRT_LITE_ARM_H_ */
