// SPDX-License-Identifier: Apache-2.0
#include "placement/control_flow.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <variant>

#include "ir/extract.h"

namespace xrt {
namespace {

// The type of one slice.
Type slice_type(const Type& whole, std::int64_t given_axis) {
  if (!whole.has_rank()) return whole;
  const auto rank = static_cast<std::int64_t>(whole.rank());
  const std::int64_t axis = given_axis < 0 ? given_axis + rank : given_axis;
  if (axis < 0 || axis >= rank) return Type::tensor(whole.dtype);  // an error once it runs
  Type part = whole;
  part.shape->erase(part.shape->begin() + axis);
  return part;
}

bool is_scannable(const Type& type) {
  return type.is_tensor() && (type.dtype == DType::kUndefined || !is_packed(type.dtype));
}

// Why the runtime cannot run the node, or nothing.
std::optional<std::string> misfit(const Graph& graph, const Node& node) {
  const std::vector<const Graph*> bodies = Graph::subgraphs(node);
  if (bodies.size() != (node.op == "If" ? 2U : 1U)) return "it lacks a body";
  const Graph& body = *bodies[0];
  std::size_t first = 0;    // outputs of the body that are handed on
  std::size_t carried = 0;  // … how many
  if (node.op == "If") {
    for (const Graph* branch : bodies) {
      if (!branch->inputs().empty() || branch->outputs().size() < node.outputs.size()) {
        return "a branch does not fit the node";
      }
    }
    return std::nullopt;
  }
  if (node.op == "Loop") {
    if (body.inputs().size() < 2 || body.inputs().size() < node.inputs.size()) {
      return "the body does not fit the node's inputs";
    }
    first = 1;
    carried = body.inputs().size() - 2;
  } else {
    const std::size_t scanned = scanned_inputs(node);
    if (scanned < 1 || scanned > node.inputs.size() || body.inputs().size() != node.inputs.size()) {
      return "'num_scan_inputs' does not fit the inputs";
    }
    carried = node.inputs.size() - scanned;
    for (std::size_t i = carried; i < node.inputs.size(); ++i) {
      if (!is_scannable(graph.type(node.inputs[i]))) {
        return "'" + graph.value(node.inputs[i]).name + "' is " +
               to_string(graph.type(node.inputs[i])) + ", which it does not scan";
      }
    }
  }
  if (body.outputs().size() < first + carried ||
      body.outputs().size() - first < node.outputs.size()) {
    return "the body does not fit the node's outputs";
  }
  for (std::size_t i = first + carried; i < body.outputs().size(); ++i) {
    if (!is_scannable(body.type(body.outputs()[i]))) {
      return "the body's output '" + body.value(body.outputs()[i]).name + "' is " +
             to_string(body.type(body.outputs()[i])) + ", which it does not scan";
    }
  }
  return std::nullopt;
}

}  // namespace

std::int64_t entry_or_zero(const std::vector<std::int64_t>& list, std::size_t i) {
  return i < list.size() ? list[i] : 0;
}

std::size_t scanned_inputs(const Node& node) {
  return static_cast<std::size_t>(std::max<std::int64_t>(0, node.attr_int("num_scan_inputs", 0)));
}

Support can_drive(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!is_control_flow(node)) return Support::no("it is no If, Loop or Scan");
  if (const auto reason = misfit(graph, node)) return Support::no(*reason);
  return Support::yes();
}

bool is_control_flow(const Node& node) {
  return node.domain.empty() && (node.op == "If" || node.op == "Loop" || node.op == "Scan");
}

std::vector<std::pair<std::string, Graph>> detached_bodies(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::vector<std::pair<std::string, Graph>> result;
  for (const auto& [attribute, value] : node.attributes) {
    const auto* original = std::get_if<std::shared_ptr<Graph>>(&value);
    if (original == nullptr) continue;
    Graph body = detach(**original, attribute);
    const std::size_t declared = (*original)->inputs().size();
    const auto refine = [&](std::size_t i, const Type& given) {
      const ValueId v = body.inputs().at(i);
      // The shape that the body declares need not be that of the value that it is given.
      const bool is_known = given.is_tensor() && given.dtype != DType::kUndefined;
      if (body.type(v).is_tensor() && is_known) body.set_type(v, given);
    };
    if (node.op == "Loop" && declared >= 2) {
      for (std::size_t i = 0; i < 2; ++i) {
        const Type& type = body.type(body.inputs()[i]);
        const bool is_vector = type.has_rank() && type.rank() == 1;
        refine(i, Type::tensor(i == 0 ? DType::kInt64 : DType::kBool,
                               is_vector ? Shape{Dim(1)} : Shape{}));
      }
      for (std::size_t i = 2; i < declared && i < node.inputs.size(); ++i) {
        if (node.inputs[i].valid()) refine(i, graph.type(node.inputs[i]));
      }
    }
    if (node.op == "Scan" && declared == node.inputs.size()) {
      const std::vector<std::int64_t> axes = node.attr_ints("scan_input_axes");
      const std::size_t states = declared - std::min(declared, scanned_inputs(node));
      for (std::size_t i = 0; i < declared; ++i) {
        const Type& given = graph.type(node.inputs[i]);
        refine(i, i < states ? given : slice_type(given, entry_or_zero(axes, i - states)));
      }
    }
    const std::vector<Capture>& captures = (*original)->captures();
    for (std::size_t i = 0; i < captures.size(); ++i) {
      refine(declared + i, graph.type(captures[i].outer));
    }
    result.emplace_back(attribute, std::move(body));
  }
  return result;
}

std::map<std::string, std::string> overrides_within(
    const std::map<std::string, std::string>& overrides, const std::string& node,
    const std::string& attribute) {
  const std::string prefix = node + "/" + attribute + "/";
  std::map<std::string, std::string> inner;
  for (auto it = overrides.lower_bound(prefix);
       it != overrides.end() && it->first.starts_with(prefix); ++it) {
    inner.emplace(it->first.substr(prefix.size()), it->second);
  }
  return inner;
}

}  // namespace xrt
