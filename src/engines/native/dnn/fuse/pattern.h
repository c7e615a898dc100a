// SPDX-License-Identifier: Apache-2.0
// Small questions about graphs that fusion asks.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "xrt/graph.h"

namespace xrt::native::dnn {

// The value of a float constant with one element, whatever its rank.
std::optional<float> scalar_constant(const Graph& graph, ValueId value);
bool is_scalar_near(const Graph& graph, ValueId value, float wanted);

// The node that makes `value` if it is the standard op `op`, else null.
const Node* producer(const Graph& graph, ValueId value, std::string_view op);
NodeId producer_id(const Graph& graph, ValueId value);

// The only reader of `value`: exactly one use, as an input, and no graph output.
std::optional<Use> sole_use(const Graph& graph, ValueId value);

// Both known and equal in every dimension; equal symbols count as equal.
bool same_shape(const Type& a, const Type& b);

// Removes nodes whose outputs nobody reads, starting at `value`'s producer.
void remove_unused(Graph& graph, ValueId value);
// Every use of `from` reads `to`; what only made `from` is removed.
void replace_value(Graph& graph, ValueId from, ValueId to);

// For a commutative node of two inputs: the input that is not `value`.
ValueId other_input(const Node& node, ValueId value);

}  // namespace xrt::native::dnn
