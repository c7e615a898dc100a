// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/op_table.h"

#include <algorithm>
#include <map>
#include <set>

#include "engines/openvino/convert.h"
#include "engines/openvino/lowerings.h"
#include "engines/openvino/rules.h"
#include "ops/canonical.h"
#include "ops/schema.h"

namespace xrt::openvino {

// The frontend does not list its translators. It is given one node of each op, with inputs of some
// type: what it says of a node that it has no translator for is not what it says of a wrong type.
std::vector<std::string> op_table() {
  Graph graph("ops");
  const Type type = Type::tensor(DType::kFloat32, Shape{1, 1, 1, 1});
  std::map<std::string, std::string> op_of;  // by name of output
  for (const OpInfo& info : all_ops("")) {
    std::vector<ValueId> inputs;
    for (int i = 0; i < std::max(info.min_inputs, 1); ++i) {
      inputs.push_back(graph.add_input({}, type));
    }
    const NodeId id = graph.add_node("", info.name, inputs, {"out_" + info.name});
    const Node& node = graph.node(id);
    graph.set_type(node.outputs[0], type);
    canonicalize_node(graph, id);
    graph.add_output(node.outputs[0]);
    if (!op_refusal(graph, node)) op_of[graph.value(node.outputs[0]).name] = info.name;
  }
  std::map<std::string, std::string> failed;
  convert_leniently(graph, failed);
  std::set<std::string> names;
  for (const auto& [output, op] : op_of) {
    const auto found = failed.find(output);
    if (found == failed.end() || found->second != kNoTranslator) names.insert(op);
  }
  for (const std::string& op : lowered_ops()) names.insert(op);
  return {names.begin(), names.end()};
}

}  // namespace xrt::openvino
