// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>  // its functions are always inlined

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "engines/native/kernels/vector/byte_tiles.h"

namespace xrt::native {
namespace {

using i64 = std::int64_t;
using i32 = std::int32_t;

constexpr i64 kColumns = ByteTiles::kColumns;
constexpr i64 kRows = ByteTiles::kRows;

inline __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void store(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

inline __m256i four_of(const std::uint8_t* x) {
  i32 four;
  std::memcpy(&four, x, sizeof(four));
  return _mm256_set1_epi32(four);
}

inline __m256i signed_words(const std::int8_t* w) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w)));
}

template <int Count>
inline void add_products(const std::uint8_t* const (&rows)[Count], i64 at, const std::int8_t* w,
                         __m256i (&sums)[Count][2]) {
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i left = load(w);
  const __m256i right = load(w + 32);
#pragma GCC unroll 8
  for (int r = 0; r < Count; ++r) {
    const __m256i x = four_of(rows[r] + at);
    sums[r][0] =
        _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(_mm256_maddubs_epi16(x, left), ones));
    sums[r][1] =
        _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(_mm256_maddubs_epi16(x, right), ones));
  }
}

template <int Half, int Count>
inline void add_extras(const ByteTiles::Rows& x, const ByteTiles::Extras& extras,
                       const std::uint8_t* const (&rows)[Count], __m256i (&sums)[Count][2]) {
  const __m256i ones = _mm256_set1_epi16(1);
  const std::int8_t* w = extras.weights;
  for (i64 e = 0; e < extras.count; ++e, w += 2 * kColumns) {
    const ByteTiles::Quad quad = extras.quads[e];
    const i64 at = x.offsets[quad.run] + quad.byte;
    const __m256i columns = load(w);
#pragma GCC unroll 8
    for (int r = 0; r < Count; ++r) {
      const __m256i pairs = _mm256_maddubs_epi16(four_of(rows[r] + at), columns);
      sums[r][Half] = _mm256_add_epi32(sums[r][Half], _mm256_madd_epi16(pairs, ones));
    }
  }
}

template <int Count>
void multiply_rows(const ByteTiles::Rows& x, const ByteTiles::Panel& panel, i32* y) {
  __m256i sums[Count][2];
  const std::uint8_t* rows[Count];
#pragma GCC unroll 8
  for (int r = 0; r < Count; ++r) {
    rows[r] = x.rows[r];
    sums[r][0] = sums[r][1] = _mm256_setzero_si256();
  }
  const std::int8_t* w = panel.first;
  for (i64 run = 0; run < x.runs; ++run) {
    const i64 from = x.offsets[run];
    const i64 to = from + 4 * x.quads;
#pragma GCC unroll 4
    for (i64 at = from; at < to; at += 4, w += 4 * kColumns) add_products(rows, at, w, sums);
  }
  add_extras<0>(x, panel.halves[0], rows, sums);
  add_extras<1>(x, panel.halves[1], rows, sums);
#pragma GCC unroll 8
  for (int r = 0; r < Count; ++r) {
    store(y + r * kColumns, sums[r][0]);
    store(y + r * kColumns + 8, sums[r][1]);
  }
}

template <int Count>
void multiply_word_rows(const ByteTiles::Rows& x, const ByteTiles::Panel& panel, i32* y) {
  __m256i sums[Count][2];
  const std::uint8_t* rows[Count];
#pragma GCC unroll 8
  for (int r = 0; r < Count; ++r) {
    rows[r] = x.rows[r];
    sums[r][0] = sums[r][1] = _mm256_setzero_si256();
  }
  const std::int8_t* w = panel.first;
  for (i64 run = 0; run < x.runs; ++run) {
    const i64 from = x.offsets[run];
    const i64 to = from + 4 * x.quads;
#pragma GCC unroll 4
    for (i64 at = from; at < to; at += 4, w += 2 * kColumns) {
      const __m256i left = signed_words(w);
      const __m256i right = signed_words(w + kColumns);
#pragma GCC unroll 8
      for (int r = 0; r < Count; ++r) {
        const __m256i two = four_of(rows[r] + at);
        sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(two, left));
        sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(two, right));
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Count; ++r) {
    store(y + r * kColumns, sums[r][0]);
    store(y + r * kColumns + 8, sums[r][1]);
  }
}

// fn(the number of rows as a constant).
template <typename F>
inline void with_count(i64 count, F&& fn) {
  switch (count) {
    case 1:
      return fn(std::integral_constant<int, 1>());
    case 2:
      return fn(std::integral_constant<int, 2>());
    case 3:
      return fn(std::integral_constant<int, 3>());
    case 4:
      return fn(std::integral_constant<int, 4>());
    case 5:
      return fn(std::integral_constant<int, 5>());
    default:
      return fn(std::integral_constant<int, 6>());
  }
}

void multiply(const ByteTiles::Rows& x, const ByteTiles::Panel& w, i32* sums) {
  with_count(x.count, [&](auto count) { multiply_rows<count()>(x, w, sums); });
}

void multiply_words(const ByteTiles::Rows& x, const ByteTiles::Panel& w, i32* sums) {
  with_count(x.count, [&](auto count) { multiply_word_rows<count()>(x, w, sums); });
}

inline __m256i bytes_as_words(const std::uint8_t* x) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}

template <int Count>
inline void channels_of(const std::uint8_t* const* rows, const i64* offsets, i64 pairs,
                        const std::int16_t* w, i32* y) {
  __m256i sums[Count][2];
#pragma GCC unroll 2
  for (int r = 0; r < Count; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
  for (i64 p = 0; p < pairs; ++p, offsets += 2, w += 2 * kColumns) {
    const __m256i low = load(w);
    const __m256i high = load(w + kColumns);
#pragma GCC unroll 2
    for (int r = 0; r < Count; ++r) {
      const __m256i a = bytes_as_words(rows[r] + offsets[0]);
      const __m256i b = bytes_as_words(rows[r] + offsets[1]);
      sums[r][0] =
          _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), low));
      sums[r][1] =
          _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), high));
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < Count; ++r) {
    store(y + r * kColumns, _mm256_permute2x128_si256(sums[r][0], sums[r][1], 0x20));
    store(y + r * kColumns + 8, _mm256_permute2x128_si256(sums[r][0], sums[r][1], 0x31));
  }
}

void multiply_channels(const std::uint8_t* const* rows, i64 count, const i64* offsets, i64 pairs,
                       const std::int16_t* w, i32* sums) {
  for (; count >= 2; count -= 2, rows += 2, sums += 2 * kColumns) {
    channels_of<2>(rows, offsets, pairs, w, sums);
  }
  if (count == 1) channels_of<1>(rows, offsets, pairs, w, sums);
}

// The numbers of a row of a tile.
struct Row {
  __m256 left, right;

  template <typename F>
  void apply(F&& fn) {
    left = fn(left);
    right = fn(right);
  }
  template <typename F>
  void apply(const Row& operand, F&& fn) {
    left = fn(left, operand.left);
    right = fn(right, operand.right);
  }
};

// `columns` elements, with zeros behind them.
template <typename T>
inline const T* whole(const T* from, i64 columns, T (&part)[kColumns]) {
  if (columns == kColumns) return from;
  std::memcpy(part, from, static_cast<std::size_t>(columns) * sizeof(T));
  return part;
}

inline __m256 eight_bytes(const std::uint8_t* p, bool is_signed) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes));
}

inline Row bytes_of(const ByteTiles::Step& step, i64 at, i64 columns) {
  std::uint8_t part[kColumns] = {};
  const auto* p = whole(static_cast<const std::uint8_t*>(step.operand) + at, columns, part);
  return {eight_bytes(p, step.is_signed), eight_bytes(p + 8, step.is_signed)};
}

inline Row floats_of(const ByteTiles::Step& step, i64 at, i64 columns) {
  float part[kColumns] = {};
  const float* p = whole(static_cast<const float*>(step.operand) + at, columns, part);
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

// Any step but a function. `at`: where the row lies in the result.
inline void take_step(const ByteTiles::Step& step, i64 at, i64 columns, Row& row) {
  using Kind = ByteTiles::Step::Kind;
  const __m256 alpha = _mm256_set1_ps(step.alpha);
  const __m256 beta = _mm256_set1_ps(step.beta);
  const __m256 zero = _mm256_setzero_ps();
  switch (step.kind) {
    case Kind::kSum:
      return row.apply(bytes_of(step, at, columns),
                       [&](__m256 v, __m256 o) { return _mm256_fmadd_ps(o, alpha, v); });
    case Kind::kAdd:
      return row.apply(floats_of(step, at, columns),
                       [](__m256 v, __m256 o) { return _mm256_add_ps(v, o); });
    case Kind::kSub:
      return row.apply(floats_of(step, at, columns),
                       [](__m256 v, __m256 o) { return _mm256_sub_ps(v, o); });
    case Kind::kMul:
      return row.apply(floats_of(step, at, columns),
                       [](__m256 v, __m256 o) { return _mm256_mul_ps(v, o); });
    case Kind::kDiv:
      return row.apply(floats_of(step, at, columns),
                       [](__m256 v, __m256 o) { return _mm256_div_ps(v, o); });
    case Kind::kLinear:
      return row.apply([&](__m256 v) { return _mm256_fmadd_ps(v, alpha, beta); });
    case Kind::kClip:
      return row.apply([&](__m256 v) { return _mm256_min_ps(_mm256_max_ps(v, alpha), beta); });
    case Kind::kLeaky:
      return row.apply([&](__m256 v) {
        return _mm256_blendv_ps(v, _mm256_mul_ps(v, alpha), _mm256_cmp_ps(v, zero, _CMP_LT_OQ));
      });
    case Kind::kHardSwish:
      return row.apply([&](__m256 v) {
        const __m256 slope = _mm256_max_ps(_mm256_fmadd_ps(v, alpha, beta), zero);
        return _mm256_mul_ps(v, _mm256_min_ps(slope, _mm256_set1_ps(1.0F)));
      });
    case Kind::kFunction:
      return;
  }
}

// What bytes can hold, or less.
struct Bounds {
  float low, high;
};

Bounds bounds_of(ByteTiles::Result to) {
  return to == ByteTiles::Result::kInt8 ? Bounds{-128, 127} : Bounds{0, 255};
}

template <bool Signed>
inline void store_bytes(const Row& row, const Bounds& bounds, i64 columns, std::uint8_t* y) {
  const __m256 low = _mm256_set1_ps(bounds.low);
  const __m256 high = _mm256_set1_ps(bounds.high);
  const auto rounded = [&](__m256 v) {
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(v, low), high));
  };
  // 0-3 and 8-11, 4-7 and 12-15, in the end in their order.
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packs_epi32(rounded(row.left), rounded(row.right)), _MM_SHUFFLE(3, 1, 2, 0));
  const __m128i first = _mm256_castsi256_si128(words);
  const __m128i second = _mm256_extracti128_si256(words, 1);
  const __m128i bytes = Signed ? _mm_packs_epi16(first, second) : _mm_packus_epi16(first, second);
  if (columns == kColumns) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), bytes);
    return;
  }
  alignas(16) std::uint8_t part[kColumns];
  _mm_store_si128(reinterpret_cast<__m128i*>(part), bytes);
  std::memcpy(y, part, static_cast<std::size_t>(columns));
}

inline void store_row(const Row& row, ByteTiles::Result to, i64 columns, void* y, i64 at) {
  if (to != ByteTiles::Result::kFloat32) {
    auto* bytes = static_cast<std::uint8_t*>(y) + at;
    return to == ByteTiles::Result::kInt8 ? store_bytes<true>(row, bounds_of(to), columns, bytes)
                                          : store_bytes<false>(row, bounds_of(to), columns, bytes);
  }
  alignas(32) float part[kColumns];
  _mm256_store_ps(part, row.left);
  _mm256_store_ps(part + 8, row.right);
  std::memcpy(static_cast<float*>(y) + at, part, static_cast<std::size_t>(columns) * sizeof(float));
}

inline __m256i less_zeros(const i32* sums, const ByteTiles::Finish& how, i64 r, i64 i) {
  __m256i sum = _mm256_sub_epi32(load(sums + r * kColumns + i), load(how.zeros + i));
  if (how.row_zeros != nullptr) sum = _mm256_sub_epi32(sum, _mm256_set1_epi32(how.row_zeros[r]));
  return sum;
}

void finish_whole(const i32* sums, i64 rows, i64 columns, const ByteTiles::Finish& how, i32* y,
                  i64 y_step) {
  for (i64 r = 0; r < rows; ++r, y += y_step) {
    alignas(32) i32 part[kColumns];
    store(part, less_zeros(sums, how, r, 0));
    store(part + 8, less_zeros(sums, how, r, 8));
    std::memcpy(y, part, static_cast<std::size_t>(columns) * sizeof(i32));
  }
}

// Factors and bias of a panel.
struct Scaling {
  Row factors, bias;

  explicit Scaling(const ByteTiles::Finish& how) {
    const __m256 scale = _mm256_set1_ps(how.scale);
    factors = {_mm256_mul_ps(_mm256_loadu_ps(how.factors), scale),
               _mm256_mul_ps(_mm256_loadu_ps(how.factors + 8), scale)};
    bias = {_mm256_loadu_ps(how.bias), _mm256_loadu_ps(how.bias + 8)};
  }
  Row of(const i32* sums, const ByteTiles::Finish& how, i64 r) const {
    return {
        _mm256_fmadd_ps(_mm256_cvtepi32_ps(less_zeros(sums, how, r, 0)), factors.left, bias.left),
        _mm256_fmadd_ps(_mm256_cvtepi32_ps(less_zeros(sums, how, r, 8)), factors.right,
                        bias.right)};
  }
};

// No step but a sum.
template <bool Signed, bool Sum>
void finish_bytes(const i32* sums, i64 rows, i64 columns, const ByteTiles::Finish& how,
                  const Bounds& bounds, std::uint8_t* y, i64 at, i64 y_step) {
  const Scaling scaling(how);
  for (i64 r = 0; r < rows; ++r, at += y_step) {
    Row row = scaling.of(sums, how, r);
    if constexpr (Sum) {
      const __m256 alpha = _mm256_set1_ps(how.steps->alpha);
      row.apply(bytes_of(*how.steps, at, columns),
                [&](__m256 v, __m256 o) { return _mm256_fmadd_ps(o, alpha, v); });
    }
    store_bytes<Signed>(row, bounds, columns, y + at);
  }
}

// What most nodes have: a sum or none, bounds or none, bytes. False where there is more.
bool finish_simply(const i32* sums, i64 rows, i64 columns, const ByteTiles::Finish& how, void* y,
                   i64 at, i64 y_step) {
  using Kind = ByteTiles::Step::Kind;
  if (how.to == ByteTiles::Result::kFloat32) return false;
  const bool has_sum = how.step_count > 0 && how.steps[0].kind == Kind::kSum;
  const i64 more = how.step_count - (has_sum ? 1 : 0);
  Bounds bounds = bounds_of(how.to);
  if (more == 1 && how.steps[how.step_count - 1].kind == Kind::kClip) {
    const ByteTiles::Step& clip = how.steps[how.step_count - 1];
    bounds = {std::clamp(clip.alpha, bounds.low, bounds.high),
              std::clamp(clip.beta, bounds.low, bounds.high)};
  } else if (more != 0) {
    return false;
  }
  auto* bytes = static_cast<std::uint8_t*>(y);
  if (how.to == ByteTiles::Result::kInt8) {
    has_sum ? finish_bytes<true, true>(sums, rows, columns, how, bounds, bytes, at, y_step)
            : finish_bytes<true, false>(sums, rows, columns, how, bounds, bytes, at, y_step);
  } else {
    has_sum ? finish_bytes<false, true>(sums, rows, columns, how, bounds, bytes, at, y_step)
            : finish_bytes<false, false>(sums, rows, columns, how, bounds, bytes, at, y_step);
  }
  return true;
}

void finish(const i32* sums, i64 rows, i64 columns, const ByteTiles::Finish& how, void* y, i64 at,
            i64 y_step) {
  if (how.to == ByteTiles::Result::kInt32) {
    return finish_whole(sums, rows, columns, how, static_cast<i32*>(y) + at, y_step);
  }
  if (finish_simply(sums, rows, columns, how, y, at, y_step)) return;
  const Scaling scaling(how);
  const ByteTiles::Step* end = how.steps + how.step_count;
  const auto is_function = [](const ByteTiles::Step& step) {
    return step.kind == ByteTiles::Step::Kind::kFunction;
  };
  const ByteTiles::Step* next = std::find_if(how.steps, end, is_function);
  if (next == end) {
    for (i64 r = 0; r < rows; ++r, at += y_step) {
      Row row = scaling.of(sums, how, r);
      for (const auto* step = how.steps; step != end; ++step) take_step(*step, at, columns, row);
      store_row(row, how.to, columns, y, at);
    }
    return;
  }
  // Functions take all rows at once.
  alignas(32) float tile[kRows * kColumns];
  const auto row_at = [&](i64 r) -> Row {
    return {_mm256_load_ps(tile + r * kColumns), _mm256_load_ps(tile + r * kColumns + 8)};
  };
  const auto put = [&](i64 r, const Row& row) {
    _mm256_store_ps(tile + r * kColumns, row.left);
    _mm256_store_ps(tile + r * kColumns + 8, row.right);
  };
  for (i64 r = 0; r < rows; ++r) put(r, scaling.of(sums, how, r));
  for (const auto* step = how.steps; step != end; ++step) {
    if (is_function(*step)) {
      step->function(tile, tile, rows * kColumns, step->alpha, step->beta);
      continue;
    }
    for (i64 r = 0; r < rows; ++r) {
      Row row = row_at(r);
      take_step(*step, at + r * y_step, columns, row);
      put(r, row);
    }
  }
  for (i64 r = 0; r < rows; ++r) store_row(row_at(r), how.to, columns, y, at + r * y_step);
}

i64 total(const std::uint8_t* x, i64 n) {
  __m256i sums = _mm256_setzero_si256();
  i64 i = 0;
  for (; i + 32 <= n; i += 32) {
    sums = _mm256_add_epi64(sums, _mm256_sad_epu8(load(x + i), _mm256_setzero_si256()));
  }
  alignas(32) i64 parts[4];
  store(parts, sums);
  i64 sum = parts[0] + parts[1] + parts[2] + parts[3];
  for (; i < n; ++i) sum += x[i];
  return sum;
}

}  // namespace

extern const ByteTiles kByteTilesAvx2;
const ByteTiles kByteTilesAvx2 = {
    .multiply = multiply,
    .multiply_words = multiply_words,
    .multiply_channels = multiply_channels,
    .finish = finish,
    .total = total,
};

}  // namespace xrt::native
