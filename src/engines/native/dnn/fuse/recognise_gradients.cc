// SPDX-License-Identifier: Apache-2.0
// The gradient of a convolution's weight, written in ops of the standard, becomes the op
// xrt.ConvWeightGradient: there it is a convolution in which batch and channels have changed places
// and the gradient of the result is the weight.
#include <optional>
#include <vector>

#include "engines/native/dnn/fuse/optimize.h"
#include "ir/attributes.h"
#include "ir/pattern.h"

namespace xrt::native::dnn {
namespace {

constexpr const char* kXrtDomain = "xrt";
constexpr const char* kOp = "ConvWeightGradient";

// What a Transpose that exchanges the first two axes reads; nothing for anything else.
ValueId under_exchange(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value, "Transpose");
  if (node == nullptr) return {};
  const std::vector<std::int64_t> perm = node->attr_ints("perm");
  if (perm.size() < 3 || perm[0] != 1 || perm[1] != 0) return {};
  for (std::size_t i = 2; i < perm.size(); ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) return {};
  }
  return node->inputs[0];
}

// The result of a Slice that keeps the beginning of the spatial axes, or `value` itself.
ValueId behind_slice(const Graph& graph, ValueId value, std::size_t rank) {
  const auto use = sole_use(graph, value);
  if (!use) return value;
  const Node& slice = graph.node(use->node);
  if (!slice.domain.empty() || slice.op != "Slice" || use->index != 0) return value;
  const Tensor* starts = graph.constant(slice.input(1));
  const Tensor* axes = slice.input(3).valid() ? graph.constant(slice.input(3)) : nullptr;
  if (starts == nullptr || axes == nullptr || slice.input(4).valid()) return {};
  const std::vector<std::int64_t> zeros(rank - 2, 0);
  std::vector<std::int64_t> spatial;
  for (std::size_t i = 2; i < rank; ++i) spatial.push_back(static_cast<std::int64_t>(i));
  if (starts->to_int64() != zeros || axes->to_int64() != spatial) return {};
  return slice.outputs[0];
}

bool rewrite(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (need_int(node, "group") != 1 || node.input(2).valid() || node.has("auto_pad")) return false;
  const ValueId x = under_exchange(graph, node.inputs[0]);
  const ValueId dy = under_exchange(graph, node.inputs[1]);
  if (!x.valid() || !dy.valid()) return false;
  const auto x_dims = graph.type(x).static_dims();
  const auto dy_dims = graph.type(dy).static_dims();
  if (!x_dims || !dy_dims || x_dims->size() > 5 || graph.type(x).dtype != DType::kFloat32) {
    return false;
  }
  const ValueId whole = behind_slice(graph, node.outputs[0], x_dims->size());
  if (!whole.valid()) return false;
  const auto use = sole_use(graph, whole);
  if (!use) return false;
  const ValueId result = graph.node(use->node).outputs[0];
  if (under_exchange(graph, result) != whole) return false;
  const auto w_dims = graph.type(result).static_dims();
  if (!w_dims) return false;
  const std::size_t spatial = x_dims->size() - 2;
  const std::vector<std::int64_t> pads = need_ints(node, "pads");
  const std::vector<std::int64_t> kernel(w_dims->begin() + 2, w_dims->end());
  // What was the stride is the distance of the weight's elements, and the other way round.
  const std::vector<std::int64_t> strides = need_ints(node, "dilations");
  const std::vector<std::int64_t> dilations = need_ints(node, "strides");
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t room =
        (*x_dims)[i + 2] + pads[i] + pads[i + spatial] - ((kernel[i] - 1) * dilations[i] + 1);
    if (room < 0 || room / strides[i] + 1 != (*dy_dims)[i + 2]) return false;
  }
  const NodeId made = graph.add_node(kXrtDomain, kOp, {x, dy}, {graph.value(result).name},
                                     {{"kernel_shape", kernel},
                                      {"strides", strides},
                                      {"dilations", dilations},
                                      {"pads", pads},
                                      {"group", std::int64_t{1}}});
  const ValueId out = graph.node(made).outputs[0];
  graph.set_type(out, Type(graph.type(result)));
  substitute(graph, result, out);
  return true;
}

}  // namespace

void recognise_weight_gradients(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    if (!graph.alive(id)) continue;
    const Node& node = graph.node(id);
    if (node.domain.empty() && node.op == "Conv") rewrite(graph, id);
  }
}

}  // namespace xrt::native::dnn
