// SPDX-License-Identifier: Apache-2.0
// What lowerings that compute places of elements share.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engines/cuda/plan.h"
#include "xrt/engine.h"

namespace xrt::cuda {

using Coordinates = std::vector<std::string>;

// Where the element at these coordinates lies.
inline std::string at(const View& view, const Coordinates& coordinates) {
  std::string text = "0";
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    text += fmt::format(" + (i64)({}) * {}ll", coordinates[i], view.strides[i]);
  }
  return text;
}

// The node's attribute "axis", counted from the first one.
inline std::size_t axis_of(const NodeView& node, std::size_t rank, std::int64_t otherwise = 0) {
  const std::int64_t axis = node.attr_int("axis", otherwise);
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

}  // namespace xrt::cuda
