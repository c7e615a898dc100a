// SPDX-License-Identifier: Apache-2.0
// From nodes of a graph to layers of a TensorRT network: a table of lowerings, and what one of
// them works with.
//
//   void lower_relu(NodeContext& c) { c.out(c.net.activation(c.in(0), ACT::kRELU)); }
//   table.add("Relu", lower_relu);
//
// A lowering that cannot take this node (a shape operand that is no constant, an attribute without
// counterpart, a dtype whose layer TensorRT lacks) calls refuse() with the reason. Whether a node
// is supported is found out by lowering it alone into a network that is thrown away, so the answer
// and the compilation cannot disagree; what TensorRT itself refuses while layers are added becomes
// a Refusal with its message. Types that only TensorRT's builder would refuse are kept out by the
// lowerings (require_float and its like); the builder test builds every claimed node of ONNX's own
// cases.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/op_table.h"
#include "engines/tensorrt/net.h"
#include "ops/node_operands.h"
#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::tensorrt {

// What is known of a value while its graph is lowered: a tensor of the network, elements known on
// the host, or both.
struct Bound {
  Value tensor = nullptr;
  std::optional<Tensor> constant;
};

// The values of one graph while it is lowered, and the lowering of its nodes.
class GraphLowerer {
 public:
  // `nesting` counts the graphs around this one: function bodies.
  GraphLowerer(Net& net, const Graph& graph, int nesting)
      : net_(net), graph_(graph), nesting_(nesting) {}

  void bind(ValueId id, Bound value) { values_[id] = std::move(value); }
  bool bound(ValueId id) const { return values_.contains(id); }
  Bound& at(ValueId id);
  Value tensor(ValueId id);  // a constant becomes a layer on first use
  void lower_all();
  void lower_node(NodeId id);
  // The results of a sub-graph; captured tensors pass through `enter` first, if there is one.
  std::vector<Bound> lower_subgraph(const Graph& body, const std::function<Value(Value)>& enter);

  Net& net() { return net_; }
  const Graph& graph() const { return graph_; }

 private:
  bool fold(const Node& node);
  bool lower_by_function_body(NodeId id);

  Net& net_;
  const Graph& graph_;
  int nesting_;
  std::map<ValueId, Bound> values_;
};

// One node, as its lowering sees it.
class NodeContext : public NodeOperands<GraphLowerer, Refusal> {
 public:
  NodeContext(GraphLowerer& lowerer, NodeId id) : NodeOperands(lowerer, id), net(lowerer.net()) {}

  Net& net;

  // --- operands ---
  Value in(std::size_t i);
  DType dtype(std::size_t i);
  Dims dims(std::size_t i);  // -1 where unknown
  std::int64_t rank(std::size_t i) { return static_cast<std::int64_t>(dims(i).size()); }
  // As integers(), of a float32 operand.
  std::vector<float> floats(std::size_t i, std::string_view what);
  DType out_dtype(std::size_t k = 0);

  // Whether all that reads output `k` are nodes of this op.
  bool read_only_by(std::size_t k, std::string_view op) const;

  // --- requirements ---
  // Operand `i` is float32, float16 or bfloat16.
  void require_float(std::size_t i);
  // One of those, int32 or int64.
  void require_number(std::size_t i);
  // A type that casts lead to and from: one of those or bool.
  void require_computed(DType dtype) const;
  // Dimensions of operand `i`, all known.
  Dims require_static(std::size_t i, std::string_view why);

  // The results of a sub-graph of this node.
  std::vector<Bound> lower_graph(const Graph& body, const std::function<Value(Value)>& enter) {
    return lowerer_.lower_subgraph(body, enter);
  }

  // --- results ---
  void out(std::size_t k, Bound value);
  void out(std::size_t k, Value value);
  void out(Value value) { out(0, value); }
  void out_constant(std::size_t k, Tensor tensor);
};

using LowerFunction = void (*)(NodeContext&);

using LoweringTable = OpTable<LowerFunction>;

// Every lowering of this engine.
const LoweringTable& lowerings();

// One per file of lowerings/.
void register_elementwise(LoweringTable& table);
void register_unary(LoweringTable& table);
void register_convolution(LoweringTable& table);
void register_pool(LoweringTable& table);
void register_linear(LoweringTable& table);
void register_reduce(LoweringTable& table);
void register_normalization(LoweringTable& table);
void register_shape(LoweringTable& table);
void register_indexing(LoweringTable& table);
void register_resize(LoweringTable& table);
void register_quantize(LoweringTable& table);
void register_recurrent(LoweringTable& table);
void register_control(LoweringTable& table);

// Why a value cannot be one of a network; nothing if it can.
std::optional<std::string> refuse_type(const xrt::Value& value);
// Whether this node can be lowered, by doing so; needs NVIDIA's library, but no GPU with
// TensorRT-RTX. Thread-safe.
Support can_lower(const Graph& graph, NodeId id);
// Lowers a whole function: network inputs and outputs bear the names "i0", "i1", … and "o0", "o1",
// … of their positions. Throws kUnsupported naming the node that cannot be lowered.
void lower_function(const Graph& graph, const std::string& name, Net& net);

// The node of a user's own plugin library (plugins.cc), if the plugin registry knows its op.
bool is_plugin(const Node& node);
void lower_plugin(NodeContext& c);
// Opens the libraries that XRT_TENSORRT_PLUGINS names (separated by ':'), once per process.
void load_plugins();

}  // namespace xrt::tensorrt
