// SPDX-License-Identifier: Apache-2.0
// Lowering a node by its function body, for engines that lower a graph node by node.
//
// Such an engine has a class that knows what the values of one graph are in its own terms:
//
//   const Graph& graph() const;
//   Bound& at(ValueId id);               // what a value is; a constant is bound when it is read
//   void bind(ValueId id, Bound value);
//   void lower_all();                    // throws Refusal, which has a `reason`
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ops/schema.h"
#include "xrt/graph.h"

namespace xrt {

// Lowers the body that the standard, or a user, defines the node by, and binds the node's outputs.
// False where there is none. `enter(body)` makes the Lowerer of the body. What it refuses is
// thrown on as a Refusal that says so.
template <typename Refusal, typename Lowerer, typename Enter>
bool lower_by_body(Lowerer& outer, NodeId id, const Enter& enter) {
  const Graph& graph = outer.graph();
  if (!has_function_body(graph, id)) return false;
  const Graph body = function_body(graph, id);
  // The body's inputs and outputs are the node's without the absent ones.
  const auto present = [](const std::vector<ValueId>& ids) {
    std::vector<ValueId> out;
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(out),
                 [](ValueId value) { return value.valid(); });
    return out;
  };
  const std::vector<ValueId> inputs = present(graph.node(id).inputs);
  const std::vector<ValueId> outputs = present(graph.node(id).outputs);
  if (inputs.size() != body.inputs().size() || outputs.size() != body.outputs().size()) {
    throw Refusal{"its function body has another signature"};
  }
  Lowerer inner = enter(body);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto value = outer.at(inputs[i]);
    inner.bind(body.inputs()[i], std::move(value));
  }
  try {
    inner.lower_all();
  } catch (const Refusal& refusal) {
    throw Refusal{"in its function body: " + refusal.reason};
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    auto value = inner.at(body.outputs()[k]);
    outer.bind(outputs[k], std::move(value));
  }
  return true;
}

}  // namespace xrt
