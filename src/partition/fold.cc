// SPDX-License-Identifier: Apache-2.0
#include "partition/fold.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/extract.h"

namespace xrt {

Graph fold(const Graph& graph, const Partition& partition,
           const std::vector<std::string>& engines) {
  Graph folded(graph.name());
  folded.opsets() = graph.opsets();
  folded.metadata() = graph.metadata();
  GraphCopier copier(graph, folded);
  for (const ValueId v : graph.inputs()) {
    const Value& value = graph.value(v);
    copier.set(v, folded.add_input(value.name, value.type));
  }
  for (const Capture& c : graph.captures()) {
    const Value& value = graph.value(c.inner);
    copier.set(c.inner, folded.add_capture(c.outer, value.name, value.type));
  }
  for (const auto& [id, tensor] : graph.input_defaults()) {
    folded.input_defaults().emplace(copier.get(id), tensor);
  }
  std::map<std::size_t, std::size_t> number;  // per engine
  for (const Cluster& cluster : partition.clusters) {
    const std::string name =
        engines[cluster.engine] + "_" + std::to_string(number[cluster.engine]++);
    Extract part = extract(graph, cluster.nodes, name);
    std::vector<ValueId> inputs;
    for (const ValueId v : part.inputs) inputs.push_back(copier.get(v));
    std::vector<std::string> names;
    for (const ValueId v : part.outputs) names.push_back(graph.value(v).name);
    Attributes attributes;
    attributes["engine"] = engines[cluster.engine];
    attributes["name"] = name;
    attributes["function"] = std::make_shared<Graph>(std::move(part.graph));
    const NodeId launch = folded.add_node(kXrtDomain, kLaunchOp, std::move(inputs), names,
                                          std::move(attributes), name, /*omit_empty=*/true);
    for (std::size_t i = 0; i < part.outputs.size(); ++i) {
      const ValueId now = folded.node(launch).outputs[i];
      folded.set_type(now, graph.type(part.outputs[i]));
      copier.set(part.outputs[i], now);
    }
  }
  for (const ValueId v : graph.outputs()) {
    if (!copier.has(v)) copier.constant(v);  // a constant that is an output
    folded.add_output(copier.get(v));
  }
  return folded;
}

}  // namespace xrt
