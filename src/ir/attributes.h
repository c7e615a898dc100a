// SPDX-License-Identifier: Apache-2.0
// Attributes that are there: those that an op requires, and those with a default once a graph is in
// canonical form (ops/canonical.h). kInvalidModel naming node and attribute where it is missing, or
// of another type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/error.h"
#include "xrt/graph.h"

namespace xrt {

inline void need_attribute(const Node& node, std::string_view name) {
  if (node.has(name)) return;
  throw Error(ErrorCode::kInvalidModel, "node '" + node.name + "' (" + node.qualified_op() +
                                            "): attribute '" + std::string(name) + "' is missing");
}

inline std::int64_t need_int(const Node& node, std::string_view name) {
  need_attribute(node, name);
  return node.attr_int(name, 0);
}

inline float need_float(const Node& node, std::string_view name) {
  need_attribute(node, name);
  return node.attr_float(name, 0);
}

inline std::vector<std::int64_t> need_ints(const Node& node, std::string_view name) {
  need_attribute(node, name);
  return node.attr_ints(name);
}

inline std::string need_string(const Node& node, std::string_view name) {
  need_attribute(node, name);
  return node.attr_string(name, "");
}

}  // namespace xrt
