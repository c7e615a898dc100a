// SPDX-License-Identifier: Apache-2.0
// Products of bytes with packed weights, by the instruction of AVX-512 VNNI for them. Its sums of
// four products are exact.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

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

}  // namespace

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
