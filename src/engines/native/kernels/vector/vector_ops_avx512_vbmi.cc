// SPDX-License-Identifier: Apache-2.0
// What the byte permutations of AVX-512 VBMI do better than any loop.
#include <immintrin.h>

#include <cstdint>

namespace xrt::native {

void lookup_vbmi(const std::uint8_t* table, const std::uint8_t* x, std::uint8_t* y,
                 std::int64_t n) {
  const __m512i a = _mm512_loadu_si512(table);
  const __m512i b = _mm512_loadu_si512(table + 64);
  const __m512i c = _mm512_loadu_si512(table + 128);
  const __m512i d = _mm512_loadu_si512(table + 192);
  // Two tables of 128 entries; the top bit says which.
  for (; n > 0; n -= 64, x += 64, y += 64) {
    const __mmask64 some = n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1;
    const __m512i index = _mm512_maskz_loadu_epi8(some, x);
    const __m512i low = _mm512_permutex2var_epi8(a, index, b);
    const __m512i high = _mm512_permutex2var_epi8(c, index, d);
    _mm512_mask_storeu_epi8(y, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
  }
}

}  // namespace xrt::native
