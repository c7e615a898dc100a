// SPDX-License-Identifier: Apache-2.0
// LayerNormalization and RMSNormalization with a scale and a bias of another shape than that of
// what is normalised: their scale becomes ones, and a Mul and an Add stand behind them.
//
// The standard lets both broadcast to the input; kernels and the standard's own function bodies
// take one number per normalised element. Only where all sizes that matter are known.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/rewrite.h"
#include "passes/passes.h"

namespace xrt {
namespace {

// A constant of more ones would be no small thing to add.
constexpr std::int64_t kMostOnes = 1 << 20;

// The dimensions as those of a tensor of that rank, ones in front; nothing where there are too
// many.
std::optional<Shape> of_rank(Shape shape, std::size_t rank) {
  while (shape.size() > rank && shape.front().is_known() && shape.front().value() == 1) {
    shape.erase(shape.begin());
  }
  if (shape.size() > rank) return std::nullopt;
  shape.insert(shape.begin(), rank - shape.size(), Dim(1));
  return shape;
}

bool is_one(const Dim& dim) { return dim.is_known() && dim.value() == 1; }

// Whether a product with the parameter has the input's shape, whatever the open sizes are.
bool fits(const Shape& parameter, const Shape& x) {
  const auto aligned = of_rank(parameter, x.size());
  return aligned &&
         std::equal(x.begin(), x.end(), aligned->begin(), [](const Dim& a, const Dim& b) {
           return is_one(b) || ((a.is_known() || a.is_symbol()) && a == b);
         });
}

bool normalizes_rows(const Node& node) {
  return node.domain.empty() && (node.op == "LayerNormalization" || node.op == "RMSNormalization");
}

bool split(Graph& graph, NodeId id) {
  if (!normalizes_rows(graph.node(id))) return false;
  const Node node = graph.node(id);  // a copy: nodes are added below
  if (!node.input(0).valid() || !node.input(1).valid() || !node.output(0).valid()) return false;
  const Type x = graph.type(node.inputs[0]);
  const auto axis = node.attr_int("axis", -1);
  if (!x.has_rank() || axis < 0 || axis >= static_cast<std::int64_t>(x.rank())) return false;

  const Shape rows(x.shape->begin() + axis, x.shape->end());
  Dims dims;
  std::int64_t count = 1;
  for (const Dim& dim : rows) {
    if (!dim.is_known() || dim.value() > kMostOnes) return false;
    dims.push_back(dim.value());
    count *= dim.value();
    if (count > kMostOnes) return false;
  }
  bool is_plain = true;
  for (const std::size_t i : {1, 2}) {
    if (!node.input(i).valid()) continue;
    const Type& parameter = graph.type(node.inputs[i]);
    if (!parameter.has_rank() || parameter.dtype != x.dtype) return false;
    if (!fits(*parameter.shape, *x.shape)) return false;
    is_plain = is_plain && of_rank(*parameter.shape, rows.size()) == rows;
  }
  if (is_plain) return false;

  const std::string& name = node.name;
  Tensor ones = Tensor::allocate(DType::kFloat32, dims);
  std::fill_n(ones.data<float>(), ones.count(), 1.0F);
  ValueId scale = graph.add_constant(name + "/ones", std::move(ones));
  if (x.dtype != DType::kFloat32) {
    scale = graph.add_op("Cast", {scale}, {{"to", static_cast<std::int64_t>(x.dtype)}});
  }
  std::vector<std::string> names;
  for (const ValueId v : node.outputs) {
    names.push_back(v.valid() ? graph.value(v).name + "/rows" : "");
  }
  const NodeId plain =
      graph.add_node("", node.op, {node.inputs[0], scale}, names, node.attributes, name, true);
  ValueId y = graph.add_op("Mul", {graph.node(plain).outputs[0], node.inputs[1]}, {});
  if (node.input(2).valid()) y = graph.add_op("Add", {y, node.inputs[2]}, {});
  replace_value(graph, node.outputs[0], y);
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) {
      replace_value(graph, node.outputs[i], graph.node(plain).outputs[i]);
    }
  }
  graph.remove_node(id);
  return true;
}

}  // namespace

bool split_row_scales(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.nodes()) {
    changed = split(graph, id) || edit_subgraphs(graph, id, split_row_scales) || changed;
  }
  return changed;
}

}  // namespace xrt
