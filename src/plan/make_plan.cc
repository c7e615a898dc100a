// SPDX-License-Identifier: Apache-2.0
// Who runs what, as a plan: placed, partitioned and folded, not yet compiled.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache_entry.h"
#include "partition/fold.h"
#include "placement/placement.h"
#include "placement/survey.h"
#include "plan/plan.h"
#include "registry/engine_names.h"
#include "xrt/error.h"
#include "xrt/version.h"

namespace xrt {
namespace {

std::vector<std::string> types_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> types;
  types.reserve(values.size());
  for (const ValueId v : values) types.push_back(v.valid() ? to_string(graph.type(v)) : "");
  return types;
}

std::size_t output_position(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    if (graph.value(graph.outputs()[i]).name == name) return i;
  }
  throw Error(ErrorCode::kInvalidArgument, "aliases: the graph has no output '" + name + "'");
}

std::size_t input_position(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    if (graph.value(graph.inputs()[i]).name == name) return i;
  }
  throw Error(ErrorCode::kInvalidArgument, "aliases: the graph has no input '" + name + "'");
}

// Of the same sizes in every run.
bool has_equal_sizes(const Type& a, const Type& b) {
  return a.has_rank() && a.shape == b.shape &&
         std::all_of(a.shape->begin(), a.shape->end(),
                     [](const Dim& dim) { return dim.is_known() || dim.is_symbol(); });
}

// The rows of nodes, with what every engine said about them.
void fill_rows(const Graph& graph, const Placement& placement, Plan& plan) {
  Explanation& explanation = plan.explanation;
  explanation.notes = placement.notes;
  const std::vector<NodeId> launches = plan.folded.nodes();  // in the order of the clusters
  std::multimap<NodeId, const Demotion*> demotions;
  for (const Demotion& demotion : placement.partition.demotions) {
    demotions.emplace(demotion.node, &demotion);
  }
  for (const NodeId id : graph.topological_order()) {
    const auto index = static_cast<std::size_t>(id.index);
    const auto cluster = static_cast<std::size_t>(placement.partition.cluster_of[index]);
    const Node& node = graph.node(id);
    Explanation::NodeRow row;
    row.name = node.name;
    row.op = node.qualified_op();
    const Node& launch = plan.folded.node(launches.at(cluster));
    row.engine = launch.attr_string("engine", "");
    row.function = launch.attr_string("name", launch.name);
    row.inputs = names_of(graph, node.inputs);
    row.outputs = names_of(graph, node.outputs);
    row.input_types = types_of(graph, node.inputs);
    row.output_types = types_of(graph, node.outputs);
    for (const EngineAnswers& a : placement.answers) {
      if (a.engine == kRuntimeEngine) continue;  // what it does not drive it has no say in
      if (!a.nodes[index]) row.refusals[a.engine] = a.nodes[index].reason();
    }
    const auto [begin, end] = demotions.equal_range(id);
    for (auto it = begin; it != end; ++it) {
      const Demotion& demotion = *it->second;
      row.refusals[placement.answers[demotion.engine].engine] = fmt::format(
          "cluster_minimum_nodes: the node would be in a cluster of {}", demotion.cluster_nodes);
    }
    ++explanation.nodes_per_engine[row.engine];
    explanation.nodes.push_back(std::move(row));
  }
}

}  // namespace

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const ValueId v : values) names.push_back(v.valid() ? graph.value(v).name : std::string{});
  return names;
}

Plan make_plan(Survey& survey, const Decision& decision) {
  const Graph& graph = survey.graph();
  const Placement placement = place(survey, decision);
  Plan plan;
  for (const EngineAnswers& answers : placement.answers) {
    const std::string& name = answers.engine;
    plan.engines.push_back(name);
    if (name == kRuntimeEngine) {
      plan.identities.emplace_back(version());
    } else {
      plan.identities.push_back(engine_stamp(name).empty() ? "" : engine_identity(name));
    }
  }
  plan.folded = fold(graph, placement.partition, plan.engines);
  plan.output_names = names_of(graph, graph.outputs());
  plan.precision = decision.precision;
  plan.float32_nodes = decision.float32_nodes;
  plan.warnings = placement.warnings;
  plan.explanation.placement = decision.placement;
  plan.explanation.precision = decision.precision;
  plan.explanation.candidates = decision.candidates;
  for (const auto& [in, out] : survey.options().aliases) {
    const std::pair pair{input_position(graph, in), output_position(graph, out)};
    const Type& a = graph.type(graph.inputs()[pair.first]);
    const Type& b = graph.type(graph.outputs()[pair.second]);
    if (a.dtype != b.dtype || !has_equal_sizes(a, b)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "aliases: input '" + in + "' is " + to_string(a) + " and output '" + out +
                      "' is " + to_string(b) +
                      "; they must be equal, each size a number or a name");
    }
    plan.aliases.push_back(pair);
  }
  fill_rows(graph, placement, plan);
  return plan;
}

}  // namespace xrt
