// SPDX-License-Identifier: Apache-2.0
// Products of bytes with packed weights, by the instruction of AVX-512 VNNI for them. Its sums of
// four products are exact.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "engines/native/kernels/vector/panels.h"

namespace xrt::native {
namespace {

constexpr int kVectors = 4;  // a panel of 64 columns, as in panels.inc
constexpr int kRows = 6;

template <int Rows>
inline void multiply(const std::uint8_t* x, std::int64_t x_step, std::int64_t quads,
                     const std::int8_t* w, std::int32_t* y, std::int64_t y_step) {
  __m512i sums[Rows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_si512();
  }
  for (std::int64_t k = 0; k < quads; ++k, x += 4, w += 64 * kVectors) {
    __m512i columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = _mm512_loadu_si512(w + 64 * v);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      std::int32_t four;
      std::memcpy(&four, x + r * x_step, sizeof(four));
      const __m512i row = _mm512_set1_epi32(four);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], row, columns[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_si512(y + r * y_step + 16 * v, sums[r][v]);
    }
  }
}

inline __m512 factors_at(const BlockPanel& w, const void* from, std::int64_t at) {
  if (!w.has_halves) return _mm512_loadu_ps(static_cast<const float*>(from) + at);
  const auto* halves = static_cast<const std::uint16_t*>(from) + at;
  return _mm512_maskz_cvtph_ps(0xFFFF,
                               _mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}

// Of blocks: the sums of a block are exact, and then scaled.
template <int Bits, int Rows>
inline void multiply_blocks(const BlockPanel& w, const std::int8_t* x, std::int64_t x_step,
                            const float* scales, const std::int32_t* totals, std::int64_t step,
                            float* y, std::int64_t y_step) {
  constexpr int kWord = Bits == 4 ? 8 : 4;
  constexpr int kOffset = Bits == 4 ? 8 : 128;  // the instruction's first factors are unsigned
  const auto* words = static_cast<const std::uint8_t*>(w.words);
  const bool has_totals = w.has_totals();
  std::int64_t left = w.depth;
  for (std::int64_t b = 0; left > 0; ++b, left -= w.block) {
    __m512i sums[Rows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const __m512i start = _mm512_set1_epi32(-kOffset * totals[r * step + b]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = start;
    }
    const std::int64_t count = (left < w.block ? left : w.block) / kWord;
    for (std::int64_t g = 0; g < count; ++g, words += 64 * kVectors, x += kWord) {
      __m512i low[kVectors], high[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const __m512i here = _mm512_loadu_si512(words + 64 * v);
        if constexpr (Bits == 4) {
          const __m512i half = _mm512_set1_epi8(15);
          const __m512i whole = _mm512_xor_si512(here, _mm512_set1_epi8(static_cast<char>(0x88)));
          low[v] = _mm512_and_si512(whole, half);
          high[v] = _mm512_and_si512(_mm512_maskz_srli_epi16(~0U, whole, 4), half);
        } else {
          low[v] = _mm512_xor_si512(here, _mm512_set1_epi8(static_cast<char>(0x80)));
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
        std::int32_t four[2];
        std::memcpy(four, x + r * x_step, kWord);
        const __m512i first = _mm512_set1_epi32(four[0]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], low[v], first);
        }
        if constexpr (Bits == 4) {
          const __m512i second = _mm512_set1_epi32(four[1]);
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) {
            sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], high[v], second);
          }
        }
      }
    }
    const std::int64_t at = b * 16 * kVectors;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512 scale = factors_at(w, w.scales, at + 16 * v);
      __m512 shift = _mm512_setzero_ps();
      if (has_totals) {
        __m512 zero = _mm512_set1_ps(static_cast<float>(w.zero));
        if (w.zeros != nullptr) {
          const __m128i bytes =
              _mm_loadu_si128(reinterpret_cast<const __m128i*>(w.zeros + at + 16 * v));
          zero = _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_maskz_cvtepi8_epi32(0xFFFF, bytes));
        }
        if (w.offsets != nullptr) shift = factors_at(w, w.offsets, at + 16 * v);
        shift = _mm512_fnmadd_ps(zero, scale, shift);
      }
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
        __m512 sum = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, sums[r][v]), scale);
        if (has_totals) {
          const auto total = static_cast<float>(totals[r * step + b]);
          sum = _mm512_fmadd_ps(shift, _mm512_set1_ps(total), sum);
        }
        float* to = y + r * y_step + 16 * v;
        const __m512 factor = _mm512_set1_ps(scales[r * step + b]);
        _mm512_storeu_ps(to, _mm512_fmadd_ps(sum, factor, _mm512_loadu_ps(to)));
      }
    }
  }
}

template <int Bits>
void multiply_block_panel(const BlockPanel& w, const std::int8_t* x, std::int64_t x_step,
                          std::int64_t rows, const float* scales, const std::int32_t* totals,
                          std::int64_t step, float* y, std::int64_t y_step) {
  for (; rows >= 4; rows -= 4) {
    multiply_blocks<Bits, 4>(w, x, x_step, scales, totals, step, y, y_step);
    x += 4 * x_step;
    scales += 4 * step;
    totals += 4 * step;
    y += 4 * y_step;
  }
  if (rows == 3) multiply_blocks<Bits, 3>(w, x, x_step, scales, totals, step, y, y_step);
  if (rows == 2) multiply_blocks<Bits, 2>(w, x, x_step, scales, totals, step, y, y_step);
  if (rows == 1) multiply_blocks<Bits, 1>(w, x, x_step, scales, totals, step, y, y_step);
}

}  // namespace

void multiply_block_bytes_vnni(const BlockPanel& w, const std::int8_t* x, std::int64_t x_step,
                               std::int64_t rows, const float* scales, const std::int32_t* totals,
                               std::int64_t step, float* y, std::int64_t y_step) {
  return w.bits == 4 ? multiply_block_panel<4>(w, x, x_step, rows, scales, totals, step, y, y_step)
                     : multiply_block_panel<8>(w, x, x_step, rows, scales, totals, step, y, y_step);
}

void multiply_byte_panel_vnni(const std::uint8_t* x, std::int64_t x_step, std::int64_t rows,
                              std::int64_t quads, const std::int8_t* w, std::int32_t* y,
                              std::int64_t y_step) {
  for (; rows >= kRows; rows -= kRows) {
    multiply<kRows>(x, x_step, quads, w, y, y_step);
    x += kRows * x_step;
    y += kRows * y_step;
  }
  for (; rows >= 2; rows -= 2) {
    multiply<2>(x, x_step, quads, w, y, y_step);
    x += 2 * x_step;
    y += 2 * y_step;
  }
  if (rows == 1) multiply<1>(x, x_step, quads, w, y, y_step);
}

}  // namespace xrt::native
