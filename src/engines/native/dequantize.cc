// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dequantize.h"

#include <algorithm>
#include <vector>

#include "engines/native/kernels/common/convert.h"

namespace xrt::native {
namespace {

std::vector<double> numbers(const Tensor& t) {
  std::vector<double> values(static_cast<std::size_t>(t.count()));
  load_double(t.dtype(), t.raw(), 0, t.count(), values.data());
  return values;
}

}  // namespace

Tensor dequantized(const Graph& graph, const Node& node) {
  const auto constant = [&](std::size_t i) -> const Tensor* {
    return node.input(i).valid() ? graph.constant(node.input(i)) : nullptr;
  };
  const Tensor* x = constant(0);
  const Tensor* scale = constant(1);
  const Tensor* zero = constant(2);
  if (x == nullptr || scale == nullptr || (node.input(2).valid() && zero == nullptr)) return {};
  const bool known =
      x->dtype() == DType::kInt8 || x->dtype() == DType::kUInt8 || x->dtype() == DType::kInt32;
  if (!known || scale->dtype() != DType::kFloat32 || node.attr_int("block_size", 0) != 0 ||
      node.attr_int("output_dtype", 0) != 0) {
    return {};
  }
  std::int64_t inner = x->count(), size = 1;
  if (scale->rank() == 1 && scale->count() != 1) {
    const auto rank = static_cast<std::int64_t>(x->rank());
    const std::int64_t axis = node.attr_int("axis", 1);
    if (axis < 0 || axis >= rank) return {};
    size = x->dims()[static_cast<std::size_t>(axis)];
    inner = 1;
    for (std::int64_t a = axis + 1; a < rank; ++a) inner *= x->dims()[static_cast<std::size_t>(a)];
  }
  if (scale->count() != size || (zero != nullptr && zero->count() != size) || x->count() == 0) {
    return {};
  }
  const std::vector<double> scales = numbers(*scale);
  const std::vector<double> zeros =
      zero == nullptr ? std::vector<double>(scales.size()) : numbers(*zero);
  Tensor result = Tensor::allocate(DType::kFloat32, x->dims());
  std::vector<double> row(static_cast<std::size_t>(inner));
  for (std::int64_t begin = 0; begin < x->count(); begin += inner) {
    const auto at = static_cast<std::size_t>(begin / inner % size);
    load_double(x->dtype(), x->raw(), begin, inner, row.data());
    std::transform(row.begin(), row.end(), result.data<float>() + begin, [&](double value) {
      return static_cast<float>((value - zeros[at]) * scales[at]);
    });
  }
  return result;
}

void dequantize_constants(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (!node.domain.empty() || node.op != "DequantizeLinear") continue;
    const ValueId old = node.output(0);
    if (graph.is_output(old)) continue;
    Tensor values = dequantized(graph, node);
    if (!values.defined()) continue;
    const ValueId made = graph.add_constant(graph.value(old).name + "/float", std::move(values));
    graph.replace_uses(old, made);
    graph.remove_node(id);
  }
}

}  // namespace xrt::native
