// SPDX-License-Identifier: Apache-2.0
// From nodes of a graph to StableHLO: a table of lowerings, and what one of them works with.
//
//   void lower_relu(NodeContext& c) {
//     c.elementwise([&](const Hlos& x) { return c.b.maximum(x[0], c.b.zeros_like(x[0])); });
//   }
//   table.add("Relu", lower_relu);
//
// A lowering that cannot take this node (a shape operand that is no constant, an attribute without
// counterpart) calls refuse() with the reason. Whether a node is supported is found out by lowering
// it alone into a builder that keeps no text, so the answer and the compilation cannot disagree.
//
// Images: XLA's CPU convolution is fast only with the channels last, so convolutions, pools and the
// elementwise ops between them work on that form. A value exists in ONNX's order (`plain`), with
// the channels last (`last`), or both; whichever is asked for is made on first use.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/op_table.h"
#include "engines/xla/hlo_builder.h"
#include "ops/node_operands.h"
#include "xrt/graph.h"

namespace xrt::xla {

// Why a node cannot be lowered. Caught by the engine, never seen by a caller.
struct Refusal {
  std::string reason;
};

// What is known of a value while its graph is lowered.
struct Bound {
  Hlo plain;
  Hlo last;                        // [N, spatial…, C]; rank >= 3 only
  std::optional<Tensor> constant;  // its elements where they are known
  std::size_t depth = 0;           // nesting of regions in which it may be completed

  bool present() const { return plain.valid() || last.valid() || constant.has_value(); }
  DType dtype() const;
  Dims dims() const;  // in ONNX's order
};

// Whether there is a lowering of the node's op, or something that it is made of, for some sizes;
// and what is said where there is not.
bool has_lowering(const Graph& graph, NodeId id);
std::string no_lowering(const Node& node);

// The values of one graph while it is lowered, and the lowering of its nodes.
class GraphLowerer {
 public:
  // `nesting` counts graphs around this one: bodies, branches and functions.
  GraphLowerer(HloBuilder& b, const Graph& graph, int nesting)
      : b_(b), graph_(graph), nesting_(nesting) {}

  void bind(ValueId id, Bound value);
  // Lowers every node that the outputs need.
  void lower_all();
  void lower_node(NodeId id);
  Bound& at(ValueId id);
  bool bound(ValueId id) const { return values_.contains(id); }
  std::vector<Bound> outputs();
  // The value in ONNX's order or with the channels last, made where it is missing.
  Hlo plain(ValueId id);
  Hlo last(ValueId id);

  HloBuilder& builder() { return b_; }
  const Graph& graph() const { return graph_; }
  int nesting() const { return nesting_; }

 private:
  bool lower_by_code(NodeId id);
  bool lower_by_function_body(NodeId id);

  HloBuilder& b_;
  const Graph& graph_;
  int nesting_;
  std::map<ValueId, Bound> values_;
};

// One node, as its lowering sees it.
class NodeContext : public NodeOperands<GraphLowerer, Refusal> {
 public:
  NodeContext(GraphLowerer& lowerer, NodeId id);

  HloBuilder& b;

  // --- operands -------------------------------------------------------------------------------
  Hlo in(std::size_t i);
  // With the channels last.
  Hlo in_last(std::size_t i);
  // Whether that form exists already and the plain one does not.
  bool is_last(std::size_t i);
  DType dtype(std::size_t i);
  Dims dims(std::size_t i);
  std::int64_t rank(std::size_t i) { return static_cast<std::int64_t>(dims(i).size()); }
  // As integers(), of any number type that the host reads.
  std::vector<double> numbers(std::size_t i, std::string_view what);

  // --- results --------------------------------------------------------------------------------
  void out(std::size_t k, const Hlo& value);
  void out(const Hlo& value) { out(0, value); }
  void out_last(std::size_t k, const Hlo& value);
  void out_constant(std::size_t k, Tensor tensor);
  // The operands `first`… broadcast together, given to `make`; stays channels-last if an operand
  // is so. The result is output 0.
  void elementwise(const std::function<Hlo(const Hlos&)>& make);
  // Likewise with these operands of the node only.
  void elementwise(const std::vector<std::size_t>& operands,
                   const std::function<Hlo(const Hlos&)>& make);
  // Broadcasts two or more values to one shape (NumPy's rules); refuses if they do not fit.
  Hlos broadcast(const Hlos& values);

  // A nested graph: values for its inputs (and, by capture, from around); its outputs.
  Hlos inline_graph(const Graph& graph, const std::vector<Bound>& inputs);
  // What inline_graph would return, by dtype and shape only.
  Hlos nested_types(const Graph& graph, const std::vector<Bound>& inputs);
  Bound bound(std::size_t i);

 private:
  Hlos lower_nested(HloBuilder& builder, const Graph& graph, const std::vector<Bound>& inputs);
};

using LowerFunction = void (*)(NodeContext&);

using LoweringTable = OpTable<LowerFunction>;

// Every lowering of this engine.
const LoweringTable& lowerings();

// One per file of lowerings/.
void register_elementwise(LoweringTable& table);
void register_cast(LoweringTable& table);
void register_logic(LoweringTable& table);
void register_shape(LoweringTable& table);
void register_indexing(LoweringTable& table);
void register_scatter(LoweringTable& table);
void register_reduce(LoweringTable& table);
void register_linear(LoweringTable& table);
void register_convolution(LoweringTable& table);
void register_pool(LoweringTable& table);
void register_normalization(LoweringTable& table);
void register_resize(LoweringTable& table);
void register_sampling(LoweringTable& table);
void register_sort(LoweringTable& table);
void register_recurrent(LoweringTable& table);
void register_control(LoweringTable& table);
void register_quantize(LoweringTable& table);
void register_signal(LoweringTable& table);
void register_optimizers(LoweringTable& table);
void register_gradients(LoweringTable& table);
void register_random(LoweringTable& table);

// --- helpers that several families share --------------------------------------------------------

Dims channels_last_permutation(std::int64_t rank);   // plain → last
Dims channels_first_permutation(std::int64_t rank);  // last → plain
Dims range_dims(std::int64_t first, std::int64_t last);
// "float32[2,3]"
std::string describe(const Hlo& value);
// ONNX's Cast between numeric types.
Hlo cast(HloBuilder& b, const Hlo& x, DType dtype, bool saturate = true);
// Where XLA's own arithmetic would be too coarse: float32 for the 16-bit floats, else the same.
DType compute_dtype(DType dtype);
// "maximum" or "minimum": of two values, along axes, and of windows. A NaN among them is the
// result.
Hlo extremum(HloBuilder& b, std::string_view op, const Hlo& x, const Hlo& y);
Hlo reduce_extremum(HloBuilder& b, std::string_view op, const Hlo& x, const Dims& axes);
Hlo window_maximum(HloBuilder& b, const Hlo& x, const Dims& window, const Dims& strides,
                   const Dims& dilations, const Pads& pads);
// Floats to integers of at most 16 bits: rounded half to even, the nearest where they do not fit.
Hlo round_to(HloBuilder& b, const Hlo& x, DType dtype);
// The result of ONNX's integer or float division a / b, floor modulo and C modulo.
Hlo safe_divide(HloBuilder& b, const Hlo& a, const Hlo& divisor);
// An int32 sum times a real factor, rounded, plus a zero point, saturated to `dtype`. `zero` may be
// invalid; both are spread over the sum's shape already.
Hlo requantize(HloBuilder& b, const Hlo& sum, const Hlo& factor, const Hlo& zero, DType dtype);
}  // namespace xrt::xla
