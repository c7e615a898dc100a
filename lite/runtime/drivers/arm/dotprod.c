/* SPDX-License-Identifier: Apache-2.0
 * SDOT (Armv8.2, optional): four channels by four factors in one instruction. */
#include <arm_neon.h>

#include "arm.h"

#define INLINE static inline __attribute__((always_inline))

INLINE void mac_int8(const xrt_tile* t, const int rows) {
  int32x4_t acc[XRT_ARM_ROWS][4];
  int32_t* sums = (int32_t*)t->acc;
  XRT_ARM_EACH (r, rows)
    XRT_ARM_EACH (q, 4)
      acc[r][q] = t->accumulate ? vld1q_s32(sums + r * XRT_TILE_BLOCK + 4 * q) : vdupq_n_s32(0);
  const uint8x16_t flip = vdupq_n_u8((uint8_t)t->flip);
  for (int32_t s = 0; s < t->segments; ++s) {
    const uint8_t* row[XRT_ARM_ROWS];
    XRT_ARM_EACH (r, rows) row[r] = (const uint8_t*)t->rows[s][r];
    const int8_t* w = (const int8_t*)t->w + s * t->segment_bytes;
    int32_t k = 0;
    for (; k + 4 <= t->run; k += 4) {
      int8x16_t x[XRT_ARM_ROWS];
      XRT_ARM_EACH (r, rows)
        x[r] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(row[r] + 4 * (int64_t)k), flip));
#define STEP(LANE)                                                                \
  XRT_ARM_EACH (q, 4) {                                                           \
    const int8x16_t f = vld1q_s8(w + 16 * q);                                     \
    XRT_ARM_EACH (r, rows) acc[r][q] = vdotq_laneq_s32(acc[r][q], f, x[r], LANE); \
  }                                                                               \
  w += XRT_TILE_BLOCK * 4;
      STEP(0)
      STEP(1)
      STEP(2)
      STEP(3)
#undef STEP
    }
    for (; k < t->run; ++k, w += XRT_TILE_BLOCK * 4) {
      XRT_ARM_EACH (r, rows) {
        uint32_t four;
        memcpy(&four, row[r] + 4 * (int64_t)k, 4);
        const int8x16_t x = vreinterpretq_s8_u32(vdupq_n_u32(four ^ t->flip));
        XRT_ARM_EACH (q, 4) acc[r][q] = vdotq_s32(acc[r][q], vld1q_s8(w + 16 * q), x);
      }
    }
  }
  XRT_ARM_EACH (r, rows)
    XRT_ARM_EACH (q, 4) vst1q_s32(sums + r * XRT_TILE_BLOCK + 4 * q, acc[r][q]);
}

static void mac_q8(const xrt_tile* t) {
#define CALL(R) mac_int8(t, R)
  XRT_ARM_BY_ROWS(CALL)
#undef CALL
}

const xrt_tile_isa xrt_arm_dotprod = XRT_ARM_ISA(mac_q8);
