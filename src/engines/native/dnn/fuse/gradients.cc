// SPDX-License-Identifier: Apache-2.0
// Where(Greater(y, 0), dy, 0) and Where(LessOrEqual(y, 0), 0, dy) are Relu's gradient.
#include "engines/native/dnn/fuse/optimize.h"
#include "engines/native/dnn/post_ops.h"
#include "ir/pattern.h"

namespace xrt::native::dnn {

void fuse_gradients(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    if (!graph.alive(id)) continue;
    const Node node = graph.node(id);
    if (!node.domain.empty() || node.op != "Where" || node.inputs.size() != 3) continue;
    const Node* mask = producer(graph, node.inputs[0], "Greater");
    const bool kept_where_true = mask != nullptr;
    if (!kept_where_true) mask = producer(graph, node.inputs[0], "LessOrEqual");
    const ValueId zero = node.inputs[kept_where_true ? 2 : 1];
    if (mask == nullptr || scalar_constant(graph, mask->input(1)) != 0.0F ||
        scalar_constant(graph, zero) != 0.0F) {
      continue;
    }
    const ValueId y = mask->inputs[0];
    const ValueId dy = node.inputs[kept_where_true ? 1 : 2];
    const Type type = graph.type(y);
    if (type.dtype != DType::kFloat32 || !type.is_static() || !(graph.type(dy) == type)) continue;
    const NodeId made = graph.add_node(kDomain, "ReluGradient", {y, dy}, {""},
                                       {{kKeepsNaN, std::int64_t{kept_where_true ? 0 : 1}}});
    const ValueId result = graph.node(made).outputs[0];
    graph.set_type(result, type);
    substitute(graph, node.outputs[0], result);
  }
}

}  // namespace xrt::native::dnn
