// SPDX-License-Identifier: Apache-2.0
// Small questions about graphs that everybody asks who looks for patterns, and the steps that take
// the place of one.
#pragma once

#include <optional>
#include <string_view>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// Whether it is the standard's op `op`.
inline bool is_op(const Node& node, std::string_view op) {
  return node.domain.empty() && node.op == op;
}

// The node that makes `value`; invalid for inputs, constants, captures and an absent value.
XRT_API NodeId producer_id(const Graph& graph, ValueId value);
// The same, null instead of invalid. With `op`: null, too, where it is another op than the
// standard's of that name.
XRT_API const Node* producer(const Graph& graph, ValueId value);
XRT_API const Node* producer(const Graph& graph, ValueId value, std::string_view op);

// The only reader of `value`: exactly one use, as an input, and no graph output.
XRT_API std::optional<Use> sole_use(const Graph& graph, ValueId value);

// The value of a float32 constant with one element, whatever its rank.
XRT_API std::optional<float> scalar_constant(const Graph& graph, ValueId value);

// Both known and equal in every dimension; equal symbols count as equal.
XRT_API bool same_shape(const Type& a, const Type& b);

// For a commutative node of two inputs: the input that is not `value`.
XRT_API ValueId other_input(const Node& node, ValueId value);

// Removes nodes whose outputs nobody reads, starting at `value`'s producer.
XRT_API void remove_unused(Graph& graph, ValueId value);
// Every use of `from` reads `to`; what only made `from` is removed. Names stay as they are: for
// names of graph outputs see replace_value() in ir/rewrite.h.
XRT_API void substitute(Graph& graph, ValueId from, ValueId to);

}  // namespace xrt
