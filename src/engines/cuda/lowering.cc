// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engines/cuda/attention.h"
#include "engines/cuda/fused.h"
#include "engines/cuda/training.h"
#include "xrt/error.h"

namespace xrt::cuda {

const LoweringRegistry& LoweringRegistry::get() {
  static const LoweringRegistry registry = [] {
    LoweringRegistry all;
    add_pointwise(all);
    add_rows(all);
    add_reductions(all);
    add_shapes(all);
    add_indexing(all);
    add_windows(all);
    add_linear(all);
    add_attention(all);
    add_quantized(all);
    add_gradients(all);
    add_scatters(all);
    add_sampling(all);
    add_states(all);
    return all;
  }();
  return registry;
}

Support supports_node(const GraphView& graph, NodeId id) {
  const NodeView node = graph.node(id);
  const Lowering* lowering = LoweringRegistry::get().find(node);
  if (lowering == nullptr) return Support::no("there is no lowering of " + node.qualified_op());
  if (!node.output(0).valid()) return Support::no("its first output is left out");
  std::vector<ValueId> values = node.inputs();
  const std::vector<ValueId> outputs = node.outputs();
  values.insert(values.end(), outputs.begin(), outputs.end());
  for (const ValueId value : values) {
    if (!value.valid()) continue;
    const TypeView type = graph.type(value);
    const auto refuse = [&](std::string_view why) {
      return Support::no(
          fmt::format("{}: '{}' is {}", why, graph.value_name(value), to_string(type)));
    };
    if (!type.is_static()) return refuse("it needs tensors of static shape");
    if (!has_type(type.dtype()) && !(lowering->narrow && is_narrow(type.dtype()))) {
      return refuse("there are no kernels of that type");
    }
    const bool is_result = std::find(outputs.begin(), outputs.end(), value) != outputs.end();
    if (element_count(type.dims()) == 0 && (is_result || !lowering->empty)) {
      return refuse("there are no kernels over no elements");
    }
  }
  return lowering->supports ? lowering->supports(graph, node) : Support::yes();
}

void emit_group(Planner& planner, const Group& group) {
  switch (group.kind) {
    case Group::Kind::kConvolution:
      emit_convolution(planner, group);
      return;
    case Group::Kind::kProduct:
      emit_product(planner, group);
      return;
    case Group::Kind::kFused:
    case Group::Kind::kChannels:
    case Group::Kind::kIntegers:
      emit_fused(planner, group);
      return;
    case Group::Kind::kSingle:
      break;
  }
  const NodeView node = planner.graph().node(group.nodes.front());
  if (node.qualified_op() == kAttentionOp) {
    emit_attention(planner, node);
    return;
  }
  if (node.qualified_op() == kChannelMomentsOp) {
    emit_channel_moments(planner, node);
    return;
  }
  if (node.qualified_op() == kChannelProductsOp) {
    emit_channel_products(planner, node);
    return;
  }
  const Lowering* lowering = LoweringRegistry::get().find(node);
  if (lowering == nullptr || !lowering->emit) {
    throw Error(ErrorCode::kUnsupported, "cuda: there is no lowering of " + planner.what());
  }
  lowering->emit(planner, node);
}

bool is_constant(const GraphView& graph, const NodeView& node, std::size_t input) {
  const ValueId value = node.input(input);
  return value.valid() && graph.constant(value).defined();
}

std::vector<std::int64_t> numbers(const GraphView& graph, const NodeView& node, std::size_t input) {
  const ValueId value = node.input(input);
  if (!value.valid()) return {};
  const TensorView constant = graph.constant(value);
  std::vector<std::int64_t> all(static_cast<std::size_t>(constant.count()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = constant.dtype() == DType::kInt32 ? constant.data<std::int32_t>()[i]
                                               : constant.data<std::int64_t>()[i];
  }
  return all;
}

bool is_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16 ||
         dtype == DType::kFloat64;
}

Support needs_floats(const GraphView& graph, const NodeView& node) {
  for (const ValueId value : node.inputs()) {
    if (!value.valid() || is_float(graph.type(value).dtype())) continue;
    return Support::no(
        fmt::format("there is no kernel of it for {}", to_string(graph.type(value).dtype())));
  }
  return Support::yes();
}

Support needs_constant(const GraphView& graph, const NodeView& node, std::size_t input,
                       std::string_view what) {
  const ValueId value = node.input(input);
  if (!value.valid()) return Support::yes();
  const TensorView constant = graph.constant(value);
  if (!constant.defined()) return Support::no(fmt::format("its {} are no constant", what));
  if (constant.dtype() == DType::kInt32 || constant.dtype() == DType::kInt64) {
    return Support::yes();
  }
  return Support::no(fmt::format("its {} are of type {}", what, to_string(constant.dtype())));
}

}  // namespace xrt::cuda
