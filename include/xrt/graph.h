// SPDX-License-Identifier: Apache-2.0
// The graph: a typed SSA DAG whose ops mean what the ONNX standard says they mean.
//
//   Graph g("tiny");
//   ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("N"), 3}));
//   NodeId relu = g.add_node("", "Relu", {x}, {"y"});
//   g.add_output(g.node(relu).outputs[0]);
//
// Invariants (checked by verify(), src/ir/verifier.h):
// - the Graph owns nodes and values, everybody else holds ids; ids are dense, grow in the order of
//   creation and stay valid until compact();
// - a value has exactly one origin: a graph input, a constant, a captured outer value or a node's
//   output; names are unique within a graph;
// - nothing depends on addresses or hash order: the same calls give the same graph.
//
// Sub-graphs (If, Loop, Scan, SequenceMap) are attributes. What a sub-graph reads from the graph
// around it is explicit: its captures() pair an outer value with an inner one.
//
// Thread-safety: const calls may run at once, a mutating call needs the graph for itself.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "xrt/export.h"
#include "xrt/ids.h"
#include "xrt/tensor.h"
#include "xrt/type.h"

namespace xrt {

class Graph;

// An attribute's value, one alternative per ONNX attribute type.
using Attribute =
    std::variant<std::int64_t, float, std::string, Tensor, std::shared_ptr<Graph>, Type,
                 std::vector<std::int64_t>, std::vector<float>, std::vector<std::string>,
                 std::vector<Tensor>, std::vector<std::shared_ptr<Graph>>, std::vector<Type>>;

using Attributes = std::map<std::string, Attribute, std::less<>>;

struct XRT_API Node {
  std::string name;    // unique within the graph
  std::string domain;  // "" is the ONNX standard, "ai.onnx.ml", "xrt", or a user's
  std::string op;
  std::vector<ValueId> inputs;   // an id that is not valid() is an omitted optional input
  std::vector<ValueId> outputs;  // likewise
  Attributes attributes;

  // Typed access; the two-argument form gives `fallback` where the attribute is absent. A value
  // of another type throws kInvalidModel naming node and attribute.
  bool has(std::string_view attribute) const { return attributes.contains(attribute); }
  std::int64_t attr_int(std::string_view attribute, std::int64_t fallback) const;
  float attr_float(std::string_view attribute, float fallback) const;
  std::string attr_string(std::string_view attribute, std::string_view fallback) const;
  std::vector<std::int64_t> attr_ints(std::string_view attribute,
                                      std::vector<std::int64_t> fallback = {}) const;
  std::vector<float> attr_floats(std::string_view attribute,
                                 std::vector<float> fallback = {}) const;
  std::vector<std::string> attr_strings(std::string_view attribute) const;
  const Tensor* attr_tensor(std::string_view attribute) const;                // null if absent
  std::shared_ptr<const Graph> attr_graph(std::string_view attribute) const;  // null if absent

  // The i-th input, or an invalid id if the node has fewer.
  ValueId input(std::size_t i) const { return i < inputs.size() ? inputs[i] : ValueId{}; }
  ValueId output(std::size_t i) const { return i < outputs.size() ? outputs[i] : ValueId{}; }
  // "ai.onnx.ml.Scaler", or just "Relu" for the standard domain.
  std::string qualified_op() const;
};

struct Value {
  std::string name;
  Type type;
  Origin origin = Origin::kNode;
  NodeId producer;                // origin kNode only
  std::int32_t output_index = 0;  // which output of the producer
  Tensor constant;                // origin kConstant only
};

struct Capture {
  ValueId outer;  // in the graph around
  ValueId inner;  // in this graph; origin kCapture
};

class XRT_API Graph {
 public:
  explicit Graph(std::string name = "graph");
  Graph(const Graph&);  // deep: sub-graphs are copied, constants' memory is shared
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Version of each operator-set domain in use; "" is pinned (kOnnxOpset).
  std::map<std::string, std::int64_t>& opsets() { return opsets_; }
  const std::map<std::string, std::int64_t>& opsets() const { return opsets_; }
  // The model's key–value metadata.
  std::map<std::string, std::string>& metadata() { return metadata_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // --- building -------------------------------------------------------------------------------
  // A name that is empty or taken is made unique by a suffix "_1", "_2", … .
  ValueId add_input(std::string_view name, Type type);
  ValueId add_constant(std::string_view name, Tensor tensor);
  // The inner value of a capture of `outer`; the same id again for the same outer value.
  ValueId add_capture(ValueId outer, std::string_view name, Type type);
  // An empty output name leaves that output out where `omit_empty`; otherwise it is named.
  NodeId add_node(std::string_view domain, std::string_view op, std::vector<ValueId> inputs,
                  const std::vector<std::string>& output_names, Attributes attributes = {},
                  std::string_view node_name = {}, bool omit_empty = false);
  // The common case of one output: returns it.
  ValueId add_op(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {},
                 std::string_view output_name = {});
  void add_output(ValueId value);

  // --- reading --------------------------------------------------------------------------------
  const Node& node(NodeId id) const;
  const Value& value(ValueId id) const;
  const Type& type(ValueId id) const { return value(id).type; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  const std::vector<Capture>& captures() const { return captures_; }
  // Values that inputs take when the caller leaves them out (an ONNX initializer of that name).
  std::map<ValueId, Tensor>& input_defaults() { return input_defaults_; }
  const std::map<ValueId, Tensor>& input_defaults() const { return input_defaults_; }
  // Live nodes in order of creation (not necessarily topological after a pass inserted some).
  std::vector<NodeId> nodes() const;
  std::size_t node_count() const { return live_nodes_; }
  // One past the highest id ever given: sizes of side tables.
  std::size_t node_capacity() const { return nodes_.size(); }
  std::size_t value_capacity() const { return values_.size(); }
  bool alive(NodeId id) const;
  bool alive(ValueId id) const;
  // Constants, in order of creation.
  std::vector<ValueId> constants() const;
  // Deterministic topological order: ready nodes by creation. Captures count as inputs.
  // Throws kInvalidModel naming a node of the cycle if there is one.
  std::vector<NodeId> topological_order() const;
  // Who reads a value (graph outputs are not uses), in order.
  const std::vector<Use>& uses(ValueId id) const;
  bool is_output(ValueId id) const;
  // The constant a value is, or null.
  const Tensor* constant(ValueId id) const;
  std::optional<ValueId> find_value(std::string_view name) const;
  std::optional<NodeId> find_node(std::string_view name) const;
  // Inputs plus what the node's sub-graphs capture; valid ids only, each once, in order.
  std::vector<ValueId> dependencies(NodeId id) const;
  // The node's sub-graphs in order of attribute name.
  static std::vector<const Graph*> subgraphs(const Node& node);

  // --- changing -------------------------------------------------------------------------------
  void set_type(ValueId id, Type type);
  void set_attribute(NodeId id, std::string_view name, Attribute value);
  void remove_attribute(NodeId id, std::string_view name);
  void set_input(NodeId id, std::size_t index, ValueId value);  // grows the list where needed
  void set_value_name(ValueId id, std::string_view name);       // throws if taken
  // Every use, capture and graph output of `from` reads `to` instead.
  void replace_uses(ValueId from, ValueId to);
  void replace_output(std::size_t index, ValueId value);
  // Drops the node; its outputs must have no use and be no graph output.
  void remove_node(NodeId id);
  // Drops an unused constant or capture.
  void remove_value(ValueId id);
  // Turns a node's output into a constant of that name (the node stays, without that output).
  void set_constant(ValueId id, Tensor tensor);
  // Runs `edit` on a sub-graph of the node and keeps uses of captured values in step.
  template <typename Edit>
  void edit_subgraph(NodeId id, std::string_view attribute, Edit&& edit) {
    Graph* body = subgraph_for_edit(id, attribute);
    edit(*body);
    refresh_captures(id);
  }
  // Rewrites every capture's outer id, for a body that moves to another graph before a node there
  // takes it as an attribute.
  template <typename Map>
  void remap_captures(Map&& map) {
    for (Capture& c : captures_) c.outer = map(c.outer);
  }
  // Renumbers: drops dead nodes and values and puts nodes into topological order.
  void compact();

 private:
  friend struct GraphTestAccess;  // tests of the verifier break invariants through it
  struct Index;                   // names → ids, uses
  struct NodeSlot {
    Node node;
    bool alive = true;
  };
  struct ValueSlot {
    Value value;
    std::vector<Use> uses;
    bool alive = true;
  };

  ValueId new_value(std::string_view name, Type type, Origin origin);
  std::string unique_value_name(std::string_view wanted);
  std::string unique_node_name(std::string_view wanted);
  void add_use(ValueId value, Use use);
  void drop_use(ValueId value, Use use);
  void add_capture_uses(NodeId id);
  void drop_capture_uses(NodeId id);
  void redirect_capture(ValueId from, ValueId to);
  Graph* subgraph_for_edit(NodeId id, std::string_view attribute);
  void refresh_captures(NodeId id);
  NodeSlot& slot(NodeId id);
  ValueSlot& slot(ValueId id);
  const NodeSlot& slot(NodeId id) const;
  const ValueSlot& slot(ValueId id) const;

  std::string name_;
  std::map<std::string, std::int64_t> opsets_;
  std::map<std::string, std::string> metadata_;
  std::vector<NodeSlot> nodes_;
  std::vector<ValueSlot> values_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<Capture> captures_;
  std::map<ValueId, Tensor> input_defaults_;
  std::size_t live_nodes_ = 0;
  std::unique_ptr<Index> index_;
};

// The standard-domain opset that every graph is brought to.
inline constexpr std::int64_t kOnnxOpset = 28;

// Location of external data that lies in this process's memory: its offset is an address.
inline constexpr const char* kMemoryLocation = "*/_ORT_MEM_ADDR_/*";

}  // namespace xrt
