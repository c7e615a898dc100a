// SPDX-License-Identifier: Apache-2.0
// What the engine can do with an op and how: one row per op.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/op_table.h"
#include "engines/cuda/groups.h"
#include "engines/cuda/planner.h"
#include "xrt/engine.h"

namespace xrt::cuda {

// Operands of an expression: names of variables, "" where an operand is left out.
using Names = std::vector<std::string>;

struct Lowering {
  // A no for nodes that it cannot do; types and shapes that no node may have are refused already.
  std::function<Support(const GraphView& graph, const NodeView& node)> supports = {};
  // One of three: steps of its own,
  std::function<void(Planner& planner, const NodeView& node)> emit = {};
  // an expression of one element of the result from those of the operands,
  std::function<std::string(const GraphView& graph, const NodeView& node, const Names& x)>
      expression = {};
  // which reads so many of them,
  std::size_t operands = static_cast<std::size_t>(-1);
  // or an op over rows (fused.cc knows these).
  bool over_rows = false;
  // Whether an expression takes numbers of few bits, too (is_narrow()).
  bool narrow = false;
  // An operand may have no elements.
  bool empty = false;
  // Of an expression: the result's axis where those of an operand begin; none: as broadcasting has
  // it.
  std::function<std::optional<std::size_t>(const GraphView& graph, const NodeView& node,
                                           std::size_t operand)>
      first_axis = {};
};

class LoweringRegistry : public OpTable<Lowering> {
 public:
  static const LoweringRegistry& get();
  using OpTable<Lowering>::find;
  const Lowering* find(const NodeView& node) const { return find(node.qualified_op()); }
};

// The families, one file each.
void add_pointwise(LoweringRegistry& registry);
void add_rows(LoweringRegistry& registry);
void add_reductions(LoweringRegistry& registry);
void add_shapes(LoweringRegistry& registry);
void add_indexing(LoweringRegistry& registry);
void add_windows(LoweringRegistry& registry);
void add_linear(LoweringRegistry& registry);
void add_attention(LoweringRegistry& registry);
void add_quantized(LoweringRegistry& registry);
void add_gradients(LoweringRegistry& registry);
void add_scatters(LoweringRegistry& registry);
void add_sampling(LoweringRegistry& registry);
void add_states(LoweringRegistry& registry);

// Whether the engine computes the node on a device.
Support supports_node(const GraphView& graph, NodeId node);

// Steps of a group.
void emit_group(Planner& planner, const Group& group);
void emit_convolution(Planner& planner, const Group& group);
void emit_product(Planner& planner, const Group& group);
// QuantizeLinear's expression with a factor instead of a divisor: what lies close to the middle of
// two steps may go to the other one. `not_negative`: numbers below zero count as zero.
std::string quantised_by_reciprocal(const GraphView& graph, const NodeView& node, const Names& x,
                                    bool not_negative);
// The same, dequantised again with `scale` and the zero point that it has: no integer is made.
std::string requantised_by_reciprocal(const GraphView& graph, const NodeView& node, const Names& x,
                                      const std::string& scale);
// What a value becomes as one of few bits: the node says what happens to those out of range.
std::string narrowed(const NodeView& node, DType from, DType to, const std::string& value);
// Of kAttentionOp (attention.h).
void emit_attention(Planner& planner, const NodeView& node);
// Of kChannelMomentsOp and kChannelProductsOp (training.h).
void emit_channel_moments(Planner& planner, const NodeView& node);
void emit_channel_products(Planner& planner, const NodeView& node);

// --- what lowerings ask of nodes ---
// A constant operand's numbers; none where it is left out. Only after supports() has seen it.
std::vector<std::int64_t> numbers(const GraphView& graph, const NodeView& node, std::size_t input);
bool is_constant(const GraphView& graph, const NodeView& node, std::size_t input);
bool is_float(DType dtype);
// A no unless all operands are of floats of 16 bits and more.
Support needs_floats(const GraphView& graph, const NodeView& node);
// A no unless the operand is a constant or left out.
Support needs_constant(const GraphView& graph, const NodeView& node, std::size_t input,
                       std::string_view what);

}  // namespace xrt::cuda
