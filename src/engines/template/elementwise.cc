// SPDX-License-Identifier: Apache-2.0
// Relu, and Add with broadcasting.
#include <algorithm>
#include <cstdint>

#include "lowering.h"

namespace xrt::template_engine {
namespace {

Kernel relu(const GraphView& /*graph*/, const NodeView& /*node*/) {
  return [](std::span<const Operand> inputs, std::span<const Operand> outputs,
            std::byte* /*workspace*/) {
    const auto* from = inputs[0].data<float>();
    std::transform(from, from + inputs[0].count(), outputs[0].data<float>(),
                   [](float x) { return x < 0 ? 0.0F : x; });
  };
}

// Per dimension of the result, how far apart neighbours are in an operand; 0 where it broadcasts.
std::vector<std::int64_t> broadcast_strides(const Dims& operand, const Dims& result) {
  std::vector<std::int64_t> strides(result.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < operand.size(); ++i) {
    const std::size_t from = operand.size() - 1 - i;
    const std::size_t to = result.size() - 1 - i;
    if (operand[from] != 1) strides[to] = stride;
    stride *= operand[from];
  }
  return strides;
}

Kernel add(const GraphView& graph, const NodeView& node) {
  const Dims result = graph.type(node.output(0)).dims();
  return [result, a = broadcast_strides(graph.type(node.input(0)).dims(), result),
          b = broadcast_strides(graph.type(node.input(1)).dims(), result)](
             std::span<const Operand> inputs, std::span<const Operand> outputs,
             std::byte* /*workspace*/) {
    const auto* left = inputs[0].data<float>();
    const auto* right = inputs[1].data<float>();
    auto* to = outputs[0].data<float>();
    std::vector<std::int64_t> index(result.size(), 0);
    for (std::int64_t n = 0; n < outputs[0].count(); ++n) {
      std::int64_t i = 0;
      std::int64_t j = 0;
      for (std::size_t d = 0; d < index.size(); ++d) {
        i += index[d] * a[d];
        j += index[d] * b[d];
      }
      to[n] = left[i] + right[j];
      for (std::size_t d = index.size(); d-- > 0;) {
        if (++index[d] < result[d]) break;
        index[d] = 0;
      }
    }
  };
}

}  // namespace

void add_elementwise(LoweringRegistry& registry) {
  // Both may be part of a training step; Relu may also be written over its input, element by
  // element.
  registry.add("Relu", {.supports = needs_float32, .create = relu, .mutable_inputs = {0}});
  registry.add("Add", {.supports = needs_float32, .create = add});
}

}  // namespace xrt::template_engine
