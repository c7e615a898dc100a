// SPDX-License-Identifier: Apache-2.0
// What the files of HloBuilder share when they write StableHLO as text.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "xrt/error.h"
#include "xrt/type.h"

namespace xrt::xla {

// What StableHLO would not take: operands of the node that do not go together, or a lowering of
// ours that is wrong.
inline void require(bool condition, std::string_view op, std::string_view rule) {
  if (!condition) {
    throw Error(ErrorCode::kInternal, fmt::format("StableHLO {}: {}", op, rule));
  }
}

// Whether XLA can count the elements, also where a size is 0.
inline bool has_extent(const Dims& dims) {
  std::int64_t count = 1;
  return std::all_of(dims.begin(), dims.end(), [&](std::int64_t dim) {
    return dim >= 0 && !__builtin_mul_overflow(count, std::max<std::int64_t>(dim, 1), &count);
  });
}

// One number for each dimension: 1 where none is given.
inline Dims or_ones(const Dims& values, std::size_t rank) {
  return values.empty() ? Dims(rank, 1) : values;
}

inline std::string array_attribute(const Dims& values) {
  if (values.empty()) return "array<i64>";
  return fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

}  // namespace xrt::xla
