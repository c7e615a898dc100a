// SPDX-License-Identifier: Apache-2.0
// Momentum, of ONNX's training domain, for one weight: an optimizer op. It reads a weight and its
// momentum and gives their new values; the program's aliases say that they replace the old ones.
#include <cstdint>

#include "lowering.h"

namespace xrt::template_engine {
namespace {

constexpr std::size_t kInputs = 5;  // learning rate, step count, weight, gradient, momentum

Support supports(const GraphView& graph, const NodeView& node) {
  if (node.inputs().size() != kInputs) return Support::no("it updates one weight at a time");
  for (const std::size_t i : {0, 2, 3, 4}) {
    const TypeView type = graph.type(node.input(i));
    if (type.dtype() != DType::kFloat32) {
      return Support::no("it computes in float32, '" +
                         std::string(graph.value_name(node.input(i))) + "' is " + to_string(type));
    }
  }
  return Support::yes();
}

Kernel momentum(const GraphView& /*graph*/, const NodeView& node) {
  const float alpha = node.attr_float("alpha", 0);
  const float beta = node.attr_float("beta", 0);
  const float decay = node.attr_float("norm_coefficient", 0);
  const bool is_nesterov = node.attr_string("mode", "standard") == "nesterov";
  return [=](std::span<const Operand> inputs, std::span<const Operand> outputs,
             std::byte* /*workspace*/) {
    const float rate = *inputs[0].data<float>();
    const std::int64_t step = *inputs[1].data<std::int64_t>();
    const auto* weight = inputs[2].data<float>();
    const auto* gradient = inputs[3].data<float>();
    const auto* old = inputs[4].data<float>();
    auto* new_weight = outputs[0].data<float>();
    auto* new_momentum = outputs[1].data<float>();
    const float scale = step > 0 ? beta : 1.0F;  // the first gradient counts in full
    for (std::int64_t i = 0; i < inputs[2].count(); ++i) {
      // The results may lie in the memory of weight and momentum: read both before writing.
      const float w = weight[i];
      const float g = decay * w + gradient[i];
      const float v = alpha * old[i] + scale * g;
      new_momentum[i] = v;
      new_weight[i] = w - rate * (is_nesterov ? g + alpha * v : v);
    }
  };
}

}  // namespace

void add_optimizers(LoweringRegistry& registry) {
  registry.add("ai.onnx.preview.training.Momentum",
               {.supports = supports, .create = momentum, .mutable_inputs = {2, 4}});
}

}  // namespace xrt::template_engine
