// SPDX-License-Identifier: Apache-2.0
// What xrt/op.h's registry knows about the op of a node.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/op.h"

namespace xrt {

struct RegisteredOp {
  OpDefinition definition;
  std::map<std::string, std::string> lowerings;  // engine → serialised ONNX FunctionProto
  std::string gradient;                          // likewise; empty: it has none of its own
  std::vector<bool> differentiable;              // inputs that `gradient` makes a gradient of
  std::string key;  // changes with what the op means: part of the fingerprint of its nodes
};

// Whether the newest definition of a user's op says what its gradient is.
XRT_API bool has_gradient(std::string_view domain, std::string_view name);

// Null for ops of the standard and those that nobody registered. The pointer stays valid.
XRT_API const RegisteredOp* registered_op(const Graph& graph, const Node& node);

// The code that the op of a node has for one engine (OpDefinition::code), made for this node;
// nothing where there is none. Throws kEngine where it cannot be made.
XRT_API std::optional<std::string> engine_code(const Graph& graph, const Node& node,
                                               const std::string& engine);

// What the ops of a domain mean, all of them: folded nodes leave no other trace of theirs.
struct DomainMeaning {
  std::string digest;       // empty: no op of the domain is registered
  std::string unversioned;  // qualified name of an op that says no version; empty: all do
};
XRT_API DomainMeaning meaning_of(std::string_view domain);

// The node's attributes, and the definition's values for those it leaves out.
XRT_API Attributes complete_attributes(const OpDefinition& op, const Node& node);

}  // namespace xrt
