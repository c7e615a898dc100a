// SPDX-License-Identifier: Apache-2.0
// Names of a graph's parts that anybody may hold: plain numbers, valid while the graph lives.
#pragma once

#include <compare>
#include <cstdint>

namespace xrt {

struct ValueId {
  std::int32_t index = -1;  // -1: absent (an optional input or output that is left out)
  bool valid() const { return index >= 0; }
  auto operator<=>(const ValueId&) const = default;
};

struct NodeId {
  std::int32_t index = -1;
  bool valid() const { return index >= 0; }
  auto operator<=>(const NodeId&) const = default;
};

// One place where a value is read: the `index`-th input of `node`, or index -1: captured by a
// sub-graph of that node.
struct Use {
  NodeId node;
  std::int32_t index = 0;
  auto operator<=>(const Use&) const = default;
};

// Where a value comes from.
enum class Origin : std::uint8_t { kInput, kConstant, kCapture, kNode };

}  // namespace xrt
