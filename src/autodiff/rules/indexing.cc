// SPDX-License-Identifier: Apache-2.0
// Gather and scatter, TopK.
#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

Var zeros(Rule& r, const Dims& dims, DType dtype) { return expand(r.e.scalar(0, dtype), dims); }

// Of the first input along the axis.
Var size_of(Rule& r, std::int64_t axis) {
  const Dim dim = r.x_type().shape->at(static_cast<std::size_t>(axis));
  if (dim.is_known()) return r.e.scalar(static_cast<double>(dim.value()), DType::kInt64);
  const Var shape = r.e.op_to(DType::kInt64, "Shape", {r.x()});
  return gather(shape, r.e.scalar(static_cast<double>(axis), DType::kInt64), 0);
}

// Rows of dy are added where they came from.
void gather_rule(Rule& r) {
  const std::int64_t rank = r.x_rank();
  const std::int64_t axis = r.attr("axis");
  const std::int64_t index_rank = r.x_rank(1);
  const Var dy = r.dy();
  Var indices = cast(r.x(1), DType::kInt64);
  // The indexed axes first, as ScatterND wants them: dy is dims[:axis] + indices + dims[axis+1:].
  Dims perm = range(axis, axis + index_rank);
  for (const std::int64_t a : range(0, axis)) perm.push_back(a);
  for (const std::int64_t a : range(axis + index_rank, rank - 1 + index_rank)) perm.push_back(a);
  Dims order{axis};
  for (const std::int64_t a : range(0, rank)) {
    if (a != axis) order.push_back(a);
  }
  indices = where(less(indices, 0.0), indices + size_of(r, axis), indices);
  const Var into = transpose(r.zeros_like(r.x()), order);
  const Var g = r.e.op("ScatterND", {into, unsqueeze(indices, {-1}), transpose(dy, perm)},
                       {{"reduction", std::string("add")}});
  r.give(0, transpose(g, inverse_permutation(order)));
}

void gather_elements_rule(Rule& r) {
  const Var dy = r.dy();
  r.give(0, r.e.op("ScatterElements", {r.zeros_like(r.x()), r.x(1), dy},
                   {{"axis", r.attr("axis")}, {"reduction", std::string("add")}}));
}

void gather_nd_rule(Rule& r) {
  const std::int64_t batch = r.attr("batch_dims");
  const Var dy = r.dy();
  Var indices = r.x(1);
  if (batch > 0) {
    // The place in the batch becomes part of the index.
    const Dims index_dims = r.x_dims(1);
    std::vector<Var> parts;
    for (std::int64_t b = 0; b < batch; ++b) {
      std::vector<double> places;
      for (std::int64_t i = 0; i < index_dims[b]; ++i) places.push_back(static_cast<double>(i));
      Dims shape(index_dims.size(), 1);
      shape[b] = index_dims[b];
      Dims wide = index_dims;
      wide.back() = 1;
      parts.push_back(expand(r.e.numbers(places, shape, DType::kInt64), wide));
    }
    parts.push_back(indices);
    indices = concat(parts, static_cast<std::int64_t>(index_dims.size()) - 1);
  }
  r.give(0, r.e.op("ScatterND", {r.zeros_like(r.x()), indices, dy},
                   {{"reduction", std::string("add")}}));
}

// What was overwritten gets nothing, the updates get what is at their places.
void scatter_elements_rule(Rule& r) {
  const std::string reduction = need_string(r.node, "reduction");
  const Attributes axis{{"axis", r.attr("axis")}};
  const Var dy = r.dy();
  if (reduction != "none" && reduction != "add") r.refuse("reduction '" + reduction + "'");
  if (r.needs(2)) r.give(2, r.e.op("GatherElements", {dy, r.x(1)}, axis));
  if (!r.needs(0)) return;
  r.give(0, reduction == "add"
                ? dy
                : r.e.op("ScatterElements", {dy, r.x(1), zeros(r, r.x_dims(2), dy.dtype)}, axis));
}

void scatter_nd_rule(Rule& r) {
  const std::string reduction = need_string(r.node, "reduction");
  const Var dy = r.dy();
  if (reduction != "none" && reduction != "add") r.refuse("reduction '" + reduction + "'");
  if (r.needs(2)) r.give(2, r.e.op("GatherND", {dy, r.x(1)}));
  if (!r.needs(0)) return;
  r.give(0, reduction == "add"
                ? dy
                : r.e.op("ScatterND", {dy, r.x(1), zeros(r, r.x_dims(2), dy.dtype)}));
}

void top_k_rule(Rule& r) {
  if (!r.node.output(1).valid()) r.refuse("its output 'Indices' is left out");
  const Var dy = r.dy();
  r.give(0, r.e.op("ScatterElements", {zeros(r, r.x_dims(), dy.dtype), r.y(1), dy},
                   {{"axis", r.attr("axis")}}));
}

}  // namespace

void register_indexing(RuleRegistry& registry) {
  constexpr std::uint64_t kFirst = inputs({0});
  registry.add("Gather", gather_rule, kFirst);
  registry.add("GatherElements", gather_elements_rule, kFirst);
  registry.add("GatherND", gather_nd_rule, kFirst);
  registry.add("ScatterElements", scatter_elements_rule, inputs({0, 2}));
  registry.add("ScatterND", scatter_nd_rule, inputs({0, 2}));
  registry.add("TopK", top_k_rule, kFirst);
}

}  // namespace xrt::autodiff
