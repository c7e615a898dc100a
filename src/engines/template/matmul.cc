// SPDX-License-Identifier: Apache-2.0
// MatMul of two matrices. The second is transposed into temporary memory, so that both are read
// along their rows.
#include <cstdint>

#include "lowering.h"

namespace xrt::template_engine {
namespace {

Support supports(const GraphView& graph, const NodeView& node) {
  for (const ValueId input : node.inputs()) {
    if (graph.type(input).rank() != 2) {
      return Support::no("it multiplies matrices, '" + std::string(graph.value_name(input)) +
                         "' is " + to_string(graph.type(input)));
    }
  }
  return needs_float32(graph, node);
}

std::size_t workspace_bytes(const GraphView& graph, const NodeView& node) {
  const Dims dims = graph.type(node.input(1)).dims();
  return static_cast<std::size_t>(dims[0] * dims[1]) * sizeof(float);
}

Kernel matmul(const GraphView& /*graph*/, const NodeView& /*node*/) {
  return
      [](std::span<const Operand> inputs, std::span<const Operand> outputs, std::byte* workspace) {
        const std::int64_t rows = inputs[0].dims[0];
        const std::int64_t depth = inputs[0].dims[1];
        const std::int64_t columns = inputs[1].dims[1];
        const auto* a = inputs[0].data<float>();
        const auto* b = inputs[1].data<float>();
        auto* to = outputs[0].data<float>();
        auto* transposed = reinterpret_cast<float*>(workspace);
        for (std::int64_t k = 0; k < depth; ++k) {
          for (std::int64_t j = 0; j < columns; ++j) transposed[j * depth + k] = b[k * columns + j];
        }
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < columns; ++j) {
            float sum = 0;
            for (std::int64_t k = 0; k < depth; ++k) {
              sum += a[i * depth + k] * transposed[j * depth + k];
            }
            to[i * columns + j] = sum;
          }
        }
      };
}

}  // namespace

void add_matmul(LoweringRegistry& registry) {
  // Kept out of training steps, to show what that looks like: explain() says why.
  registry.add("MatMul", {.supports = supports,
                          .create = matmul,
                          .workspace_bytes = workspace_bytes,
                          .training = false});
}

}  // namespace xrt::template_engine
