/* SPDX-License-Identifier: Apache-2.0
 * Sums of products, of two rows and two channels at a time. */
#include "cortex_m.h"

void xrt_cm_widen(const uint8_t* from, int32_t count, int32_t dtype, int32_t zero, int32_t first,
                  int16_t* to) {
  int32_t i = 0;
#ifdef XRT_CM_DSP
  if ((first & 3) == 0) {
    const uint32_t zeros = (uint32_t)(uint16_t)zero * 0x10001u;
    for (; i + 4 <= count; i += 4) {
      uint32_t four, even, odd;
      memcpy(&four, from + i, 4);
      if (dtype == XRT_LITE_U8) {
        even = __uxtb16(four);
        odd = __uxtb16(four >> 8);
      } else {
        even = (uint32_t)__sxtb16(four);
        odd = (uint32_t)__sxtb16(four >> 8 | four << 24);
      }
      even = (uint32_t)__ssub16((int16x2_t)even, (int16x2_t)zeros);
      odd = (uint32_t)__ssub16((int16x2_t)odd, (int16x2_t)zeros);
      memcpy(to + first + i, &even, 4);
      memcpy(to + first + i + 2, &odd, 4);
    }
  }
#endif
  for (; i < count; ++i)
    to[xrt_cm_place(first + i)] = (int16_t)(xrt_load_q8(from, i, dtype) - zero);
}

/* acc += two widened rows by two channels, `count` values, a multiple of 4. */
static void mac(int32_t acc[2][2], const int16_t* x0, const int16_t* x1, const int8_t* w0,
                const int8_t* w1, int32_t count) {
#if defined(XRT_CM_MVE)
  int32_t a = acc[0][0], b = acc[0][1], c = acc[1][0], d = acc[1][1];
  for (int32_t k = 0; k < count; k += 8) {
    const mve_pred16_t p = vctp16q((uint32_t)(count - k));
    const int16x8_t f0 = vldrbq_z_s16(w0 + k, p), f1 = vldrbq_z_s16(w1 + k, p);
    const int16x8_t v0 = vldrhq_z_s16(x0 + k, p), v1 = vldrhq_z_s16(x1 + k, p);
    a = vmladavaq_s16(a, v0, f0);
    b = vmladavaq_s16(b, v0, f1);
    c = vmladavaq_s16(c, v1, f0);
    d = vmladavaq_s16(d, v1, f1);
  }
#elif defined(XRT_CM_DSP)
  int32_t a = acc[0][0], b = acc[0][1], c = acc[1][0], d = acc[1][1];
  for (int32_t k = 0; k < count; k += 4) {
    uint32_t f0, f1, v0, v1;
    memcpy(&f0, w0 + k, 4);
    memcpy(&f1, w1 + k, 4);
    memcpy(&v0, x0 + k, 4);
    memcpy(&v1, x1 + k, 4);
    const int16x2_t even0 = __sxtb16(f0), even1 = __sxtb16(f1);
    a = __smlad((int16x2_t)v0, even0, a);
    b = __smlad((int16x2_t)v0, even1, b);
    c = __smlad((int16x2_t)v1, even0, c);
    d = __smlad((int16x2_t)v1, even1, d);
    memcpy(&v0, x0 + k + 2, 4);
    memcpy(&v1, x1 + k + 2, 4);
    const int16x2_t odd0 = __sxtb16(f0 >> 8 | f0 << 24), odd1 = __sxtb16(f1 >> 8 | f1 << 24);
    a = __smlad((int16x2_t)v0, odd0, a);
    b = __smlad((int16x2_t)v0, odd1, b);
    c = __smlad((int16x2_t)v1, odd0, c);
    d = __smlad((int16x2_t)v1, odd1, d);
  }
#else
  /* Sums wrap around as the instructions' do. */
  uint32_t a = (uint32_t)acc[0][0], b = (uint32_t)acc[0][1];
  uint32_t c = (uint32_t)acc[1][0], d = (uint32_t)acc[1][1];
  for (int32_t k = 0; k < count; ++k) {
    a += (uint32_t)(x0[k] * w0[k]);
    b += (uint32_t)(x0[k] * w1[k]);
    c += (uint32_t)(x1[k] * w0[k]);
    d += (uint32_t)(x1[k] * w1[k]);
  }
#endif
  acc[0][0] = (int32_t)a;
  acc[0][1] = (int32_t)b;
  acc[1][0] = (int32_t)c;
  acc[1][1] = (int32_t)d;
}

void xrt_cm_multiply(const xrt_cm_rows* m) {
  _Alignas(4) int16_t wide[2][XRT_CM_CHUNK];
  int32_t sums[XRT_CM_CHANNELS / 2][2][2];
  const int32_t row_bytes = (m->k + 3) & ~3; /* of a channel's factors */
  for (int32_t row = 0; row < m->rows; row += 2) {
    const int32_t rows = m->rows - row < 2 ? 1 : 2;
    for (int32_t first = 0; first < m->channels; first += XRT_CM_CHANNELS) {
      const int32_t channels =
          m->channels - first < XRT_CM_CHANNELS ? m->channels - first : XRT_CM_CHANNELS;
      memset(sums, 0, sizeof(sums));
      for (int32_t k = 0; k < m->k; k += XRT_CM_CHUNK) {
        const int32_t count = m->k - k < XRT_CM_CHUNK ? m->k - k : XRT_CM_CHUNK;
        const int32_t filled = (count + 3) & ~3;
        if (first == 0 || m->k > XRT_CM_CHUNK) {
          for (int32_t i = 0; i < rows; ++i) {
            m->fetch(m->job, row + i, k, count, wide[i]);
            for (int32_t z = count; z < filled; ++z) wide[i][xrt_cm_place(z)] = 0;
          }
        }
        for (int32_t c = 0; c < channels; c += 2) {
          const int8_t* w0 = m->w + (int64_t)(first + c) * row_bytes + k;
          const int8_t* w1 = c + 1 < channels ? w0 + row_bytes : w0;
          mac(sums[c / 2], wide[0], wide[rows - 1], w0, w1, filled);
        }
      }
      for (int32_t i = 0; i < rows; ++i)
        for (int32_t c = 0; c < channels; ++c)
          xrt_cm_store_q8(&m->finish, sums[c / 2][i][c % 2], first + c,
                          m->r ? m->r + (row + i) * m->r_row : NULL, m->y + (row + i) * m->y_row);
    }
  }
}

void xrt_cm_mac_f32(float acc[2][XRT_CM_BLOCK], const float* const* row, int32_t rows, int64_t step,
                    const float* w, int32_t count) {
  const float* x0 = row[0];
  float a0 = acc[0][0], a1 = acc[0][1], a2 = acc[0][2], a3 = acc[0][3];
  if (rows == 1) {
    for (int32_t k = 0; k < count; ++k, x0 += step, w += XRT_CM_BLOCK) {
      const float v = *x0;
      a0 += v * w[0];
      a1 += v * w[1];
      a2 += v * w[2];
      a3 += v * w[3];
    }
  } else {
    const float* x1 = row[1];
    float b0 = acc[1][0], b1 = acc[1][1], b2 = acc[1][2], b3 = acc[1][3];
    for (int32_t k = 0; k < count; ++k, x0 += step, x1 += step, w += XRT_CM_BLOCK) {
      const float v = *x0, u = *x1;
      a0 += v * w[0];
      b0 += u * w[0];
      a1 += v * w[1];
      b1 += u * w[1];
      a2 += v * w[2];
      b2 += u * w[2];
      a3 += v * w[3];
      b3 += u * w[3];
    }
    acc[1][0] = b0;
    acc[1][1] = b1;
    acc[1][2] = b2;
    acc[1][3] = b3;
  }
  acc[0][0] = a0;
  acc[0][1] = a1;
  acc[0][2] = a2;
  acc[0][3] = a3;
}

const float* xrt_cm_factors(const void* w, int32_t dtype, int32_t count, float* buffer) {
  if (dtype == XRT_LITE_F32) return (const float*)w;
  for (int32_t i = 0; i < count * XRT_CM_BLOCK; ++i)
    buffer[i] = xrt_half_to_float(((const uint16_t*)w)[i]);
  return buffer;
}
