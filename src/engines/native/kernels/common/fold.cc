// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/common/fold.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "engines/native/kernels/common/convert.h"
#include "engines/native/scratch.h"

namespace xrt::native {

namespace {

constexpr std::int64_t kFoldGrain = 32768;  // elements that are worth a thread

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::size_t size_of(FoldType type) {
  switch (type) {
    case FoldType::kFloat32:
    case FoldType::kInt32:
      return 4;
    case FoldType::kInt8:
    case FoldType::kUInt8:
      return 1;
    default:
      return 8;
  }
}

bool is_extreme(FoldKind kind) { return kind == FoldKind::kMax || kind == FoldKind::kMin; }

// Of the partial results.
FoldType partial_type(FoldKind kind, FoldType type) {
  const bool widens = !is_extreme(kind) && type != FoldType::kFloat32 && type != FoldType::kFloat64;
  return widens ? FoldType::kInt64 : type;
}

VectorOps::Fold fold_of(FoldKind kind, FoldType type) {
  return vector_ops().fold[static_cast<std::size_t>(kind)][static_cast<std::size_t>(type)];
}

template <typename T>
void arg_columns(bool largest, bool last, const T* x, std::int64_t n, std::int64_t inner,
                 std::int64_t columns, std::int64_t* y) {
  for (std::int64_t j = 0; j < columns; ++j) {
    T best = x[j];
    std::int64_t where = 0;
    for (std::int64_t i = 1; i < n; ++i) {
      const T v = x[i * inner + j];
      bool better = largest ? v > best : v < best;
      bool same = v == best;
      if constexpr (std::is_floating_point_v<T>) {
        // A NaN is the largest and the smallest, as in NumPy and PyTorch.
        better |= std::isnan(v) && !std::isnan(best);
        same |= std::isnan(v) && std::isnan(best);
      }
      if (better || (last && same)) {
        best = v;
        where = i;
      }
    }
    y[j] = where;
  }
}

// What one thread does at a time: few enough numbers to stay in the first cache.
constexpr std::int64_t kPartSize = 4096;
constexpr std::int64_t kRowAlone = 32;     // from here on rows go one by one
constexpr std::int64_t kRowTogether = 16;  // a vector, where several rows go together

void exponentials_row(Exponentials kind, const float* x, std::int64_t n, float* y) {
  const VectorOps& ops = vector_ops();
  const float highest = ops.maximum(x, n);
  // y may be x, so the exponentials go elsewhere.
  constexpr std::int64_t kBlock = 512;
  float block[kBlock];
  float sum = 0;
  for (std::int64_t i = 0; i < n; i += kBlock) {
    sum += ops.exp_shifted(x + i, block, std::min(kBlock, n - i), highest);
  }
  if (kind == Exponentials::kLogSum) {
    *y = std::isinf(highest) ? highest : highest + std::log(sum);
    return;
  }
  ops.scale_shift(x, y, n, 1.0F, -highest);
  ops.scale_shift(y, y, n, 1.0F, -std::log(sum));
}

// Rows of x and y begin `step` elements after each other and have `inner`; where step is not inner,
// outer is 1.
void exponentials_part(Exponentials kind, const float* x, std::int64_t outer, std::int64_t n,
                       std::int64_t inner, std::int64_t step, float* y) {
  const VectorOps& ops = vector_ops();
  std::array<float, kPartSize> highest, sums, block;
  const std::int64_t columns = outer * inner;
  fold_of(FoldKind::kMax, FoldType::kFloat32)(x, outer, n, inner, step, highest.data());
  const VectorOps::Fold sum = fold_of(FoldKind::kSum, FoldType::kFloat32);
  // As many rows as are dense and fit.
  const std::int64_t rows =
      step != inner ? 1 : std::max<std::int64_t>(std::min(n, kPartSize / columns), 1);
  std::fill_n(sums.begin(), columns, 0.0F);
  for (std::int64_t i = 0; i < n; i += rows) {
    const std::int64_t some = std::min(rows, n - i);
    const std::int64_t count = some * columns;
    float* const exponential = kind == Exponentials::kSoftmax ? y + i * step : block.data();
    float* const shifted = kind == Exponentials::kLogSoftmax ? y + i * step : exponential;
    ops.spread_sub(x + i * step, highest.data(), shifted, outer, some, inner);
    ops.exp_shifted(shifted, exponential, count, 0);
    if (some == n) {
      sum(exponential, outer, n, inner, inner, sums.data());
    } else {
      std::array<float, kPartSize> part;
      sum(exponential, outer, some, inner, inner, part.data());
      ops.add(sums.data(), 1, part.data(), 1, sums.data(), columns);
    }
  }
  if (kind == Exponentials::kSoftmax) {
    ops.reciprocal(sums.data(), sums.data(), columns, 0, 0);
  } else {
    ops.log(sums.data(), sums.data(), columns, 0, 0);
  }
  if (kind == Exponentials::kLogSum) {
    for (std::int64_t j = 0; j < columns; ++j) {
      y[j] = std::isinf(highest[j]) ? highest[j] : highest[j] + sums[j];
    }
    return;
  }
  const VectorOps::Spread spread = kind == Exponentials::kSoftmax ? ops.spread_mul : ops.spread_sub;
  for (std::int64_t i = 0; i < n; i += rows) {
    const std::int64_t some = std::min(rows, n - i);
    spread(y + i * step, sums.data(), y + i * step, outer, some, inner);
  }
}

}  // namespace

void fold_block(const KernelContext& k, FoldKind kind, FoldType type, const void* x,
                std::int64_t outer, std::int64_t n, std::int64_t inner, void* y) {
  const VectorOps::Fold fold = fold_of(kind, type);
  const FoldType made = partial_type(kind, type);
  const std::size_t from_size = size_of(type), to_size = size_of(made);
  const auto* from = static_cast<const std::byte*>(x);
  auto* to = static_cast<std::byte*>(y);
  const std::int64_t each = n * inner;
  if (each <= kFoldGrain / 2 || outer >= 32) {
    k.parallel_for(outer, std::max<std::int64_t>(kFoldGrain / std::max<std::int64_t>(each, 1), 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     fold(from + begin * each * static_cast<std::int64_t>(from_size), end - begin,
                          n, inner, inner, to + begin * inner * static_cast<std::int64_t>(to_size));
                   });
    return;
  }
  // Few and large blocks. Where rows are long their columns are divided, else the rows: then each
  // piece has a result, and these are folded.
  constexpr std::int64_t kColumns = 4096;
  if (inner >= 2 * kColumns) {
    const std::int64_t parts = ceil_div(inner, kColumns);
    k.parallel_for(outer * parts, std::max<std::int64_t>(kFoldGrain / (n * kColumns), 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t item = begin; item < end; ++item) {
                       const std::int64_t o = item / parts, first = item % parts * kColumns;
                       fold(from + (o * each + first) * static_cast<std::int64_t>(from_size), 1, n,
                            std::min(kColumns, inner - first), inner,
                            to + (o * inner + first) * static_cast<std::int64_t>(to_size));
                     }
                   });
    return;
  }
  const std::int64_t piece = std::max<std::int64_t>(kFoldGrain / 2 / inner, 1);  // rows
  const std::int64_t pieces = ceil_div(n, piece);
  Scratch<std::uint64_t> partial(  // 64-bit, so that any element is aligned
      (static_cast<std::size_t>(outer * pieces * inner) * to_size + 7) / 8);
  auto* parts = reinterpret_cast<std::byte*>(partial.data());
  k.parallel_for(outer * pieces, 2, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t o = item / pieces, first = item % pieces * piece;
      fold(from + (o * n + first) * inner * static_cast<std::int64_t>(from_size), 1,
           std::min(piece, n - first), inner, inner,
           parts + item * inner * static_cast<std::int64_t>(to_size));
    }
  });
  const FoldKind join = is_extreme(kind) || kind == FoldKind::kProd ? kind : FoldKind::kSum;
  fold_of(join, made)(parts, outer, pieces, inner, inner, y);
}

void arg_block(const KernelContext& k, bool largest, bool last, DType dtype, const void* x,
               std::int64_t outer, std::int64_t n, std::int64_t inner, std::int64_t* y) {
  // Where there are few blocks their columns are divided.
  constexpr std::int64_t kColumns = 256;
  const bool divided = outer < 16 && inner >= 2 * kColumns;
  const std::int64_t columns = divided ? kColumns : inner;
  const std::int64_t parts = ceil_div(inner, columns);
  const std::int64_t grain = std::max<std::int64_t>(kFoldGrain / 2 / (n * columns), 1);
  k.parallel_for(outer * parts, grain, [&](std::int64_t begin, std::int64_t end) {
    dispatch_number(dtype, [&]<typename T>() {
      const T* in = static_cast<const T*>(x);
      if constexpr (std::is_same_v<T, float>) {
        if (n < std::int64_t{1} << 31) {
          const auto arg = vector_ops().arg[largest ? 1 : 0][last ? 1 : 0];
          if (!divided) {
            arg(in + begin * n * inner, end - begin, n, inner, inner, y + begin * inner);
            return;
          }
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t o = item / parts, first = item % parts * columns;
            arg(in + o * n * inner + first, 1, n, std::min(columns, inner - first), inner,
                y + o * inner + first);
          }
          return;
        }
      }
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t o = item / parts, first = item % parts * columns;
        arg_columns(largest, last, in + o * n * inner + first, n, inner,
                    std::min(columns, inner - first), y + o * inner + first);
      }
    });
  });
}

void exponentials_block(const KernelContext& k, Exponentials kind, const float* x,
                        std::int64_t outer, std::int64_t n, std::int64_t inner, float* y) {
  const bool sums = kind == Exponentials::kLogSum;
  const std::int64_t each = n * inner;
  if (inner == 1 && kind == Exponentials::kSoftmax && n >= kRowTogether) {
    k.parallel_for(outer, std::max<std::int64_t>(8192 / n, 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     vector_ops().softmax_rows(x + begin * n, y + begin * n, end - begin, n);
                   });
    return;
  }
  if (inner == 1 && n >= kRowAlone) {
    k.parallel_for(outer, std::max<std::int64_t>(8192 / n, 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t o = begin; o < end; ++o) {
                       exponentials_row(kind, x + o * n, n, y + (sums ? o : o * n));
                     }
                   });
    return;
  }
  if (each <= kPartSize) {
    const std::int64_t some = kPartSize / each;  // blocks at a time
    k.parallel_for(outer, 2 * some, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; o += some) {
        exponentials_part(kind, x + o * each, std::min(some, end - o), n, inner, inner,
                          y + o * (sums ? inner : each));
      }
    });
    return;
  }
  const std::int64_t columns =
      std::min(inner, std::clamp<std::int64_t>(2 * kPartSize / n, 64, 1024));
  const std::int64_t parts = ceil_div(inner, columns);
  k.parallel_for(outer * parts, std::max<std::int64_t>(8192 / (n * columns), 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t item = begin; item < end; ++item) {
                     const std::int64_t o = item / parts, first = item % parts * columns;
                     exponentials_part(kind, x + o * each + first, 1, n,
                                       std::min(columns, inner - first), inner,
                                       y + o * (sums ? inner : each) + first);
                   }
                 });
}

}  // namespace xrt::native
