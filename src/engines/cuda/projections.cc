// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values that are products of one value: one wide product fills a device better
// than three narrow ones do.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engines/cuda/attention.h"
#include "engines/cuda/plan.h"

namespace xrt::cuda {
namespace {

// x · weights + bias, with constants; read once.
struct Projection {
  ValueId x, result;
  NodeId product;
  ValueId weights;
  ValueId bias = {};        // may be missing
  bool transposed = false;  // weights are [columns, width]

  std::int64_t columns(const xrt::Graph& graph) const {
    return graph.constant(weights)->dims()[transposed ? 0 : 1];
  }
  // Those that are alike may be joined.
  auto kind(const xrt::Graph& graph) const {
    return std::tuple(x, transposed, bias.valid(), graph.type(result).dtype,
                      graph.node(product).op);
  }
};

bool is_read_once(const xrt::Graph& graph, ValueId value) {
  return !graph.is_output(value) && graph.uses(value).size() == 1;
}

bool is_standard(const Node& node, std::string_view op) {
  return node.domain.empty() && node.op == op;
}

const Tensor* constant_of(const xrt::Graph& graph, ValueId value, std::size_t rank) {
  const Tensor* constant = value.valid() ? graph.constant(value) : nullptr;
  return constant != nullptr && constant->dims().size() == rank ? constant : nullptr;
}

std::optional<Projection> product_behind(const xrt::Graph& graph, ValueId value) {
  const NodeId id = graph.value(value).producer;
  if (!id.valid()) return std::nullopt;
  const Node& node = graph.node(id);
  Projection made{.x = node.input(0), .result = value, .product = id, .weights = node.input(1)};
  if (is_standard(node, "Gemm")) {
    if (node.attr_float("alpha", 1) != 1 || node.attr_int("transA", 0) != 0) return std::nullopt;
    made.transposed = node.attr_int("transB", 0) != 0;
    made.bias = node.input(2);
    if (made.bias.valid() &&
        (node.attr_float("beta", 1) != 1 || constant_of(graph, made.bias, 1) == nullptr)) {
      return std::nullopt;
    }
  } else if (!is_standard(node, "MatMul")) {
    return std::nullopt;
  }
  const Tensor* weights = constant_of(graph, made.weights, 2);
  if (weights == nullptr || weights->dtype() != graph.type(value).dtype) return std::nullopt;
  const std::int64_t columns = made.columns(graph);
  if (made.bias.valid() && graph.constant(made.bias)->dims()[0] != columns) return std::nullopt;
  return made;
}

// What a value is a view of, if that is a projection.
std::optional<Projection> projection_behind(const xrt::Graph& graph, ValueId value) {
  for (;;) {
    if (!is_read_once(graph, value)) return std::nullopt;
    const NodeId producer = graph.value(value).producer;
    if (!producer.valid()) return std::nullopt;
    const Node& node = graph.node(producer);
    if (!is_standard(node, "Transpose") && !is_standard(node, "Reshape")) break;
    value = node.inputs[0];
  }
  const Node& node = graph.node(graph.value(value).producer);
  if (!is_standard(node, "Add")) return product_behind(graph, value);
  for (const std::size_t i : {0, 1}) {
    const Tensor* bias = constant_of(graph, node.inputs[i], 1);
    const ValueId sum = node.inputs[1 - i];
    if (bias == nullptr || !is_read_once(graph, sum)) continue;
    auto made = product_behind(graph, sum);
    if (!made || made->bias.valid() || bias->dims()[0] != made->columns(graph)) continue;
    made->bias = node.inputs[i];
    made->result = value;
    return made;
  }
  return std::nullopt;
}

// Constants one behind the other along an axis.
Tensor joined(const xrt::Graph& graph, const std::vector<ValueId>& parts, std::size_t axis) {
  Dims dims = graph.constant(parts.front())->dims();
  dims[axis] = 0;
  for (const ValueId part : parts) dims[axis] += graph.constant(part)->dims()[axis];
  Tensor made = Tensor::allocate(graph.constant(parts.front())->dtype(), dims);
  std::size_t rows = 1;
  for (std::size_t i = 0; i < axis; ++i) rows *= static_cast<std::size_t>(dims[i]);
  const std::size_t row_bytes = made.bytes() / rows;
  std::size_t offset = 0;
  for (const ValueId part : parts) {
    const Tensor& from = *graph.constant(part);
    const std::size_t bytes = from.bytes() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      std::memcpy(static_cast<std::byte*>(made.raw()) + row * row_bytes + offset,
                  static_cast<const std::byte*>(from.raw()) + row * bytes, bytes);
    }
    offset += bytes;
  }
  return made;
}

void join(xrt::Graph& graph, const std::vector<Projection>& parts) {
  const Projection& first = parts.front();
  std::vector<ValueId> weights, biases;
  Dims widths;
  for (const Projection& part : parts) {
    weights.push_back(part.weights);
    if (part.bias.valid()) biases.push_back(part.bias);
    widths.push_back(part.columns(graph));
  }
  const Node product = graph.node(first.product);
  Type type = graph.type(first.result);
  Dims dims = *type.static_dims();
  dims.back() = 0;
  for (const std::int64_t width : widths) dims.back() += width;
  type = Type::tensor(type.dtype, dims);
  std::vector<ValueId> inputs{
      first.x, graph.add_constant("", joined(graph, weights, first.transposed ? 0 : 1))};
  ValueId bias;
  if (!biases.empty()) bias = graph.add_constant("", joined(graph, biases, 0));
  const bool adds_itself = product.op == "Gemm";
  if (adds_itself && bias.valid()) inputs.push_back(bias);
  ValueId sum = graph.add_op(product.op, std::move(inputs), product.attributes);
  graph.set_type(sum, type);
  if (!adds_itself && bias.valid()) {
    sum = graph.add_op("Add", {sum, bias});
    graph.set_type(sum, type);
  }
  const NodeId split =
      graph.add_node("", "Split", {sum, graph.add_constant("", Tensor::from_int64(widths))},
                     std::vector<std::string>(parts.size()),
                     {{"axis", static_cast<std::int64_t>(dims.size()) - 1}});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ValueId output = graph.node(split).outputs[i];
    graph.set_type(output, graph.type(parts[i].result));
    graph.replace_uses(parts[i].result, output);
  }
}

}  // namespace

void join_projections(xrt::Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.qualified_op() != kAttentionOp) continue;
    std::vector<std::vector<Projection>> groups;
    for (const ValueId operand : {node.inputs[0], node.inputs[1], node.inputs[2]}) {
      const auto part = projection_behind(graph, operand);
      if (!part) continue;
      auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& other) {
        return other.front().kind(graph) == part->kind(graph);
      });
      if (group == groups.end()) group = groups.insert(group, std::vector<Projection>{});
      group->push_back(*part);
    }
    for (const std::vector<Projection>& group : groups) {
      if (group.size() > 1) join(graph, group);
    }
  }
  remove_unread(graph);
}

}  // namespace xrt::cuda
