// SPDX-License-Identifier: Apache-2.0
#include "placement/withheld.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ops/shape_inference.h"
#include "ops/sizes/size_rules.h"
#include "placement/heavy_constants.h"
#include "registry/engine_manifest.h"
#include "registry/engine_names.h"
#include "xrt/error.h"
#include "xrt/tensor.h"

namespace xrt {
namespace {

// What inference says of a branch on its own. That of a branch which may not be taken is no error
// of the model.
std::optional<std::string> broken_rule(const Graph& body) {
  try {
    Graph copy(body);
    infer_shapes(copy);
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidModel) throw;
    return error.what();
  }
}

// Libraries subtract the ends of a Range in their own type.
std::optional<std::string> wide_range(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || node.op != "Range") return std::nullopt;
  std::array<std::int64_t, 2> ends{};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Tensor* end = node.input(i).valid() ? graph.constant(node.input(i)) : nullptr;
    if (end == nullptr || end->count() != 1 || !is_integer(end->dtype())) return std::nullopt;
    ends[i] = end->to_int64()[0];
  }
  std::int64_t wide = 0;
  bool wraps = __builtin_sub_overflow(ends[1], ends[0], &wide);
  if (graph.type(node.input(0)).dtype != DType::kInt64) {
    std::int32_t narrow = 0;
    wraps = __builtin_sub_overflow(ends[1], ends[0], &narrow);
  }
  if (!wraps) return std::nullopt;
  return "its ends are further apart than a number of its type can tell";
}

std::optional<std::string> wrong(const Graph& graph, const Node& node) {
  if (auto sizes = sizes_refusal(graph, node)) return sizes;
  if (auto range = wide_range(graph, node)) return range;
  const bool may_be_left_out = node.domain.empty() && node.op == "If";
  for (const Graph* body : Graph::subgraphs(node)) {
    for (const NodeId id : body->nodes()) {
      if (auto inner = wrong(*body, body->node(id))) {
        return "node '" + body->node(id).name + "' of its body: " + *inner;
      }
    }
    if (!may_be_left_out) continue;
    if (auto broken = broken_rule(*body)) return "its branch: " + *broken;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Withheld> withheld_nodes(const Engine& engine, const Graph& graph) {
  if (engine.name() == kFallbackEngine) return {};
  std::vector<Withheld> found;
  std::vector<bool> is_found(graph.node_capacity());
  for (const NodeId id : graph.nodes()) {
    if (auto reason = wrong(graph, graph.node(id))) {
      found.push_back({id, *std::move(reason)});
      is_found[static_cast<std::size_t>(id.index)] = true;
    }
  }
  const bool expands = engine_manifest(engine.name()).expands_without_memory;
  for (const NodeId id : heavy_constants(graph)) {
    if (is_found[static_cast<std::size_t>(id.index)]) continue;
    if (expands && graph.node(id).qualified_op() == "Expand") continue;
    found.push_back(
        {id, "it makes a large value of constants alone, which the engine might keep: '" +
                 std::string(kFallbackEngine) + "' computes it in each run"});
  }
  return found;
}

}  // namespace xrt
