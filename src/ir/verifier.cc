// SPDX-License-Identifier: Apache-2.0
#include "ir/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void broken(const char* rule, const Graph& graph, const std::string& message) {
  throw Error(ErrorCode::kInvalidModel,
              fmt::format("[{}] graph '{}': {}", rule, graph.name(), message));
}

std::string label(const Node& node) {
  return fmt::format("node '{}' ({})", node.name, node.qualified_op());
}

void check_ids(const Graph& graph) {
  const auto check = [&](ValueId id, const std::string& where) {
    if (!graph.alive(id)) {
      broken("ids", graph, fmt::format("{} names value {}, which does not exist", where, id.index));
    }
  };
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    for (const ValueId v : node.inputs) {
      if (v.valid()) check(v, label(node));
    }
    for (const ValueId v : node.outputs) {
      if (v.valid()) check(v, label(node));
    }
  }
  for (const ValueId v : graph.inputs()) check(v, "the list of inputs");
  for (const ValueId v : graph.outputs()) check(v, "the list of outputs");
  for (const Capture& c : graph.captures()) check(c.inner, "the list of captures");
}

// Every live value, with its id.
template <typename Visit>
void for_each_value(const Graph& graph, Visit visit) {
  for (std::size_t i = 0; i < graph.value_capacity(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    if (graph.alive(id)) visit(id, graph.value(id));
  }
}

void check_origins(const Graph& graph) {
  std::vector<int> claims(graph.value_capacity(), 0);
  const auto claim = [&](ValueId id, Origin origin, const char* by) {
    if (graph.value(id).origin != origin || ++claims[static_cast<std::size_t>(id.index)] > 1) {
      broken("origins", graph,
             fmt::format("value '{}' is claimed by {}, but has another origin or two",
                         graph.value(id).name, by));
    }
  };
  for (const ValueId v : graph.inputs()) claim(v, Origin::kInput, "the list of inputs");
  for (const Capture& c : graph.captures()) claim(c.inner, Origin::kCapture, "a capture");
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].valid()) continue;
      claim(node.outputs[i], Origin::kNode, label(node).c_str());
      const Value& value = graph.value(node.outputs[i]);
      if (value.producer != id || value.output_index != static_cast<std::int32_t>(i)) {
        broken("origins", graph,
               fmt::format("value '{}' names another producer than {}", value.name, label(node)));
      }
    }
  }
  for_each_value(graph, [&](ValueId id, const Value& value) {
    if (value.origin == Origin::kConstant) return;
    if (claims[static_cast<std::size_t>(id.index)] == 0) {
      broken("origins", graph, fmt::format("value '{}' is made by nothing", value.name));
    }
  });
}

void check_names(const Graph& graph) {
  for_each_value(graph, [&](ValueId id, const Value& value) {
    if (value.name.empty() || graph.find_value(value.name) != id) {
      broken(
          "names", graph,
          fmt::format("the name '{}' of value {} is empty or not its own", value.name, id.index));
    }
  });
  for (const NodeId id : graph.nodes()) {
    const std::string& name = graph.node(id).name;
    if (name.empty() || graph.find_node(name) != id) {
      broken("names", graph,
             fmt::format("the name '{}' of node {} is empty or not its own", name, id.index));
    }
  }
}

void check_uses(const Graph& graph) {
  std::vector<std::vector<Use>> found(graph.value_capacity());
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) continue;
      found[static_cast<std::size_t>(node.inputs[i].index)].push_back(
          {id, static_cast<std::int32_t>(i)});
    }
    std::set<ValueId> captured;
    for (const Graph* body : Graph::subgraphs(node)) {
      for (const Capture& c : body->captures()) captured.insert(c.outer);
    }
    for (const ValueId v : captured) {
      if (!graph.alive(v)) {
        broken("captures", graph,
               fmt::format("{}: a sub-graph captures value {}, which does not exist", label(node),
                           v.index));
      }
      found[static_cast<std::size_t>(v.index)].push_back({id, -1});
    }
  }
  for_each_value(graph, [&](ValueId id, const Value& value) {
    auto& uses = found[static_cast<std::size_t>(id.index)];
    std::sort(uses.begin(), uses.end());
    if (uses != graph.uses(id)) {
      broken("uses", graph,
             fmt::format("value '{}' lists {} uses, {} places read it", value.name,
                         graph.uses(id).size(), uses.size()));
    }
  });
}

bool has_negative_dim(const Type& type) {
  if (type.shape) {
    for (const Dim& dim : *type.shape) {
      if (dim.value() < -1) return true;
    }
  }
  return type.element != nullptr && has_negative_dim(*type.element);
}

void check_types(const Graph& graph) {
  for_each_value(graph, [&](ValueId, const Value& value) {
    if (has_negative_dim(value.type)) {
      broken("dims", graph,
             fmt::format("value '{}' has the type {}", value.name, to_string(value.type)));
    }
    if (value.origin == Origin::kConstant &&
        (!value.constant.defined() ||
         value.type != Type::tensor(value.constant.dtype(), value.constant.dims()))) {
      broken("constants", graph,
             fmt::format("constant '{}' is typed {}", value.name, to_string(value.type)));
    }
  });
}

bool fits(const Dims& dims, const Type& type) {
  if (!type.shape) return true;
  if (type.shape->size() != dims.size()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Dim& dim = (*type.shape)[i];
    if (dim.is_known() && dim.value() != dims[i]) return false;
  }
  return true;
}

void check_defaults(const Graph& graph) {
  for (const auto& [id, tensor] : graph.input_defaults()) {
    if (!graph.alive(id) || graph.value(id).origin != Origin::kInput) {
      broken("defaults", graph,
             fmt::format("there is a default for value {}, which is no input", id.index));
    }
    const Value& value = graph.value(id);
    if (!value.type.is_tensor() || value.type.dtype != tensor.dtype() ||
        !fits(tensor.dims(), value.type)) {
      broken("defaults", graph,
             fmt::format("input '{}' is {}, its default {}{}", value.name, to_string(value.type),
                         to_string(tensor.dtype()), to_string(tensor.dims())));
    }
  }
}

void check_subgraphs(const Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    for (const Graph* body : Graph::subgraphs(node)) {
      for (const Capture& c : body->captures()) {
        const Type& outer = graph.type(c.outer);
        const Type& inner = body->type(c.inner);
        if (outer.kind != inner.kind || outer.dtype != inner.dtype) {
          broken("captures", graph,
                 fmt::format("{}: '{}' is {} outside and {} inside of its sub-graph", label(node),
                             graph.value(c.outer).name, to_string(outer), to_string(inner)));
        }
      }
      verify(*body);
    }
  }
}

}  // namespace

void verify(const Graph& graph) {
  check_ids(graph);
  check_origins(graph);
  check_names(graph);
  check_uses(graph);
  try {
    graph.topological_order();
  } catch (const Error& e) {
    broken("acyclic", graph, e.what());  // names a node of the cycle
  }
  check_types(graph);
  check_defaults(graph);
  const auto standard = graph.opsets().find("");
  if (standard == graph.opsets().end() || standard->second != kOnnxOpset) {
    broken("opset", graph, fmt::format("the standard domain is not at opset {}", kOnnxOpset));
  }
  check_subgraphs(graph);
}

}  // namespace xrt
