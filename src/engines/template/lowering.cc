// SPDX-License-Identifier: Apache-2.0
#include "lowering.h"

#include <utility>

#include "xrt/error.h"

namespace xrt::template_engine {

const LoweringRegistry& LoweringRegistry::get() {
  static const LoweringRegistry registry = [] {
    LoweringRegistry all;
    add_elementwise(all);
    add_matmul(all);
    add_optimizers(all);
    return all;
  }();
  return registry;
}

void LoweringRegistry::add(std::string op, Lowering lowering) {
  if (lowerings_.contains(op)) {
    throw Error(ErrorCode::kInvalidArgument, "template: " + op + " has a lowering already");
  }
  lowerings_.emplace(std::move(op), std::move(lowering));
}

const Lowering* LoweringRegistry::find(std::string_view op) const {
  const auto it = lowerings_.find(op);
  return it == lowerings_.end() ? nullptr : &it->second;
}

std::vector<std::string> LoweringRegistry::ops() const {
  std::vector<std::string> names;
  for (const auto& [op, lowering] : lowerings_) names.push_back(op);
  return names;
}

std::vector<ValueId> values_of(const NodeView& node) {
  std::vector<ValueId> values = node.inputs();
  const std::vector<ValueId> outputs = node.outputs();
  values.insert(values.end(), outputs.begin(), outputs.end());
  return values;
}

Support needs_float32(const GraphView& graph, const NodeView& node) {
  for (const ValueId id : values_of(node)) {
    if (!id.valid() || graph.type(id).dtype() == DType::kFloat32) continue;
    return Support::no("it computes in float32, '" + std::string(graph.value_name(id)) + "' is " +
                       to_string(graph.type(id)));
  }
  return Support::yes();
}

}  // namespace xrt::template_engine
