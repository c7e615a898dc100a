// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/common/axes.h"

#include <algorithm>

namespace xrt::native {

std::size_t normalize_axis(std::int64_t axis, std::size_t rank) {
  const auto r = static_cast<std::int64_t>(rank);
  if (axis < -r || axis >= r) {
    fail("axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + r : axis);
}

std::vector<std::size_t> normalize_axes(std::span<const std::int64_t> axes, std::size_t rank) {
  std::vector<std::size_t> result;
  for (const std::int64_t axis : axes) {
    const std::size_t a = normalize_axis(axis, rank);
    if (std::find(result.begin(), result.end(), a) != result.end()) {
      fail("axis " + std::to_string(axis) + " is given twice");
    }
    result.push_back(a);
  }
  return result;
}

std::int64_t product(const Dims& dims, std::size_t begin, std::size_t end) {
  return element_count(std::span<const std::int64_t>(dims).subspan(begin, end - begin));
}

Dims dense_strides(const Dims& dims) {
  Dims strides(dims.size());
  std::int64_t step = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
  return strides;
}

Dims broadcast_dims(const Dims& a, const Dims& b) {
  if (a == b) return a;
  Dims result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t back = result.size() - 1 - i;
    const std::int64_t x = back < a.size() ? a[a.size() - 1 - back] : 1;
    const std::int64_t y = back < b.size() ? b[b.size() - 1 - back] : 1;
    if (x != y && x != 1 && y != 1) {
      fail("shapes " + shape_text(a) + " and " + shape_text(b) + " do not broadcast");
    }
    result[i] = x == 1 ? y : x;
  }
  return result;
}

Dims broadcast_strides(const Dims& dims, const Dims& target) {
  const Dims dense = dense_strides(dims);
  Dims strides(target.size(), 0);
  const auto refuse = [&] {
    throw Error(ErrorCode::kInvalidArgument,
                "the shape " + to_string(dims) + " does not broadcast to " + to_string(target));
  };
  if (dims.size() > target.size()) refuse();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t t = target.size() - dims.size() + i;
    if (dims[i] != 1 && dims[i] != target[t]) refuse();
    strides[t] = dims[i] == 1 ? 0 : dense[i];
  }
  return strides;
}

std::vector<std::int64_t> ints_input(const KernelContext& context, std::size_t i) {
  return context.input(i).to_int64();
}

}  // namespace xrt::native
