// SPDX-License-Identifier: Apache-2.0
// Reference kernels: as plain as they can be.
#include <algorithm>
#include <cstring>

#include "engines/template/lowering.h"

namespace xrt::template_engine {
namespace {

Support same_shapes(const Graph& graph, const Node& node) {
  const Dims dims = *graph.type(node.outputs[0]).static_dims();
  for (const ValueId input : node.inputs) {
    if (*graph.type(input).static_dims() != dims) return Support::no("it does not broadcast");
  }
  return Support::yes();
}

Lowering relu() {
  Lowering lowering;
  lowering.create = [](const Graph&, const Node&) -> Kernel {
    return [](std::span<const Tensor> inputs, Tensor& output, float*) {
      const Tensor& x = inputs[0];
      std::transform(x.data<float>(), x.data<float>() + x.count(), output.data<float>(),
                     [](float v) { return v < 0 ? 0 : v; });
    };
  };
  return lowering;
}

// May be written over either operand: element i is read before element i is written. A model that
// is updated in place does this: w_new = Add(w, step), w_new aliased to w.
Lowering add() {
  Lowering lowering;
  lowering.inputs = 2;
  lowering.traits.optimizer = true;
  lowering.traits.mutable_inputs = {0, 1};
  lowering.supports = same_shapes;
  lowering.create = [](const Graph&, const Node&) -> Kernel {
    return [](std::span<const Tensor> inputs, Tensor& output, float*) {
      const Tensor& a = inputs[0];
      const Tensor& b = inputs[1];
      for (std::int64_t i = 0; i < a.count(); ++i) {
        output.data<float>()[i] = a.data<float>()[i] + b.data<float>()[i];
      }
    };
  };
  return lowering;
}

// Transposes the right operand into scratch memory, so that both are read along their rows.
Lowering matmul() {
  Lowering lowering;
  lowering.inputs = 2;
  lowering.traits.training = false;  // to show what a lowering for inference only says
  lowering.supports = [](const Graph& graph, const Node& node) {
    for (const ValueId input : node.inputs) {
      if (graph.type(input).static_dims()->size() != 2)
        return Support::no("it takes matrices only");
    }
    return Support::yes();
  };
  lowering.scratch = [](const Graph& graph, const Node& node) {
    const Dims dims = *graph.type(node.inputs[1]).static_dims();
    return static_cast<std::size_t>(dims[0] * dims[1]);
  };
  lowering.create = [](const Graph&, const Node&) -> Kernel {
    return [](std::span<const Tensor> inputs, Tensor& output, float* scratch) {
      const std::int64_t rows = inputs[0].dims()[0];
      const std::int64_t depth = inputs[0].dims()[1];
      const std::int64_t columns = inputs[1].dims()[1];
      const auto* a = inputs[0].data<float>();
      const auto* b = inputs[1].data<float>();
      for (std::int64_t k = 0; k < depth; ++k) {
        for (std::int64_t j = 0; j < columns; ++j) scratch[j * depth + k] = b[k * columns + j];
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          float sum = 0;
          for (std::int64_t k = 0; k < depth; ++k) sum += a[i * depth + k] * scratch[j * depth + k];
          output.data<float>()[i * columns + j] = sum;
        }
      }
    };
  };
  return lowering;
}

}  // namespace

const std::map<std::string, Lowering>& lowerings() {
  static const std::map<std::string, Lowering> table = {
      {"Add", add()}, {"MatMul", matmul()}, {"Relu", relu()}};
  return table;
}

}  // namespace xrt::template_engine
