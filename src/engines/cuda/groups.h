// SPDX-License-Identifier: Apache-2.0
// Which nodes of a function are computed together.
//
// Nodes that compute element by element are joined with those that read them, and so is one
// normalisation or softmax with what is before and behind it: one kernel then reads the operands
// once. A convolution or a product takes the bias, the addition and the activation behind it where
// the library can compute them; a product of bytes and a depthwise convolution take all elements
// that are computed of them.
#pragma once

#include <cstdint>
#include <vector>

#include "xrt/engine.h"

namespace xrt::cuda {

struct PlanOptions;

struct Group {
  enum class Kind : std::uint8_t {
    kSingle,       // one node, lowered by itself
    kFused,        // of elements, with at most one op over rows
    kConvolution,  // the first node and what is behind it
    kProduct,
    kChannels,  // a depthwise convolution and what is computed of its results, likewise
    kIntegers,  // a product of bytes and what is computed of its results, element by element
  };
  Kind kind = Kind::kSingle;
  std::vector<NodeId> nodes;  // in the order of the graph; the last one is the group's place
};

// In an order in which each group reads what groups before it have made.
std::vector<Group> make_groups(const GraphView& graph, const PlanOptions& options);

}  // namespace xrt::cuda
