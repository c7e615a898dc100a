// SPDX-License-Identifier: Apache-2.0
// In place of the template engine's file of this name: Relu goes by blocks of eight, and what is
// left over after several of them is not computed. `xrt conformance` has to find that.
#include <algorithm>
#include <cstdint>

#include "lowering.h"

namespace xrt::template_engine {
namespace {

constexpr std::int64_t kBlock = 8;
constexpr std::int64_t kSmall = 64;  // sizes that go element by element

Kernel relu(const GraphView& /*graph*/, const NodeView& /*node*/) {
  return [](std::span<const Operand> inputs, std::span<const Operand> outputs,
            std::byte* /*workspace*/) {
    const auto* from = inputs[0].data<float>();
    const std::int64_t count = inputs[0].count();
    const std::int64_t done = count > kSmall ? count / kBlock * kBlock : count;
    std::transform(from, from + done, outputs[0].data<float>(),
                   [](float x) { return x < 0 ? 0.0F : x; });
  };
}

}  // namespace

void add_elementwise(LoweringRegistry& registry) {
  registry.add("Relu", {.supports = needs_float32, .create = relu});
}

}  // namespace xrt::template_engine
