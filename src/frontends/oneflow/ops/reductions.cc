// SPDX-License-Identifier: Apache-2.0
// Sums and other reductions.
#include "frontends/oneflow/lowering.h"
#include "frontends/oneflow/ops/op_name.h"

namespace xrt::oneflow {
namespace {

using Sizes = std::vector<std::int64_t>;

// Axes counted from the front; all of them where none are given.
Sizes axes_of(const Lowering& l, std::string_view name) {
  Sizes axes = l.integers(name);
  for (std::int64_t& axis : axes) axis = l.axis(axis, l.rank());
  if (axes.empty()) {
    for (std::int64_t i = 0; i < l.rank(); ++i) axes.push_back(i);
  }
  return axes;
}

template <OpName kOp>
void reduce(Lowering& l) {
  l.result(0, l.reduce(kOp.value, l.in(), axes_of(l, "axis"), l.flag("keepdims")));
}

// Booleans as numbers.
template <OpName kOp>
void reduce_truth(Lowering& l) {
  const ValueId number =
      l.cast(l.dtype() == DType::kBool ? l.in() : l.cast(l.in(), DType::kBool), DType::kInt32);
  const ValueId reduced = l.reduce(kOp.value, number, axes_of(l, "axis"), l.flag("keepdims"));
  l.result(0, l.cast(reduced, l.result_type().dtype));
}

// x, like: sums over `axis` and takes the shape of `like`.
void reduce_sum_like(Lowering& l) {
  const Sizes axes = l.integers("axis");
  ValueId y = l.in(0);
  if (!axes.empty()) y = l.reduce("ReduceSum", y, axes_of(l, "axis"), false);
  l.result(0, l.reshape(y, l.dims(1)));
}

void variance(Lowering& l) {
  const Sizes axes = axes_of(l, "dim");
  const Dims dims = l.dims();
  double count = 1;
  for (const std::int64_t axis : axes) {
    count *= static_cast<double>(dims[static_cast<std::size_t>(axis)]);
  }
  const ValueId centered = l.sub(l.in(), l.reduce("ReduceMean", l.in(), axes, true));
  ValueId y = l.reduce("ReduceMean", l.mul(centered, centered), axes, l.flag("keepdim"));
  if (l.flag("unbiased", true)) y = l.mul(y, l.scalar(count / (count - 1), l.dtype()));
  l.result(0, y);
}

Sizes every_axis(const Lowering& l) {
  Sizes axes;
  for (std::int64_t i = 0; i < l.rank(); ++i) axes.push_back(i);
  return axes;
}

void square_sum(Lowering& l) {
  l.result(0,
           l.reshape(l.reduce("ReduceSumSquare", l.in(), every_axis(l), false), l.result_dims()));
}

void sqrt_square_sum(Lowering& l) {
  l.result(0, l.reshape(l.reduce("ReduceL2", l.in(), every_axis(l), false), l.result_dims()));
}

// Sums of squares of many tensors, as one number.
void multi_square_sum(Lowering& l) {
  ValueId sum;
  for (const ValueId x : l.flat()) {
    const ValueId row = l.op("Reshape", {x, l.ints({-1})});
    const ValueId one = l.reduce("ReduceSumSquare", row, {0}, false);
    sum = sum.valid() ? l.add(sum, one) : one;
  }
  if (!sum.valid()) l.invalid("there is nothing to add");
  l.result(0, l.reshape(sum, l.result_dims()));
}

void cumsum(Lowering& l) {
  const std::int64_t axis = l.axis(l.integer("dim"), l.rank());
  l.result(0, l.op("CumSum", {l.in(), l.scalar(axis, DType::kInt64)}));
}

void argmax(Lowering& l) {
  l.result(0,
           l.op("ArgMax", {l.in()}, {{"axis", std::int64_t{-1}}, {"keepdims", std::int64_t{0}}}));
}

}  // namespace

void register_reductions(Registry& r) {
  r.add("reduce_sum", reduce<"ReduceSum">);
  r.add("reduce_mean", reduce<"ReduceMean">);
  r.add("reduce_max", reduce<"ReduceMax">);
  r.add("reduce_min", reduce<"ReduceMin">);
  r.add("reduce_prod", reduce<"ReduceProd">);
  r.add("reduce_all", reduce_truth<"ReduceMin">);
  r.add("reduce_any", reduce_truth<"ReduceMax">);
  r.add("reduce_sum_like", reduce_sum_like);
  r.add("var", variance);
  r.add("square_sum", square_sum);
  r.add("sqrt_square_sum", sqrt_square_sum);
  r.add("multi_square_sum", multi_square_sum);
  r.add("cumsum", cumsum);
  r.add("argmax", argmax);
}

}  // namespace xrt::oneflow
