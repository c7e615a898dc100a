// SPDX-License-Identifier: Apache-2.0
// Axes, shapes and strides, as ONNX counts them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engines/native/kernel.h"

namespace xrt::native {

[[noreturn]] inline void fail(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

inline std::string shape_text(const Dims& dims) {
  return to_string(std::span<const std::int64_t>(dims));
}

// A negative axis counts from the end; outside [-rank, rank) throws.
std::size_t normalize_axis(std::int64_t axis, std::size_t rank);
// Each normalised; a duplicate throws.
std::vector<std::size_t> normalize_axes(std::span<const std::int64_t> axes, std::size_t rank);
// Product of dims[begin, end).
std::int64_t product(const Dims& dims, std::size_t begin, std::size_t end);
// Elements between neighbours along each axis of a dense row-major tensor.
Dims dense_strides(const Dims& dims);
// The shape of an elementwise op on `a` and `b`; throws if they do not broadcast.
Dims broadcast_dims(const Dims& a, const Dims& b);
// Strides to read `dims` as if it had been broadcast to `target`: 0 along repeated axes.
Dims broadcast_strides(const Dims& dims, const Dims& target);
// The integer elements of input `i`, or of the attribute where the input is left out.
std::vector<std::int64_t> ints_input(const KernelContext& context, std::size_t i);

}  // namespace xrt::native
