// SPDX-License-Identifier: Apache-2.0
// What the ONNX standard says about an op, and the bodies of ops that are defined by others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt_onnx {
class OpSchema;
}

namespace xrt {

namespace onnx = ::xrt_onnx;  // see onnx/proto.h

// Facts about one op at one opset version.
struct OpInfo {
  std::string domain, name;
  std::int64_t since_version = 0;  // the opset that last changed it
  bool deterministic = true;       // false: random, never folded or shared
  bool has_function = false;       // some of its nodes have a function body
  int min_inputs = 0, max_inputs = 0, min_outputs = 0, max_outputs = 0;
  std::vector<std::string> input_names, output_names;  // formal, the last one may be variadic
  std::string doc;
};

// The schema that holds for a node of the graph: of the standard, of the domain "xrt"
// (ops/own_ops.h) or of a user's op. Null where nothing is known of the op.
const onnx::OpSchema* schema_of(const Graph& graph, const Node& node);

// The schema's values for the attributes that the node leaves out.
std::vector<std::pair<std::string, Attribute>> missing_defaults(const Graph& graph,
                                                                const Node& node);

// Nothing for an op that the ONNX library does not know. `version` 0: the pinned opset for the
// standard domain, the newest for others.
XRT_API std::optional<OpInfo> op_info(std::string_view domain, std::string_view op,
                                      std::int64_t version = 0);
// Every op of a domain at its newest version, deprecated ones left out, sorted by name.
XRT_API std::vector<OpInfo> all_ops(std::string_view domain);

// False for random ops and, to be safe, for ops that nothing is known of.
XRT_API bool is_deterministic(const Node& node);

// Whether the standard defines this node by a body of other ops, at the pinned opset; some bodies
// depend on the types of the node's inputs, so that it is asked per node.
XRT_API bool has_function_body(const Graph& graph, NodeId node);

// That body. Its inputs and outputs are the node's, in order, without the absent ones. Throws
// kUnsupported where there is none.
XRT_API Graph function_body(const Graph& graph, NodeId node);

// The body that the op of a node has for one engine (xrt/op.h: OpDefinition::lowerings), in the
// form of function_body(); nothing where there is none.
XRT_API std::optional<Graph> lowered_body(const Graph& graph, NodeId node, std::string_view engine);

// The gradient that the op of a node has (xrt/op.h: OpDefinition::gradient), in that form: from the
// node's inputs, outputs and the gradients of all its outputs, absent ones left out, to the
// gradients of its differentiable inputs that are there. Nothing where there is none.
XRT_API std::optional<Graph> gradient_body(const Graph& graph, NodeId node);

// Replaces every node for which `expand` is true by its body, again and again until none is left,
// in sub-graphs too; nodes without a body stay. True if any was replaced. Types are inferred.
XRT_API bool expand_functions(Graph& graph,
                              const std::function<bool(const Graph&, NodeId)>& expand);

}  // namespace xrt
