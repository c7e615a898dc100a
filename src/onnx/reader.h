// SPDX-License-Identifier: Apache-2.0
// ONNX's GraphProto and FunctionProto to Graph.
//
// Internal to the files that speak protobuf. Names become ids, what a sub-graph reads from around
// it becomes a capture, Constant nodes become constants, calls of model-local functions are inlined
// (each body under its own opset). A message that breaks a rule of ONNX throws kInvalidModel naming
// the node or value; nesting and the number of nodes are bounded.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "onnx/proto.h"
#include "xrt/error.h"
#include "xrt/graph.h"

namespace xrt {

using Opsets = std::map<std::string, std::int64_t>;

// A node about to be added: what upgrades may still change.
struct NodeDraft {
  std::string name, domain, op;
  std::vector<ValueId> inputs;
  std::vector<std::string> outputs;
  Attributes attributes;
  // Where other nodes make its outputs: the value of each (invalid: it has none). Then no node of
  // the draft itself is added.
  std::vector<ValueId> results;
};

struct ReadOptions {
  TensorSource tensors;
  Opsets opsets;  // of the model; "" is the standard domain
  // Model-local functions by function_key().
  std::unordered_map<std::string, const onnx::FunctionProto*> functions;
  // Brings a node of the standard domain from opset `version` to the pinned one. It may add nodes
  // in front of the draft.
  std::function<void(Graph& graph, NodeDraft& draft, std::int64_t version)> upgrade;
  // Whether `translate` says an op of an opset in ops of the standard, or why it does not. Such ops
  // have no schema in that opset.
  std::function<bool(std::string_view domain, std::string_view op, std::int64_t version)>
      translates;
  // It may add nodes in front of the draft, for each of which it calls `added`, which throws
  // kResource where there are too many of them or the time is over.
  std::function<void(Graph& graph, NodeDraft& draft,
                     const std::function<void(Graph& graph, NodeId node)>& added)>
      translate;
  // Run for each node that is added, so that translations know the types of their operands. May
  // be absent.
  std::function<void(Graph& graph, NodeId node)> infer;
  // Since IR version 4 an initializer that is also a graph input is that input's default; before,
  // every initializer had to be listed as an input.
  bool inputs_have_defaults = true;
  // Nodes of the graph, its sub-graphs and functions, each time that they are called, and those
  // that are put in place of others.
  std::int64_t max_nodes = 10'000'000;
  bool check_schemas = true;
};

std::string function_key(std::string_view domain, std::string_view name, std::string_view overload);

class Reader {
 public:
  explicit Reader(ReadOptions options) : options_(std::move(options)) {}

  Graph read(const onnx::GraphProto& proto);

  // Adds the body of `function` to `graph`; returns its outputs (invalid where it makes none).
  // `attributes` are those of the call (ref_attr_name in the body refers to them), `prefix` goes
  // before the names in the body.
  std::vector<ValueId> inline_function(Graph& graph, const onnx::FunctionProto& function,
                                       const std::vector<ValueId>& inputs,
                                       const std::vector<onnx::AttributeProto>& attributes,
                                       const std::string& prefix);

 private:
  struct Scope;
  // An op that cannot be read, for one reason.
  struct Unreadable {
    std::string op, first, reason;  // first: the first node, in words
    std::size_t count = 1;
  };
  // An attribute of a call, and where its sub-graphs' names are looked up.
  struct Binding {
    const onnx::AttributeProto* proto = nullptr;
    Scope* scope = nullptr;
  };
  using Bindings = std::map<std::string, Binding, std::less<>>;

  void read_graph(const onnx::GraphProto& proto, Scope& scope);
  void read_inputs(const onnx::GraphProto& proto, Scope& scope);
  void read_outputs(const onnx::GraphProto& proto, Scope& scope);
  void read_node(const onnx::NodeProto& proto, Scope& scope);
  void add_node(const onnx::NodeProto& proto, NodeDraft draft, Scope& scope);
  void add_constant(const onnx::NodeProto& proto, const NodeDraft& draft, Scope& scope);
  void translate(NodeDraft& draft, Graph& graph);
  void upgrade(NodeDraft& draft, Graph& graph, std::int64_t version);
  // One more of a kind: throws kResource beyond max_nodes.
  void count_node(std::int64_t& kind);
  void call_function(const onnx::NodeProto& proto, const onnx::FunctionProto& function,
                     Scope& scope);
  std::vector<ValueId> run_function(const onnx::FunctionProto& function, Scope& body,
                                    const std::vector<ValueId>& inputs);
  Attributes read_attributes(const onnx::NodeProto& proto, Scope& scope);
  std::shared_ptr<Graph> read_subgraph(const onnx::GraphProto& proto, Scope& scope,
                                       const std::string& what);
  std::optional<ValueId> resolve(Scope& scope, const std::string& name);
  ValueId resolve_input(Scope& scope, const std::string& name, const onnx::NodeProto& node);
  void define(Scope& scope, const std::string& name, ValueId value, const std::string& what);
  std::int64_t opset_of(const Scope& scope, const onnx::NodeProto& node) const;
  // Throws kUnsupported without naming the node where the standard has no such op.
  void check_schema(const onnx::NodeProto& node, std::int64_t version) const;
  void note_unreadable(const onnx::NodeProto& node, const Error& error);
  // Throws kUnsupported with all that note_unreadable() was given, if anything.
  void throw_unreadable() const;

  ReadOptions options_;
  // Reading goes on behind such a node, so that one error can tell of all.
  std::vector<Unreadable> unreadable_;
  std::map<std::string, std::int64_t> foreign_;  // ops that only an engine may know → nodes
  std::int64_t nodes_read_ = 0;
  std::int64_t nodes_inlined_ = 0;
  std::int64_t nodes_translated_ = 0;
};

// A map of the imports of a model or function, with the standard domain as "".
template <typename Proto>
Opsets opsets_of(const Proto& proto) {
  Opsets opsets;
  for (const auto& import : proto.opset_import()) {
    opsets[std::string(normal_domain(import.domain()))] = import.version();
  }
  return opsets;
}

}  // namespace xrt
