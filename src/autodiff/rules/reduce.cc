// SPDX-License-Identifier: Apache-2.0
// Reductions and cumulative sums.
#include <algorithm>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

// The axes a reduction reduces; none where it passes its input on.
Dims reduced_axes(const Rule& r) {
  const std::int64_t rank = r.x_rank();
  const Dims axes = r.has(1) ? r.integers(1, "axes") : Dims{};
  if (!axes.empty()) return axes;
  return r.attr("noop_with_empty_axes") != 0 ? Dims{} : range(0, rank);
}

// A value of the result's shape with the reduced axes as axes of one element.
Var kept(Rule& r, Var v, const Dims& axes) {
  return r.attr("keepdims") != 0 ? v : unsqueeze(v, axes);
}

double reduced_count(const Rule& r, const Dims& axes) {
  const Dims dims = r.x_dims();
  double count = 1;
  for (const std::int64_t a : axes) count *= static_cast<double>(dims[a]);
  return count;
}

void sum_rule(Rule& r) {
  const Dims axes = reduced_axes(r);
  r.give(0, r.expand_as(kept(r, r.dy(), axes), r.x()));
}

void mean_rule(Rule& r) {
  const Dims axes = reduced_axes(r);
  r.give(0, r.expand_as(kept(r, r.dy(), axes) / reduced_count(r, axes), r.x()));
}

void sum_square_rule(Rule& r) { r.give(0, kept(r, r.dy(), reduced_axes(r)) * r.x() * 2.0); }

void l1_rule(Rule& r) { r.give(0, kept(r, r.dy(), reduced_axes(r)) * sign(r.x())); }

void l2_rule(Rule& r) {
  const Dims axes = reduced_axes(r);
  const Var y = kept(r, r.y(), axes);
  const Var zero = equal(y, r.e.scalar(0, y.dtype));
  const Var g = kept(r, r.dy(), axes) * r.x() / where(zero, r.e.scalar(1, y.dtype), y);
  r.give(0, where(zero, r.e.scalar(0, y.dtype), g));
}

void log_sum_rule(Rule& r) {
  const Dims axes = reduced_axes(r);
  r.give(0, r.expand_as(kept(r, r.dy(), axes) / exp(kept(r, r.y(), axes)), r.x()));
}

void log_sum_exp_rule(Rule& r) {
  const Dims axes = reduced_axes(r);
  r.give(0, kept(r, r.dy(), axes) * exp(r.x() - kept(r, r.y(), axes)));
}

// Equal extremes share the gradient, as in PyTorch's amax.
void extreme_rule(Rule& r) {
  const Dims axes = reduced_axes(r);
  if (axes.empty()) return r.give(0, r.dy());
  const Var hit = cast(equal(r.x(), kept(r, r.y(), axes)), r.x().dtype);
  r.give(0, hit * (kept(r, r.dy(), axes) / sum(hit, axes, true)));
}

// The product of the others along an axis: exclusive products from both ends, so that zeros are no
// trouble.
void product_rule(Rule& r) {
  const Dims axes = reduced_axes(r);
  const Dims dims = r.x_dims();
  const auto rank = static_cast<std::int64_t>(dims.size());
  // The reduced axes side by side as the last one.
  Dims perm;
  Dims outer;
  std::int64_t count = 1;
  for (std::int64_t a = 0; a < rank; ++a) {
    if (std::find(axes.begin(), axes.end(), a) != axes.end()) continue;
    perm.push_back(a);
    outer.push_back(dims[a]);
  }
  Dims moved_dims = outer;
  for (const std::int64_t a : axes) {
    perm.push_back(a);
    moved_dims.push_back(dims[a]);
    count *= dims[a];
  }
  if (count > 4096) r.refuse("a product of more than 4096 elements");
  Dims flat = outer;
  flat.push_back(count);
  const Var x = reshape(transpose(r.x(), perm), flat);
  const auto last = static_cast<std::int64_t>(outer.size());
  // Doubling: after k steps an element holds the product of the 2^k before (or behind) it.
  const auto products = [&](bool before) {
    const auto shifted = [&](Var v, std::int64_t by) {
      Dims ones = outer;
      ones.push_back(std::min(by, count));
      const Var filler = expand(r.e.scalar(1, v.dtype), ones);
      if (by >= count) return filler;
      return before ? concat({filler, slice(v, {0}, {count - by}, {last})}, last)
                    : concat({slice(v, {by}, {count}, {last}), filler}, last);
    };
    Var v = shifted(x, 1);
    for (std::int64_t by = 1; by < count; by *= 2) v = v * shifted(v, by);
    return v;
  };
  Var g = products(true) * products(false);
  g = transpose(reshape(g, moved_dims), inverse_permutation(perm));
  r.give(0, kept(r, r.dy(), axes) * g);
}

void cum_sum_rule(Rule& r) {
  r.give(0, r.e.op("CumSum", {r.dy(), r.x(1)},
                   {{"exclusive", r.attr("exclusive")},
                    {"reverse", std::int64_t{r.attr("reverse") == 0}}}));
}

}  // namespace

void register_reduce(RuleRegistry& registry) {
  constexpr std::uint64_t kFirst = inputs({0});
  registry.add("ReduceSum", sum_rule, kFirst);
  registry.add("ReduceMean", mean_rule, kFirst);
  registry.add("ReduceSumSquare", sum_square_rule, kFirst);
  registry.add("ReduceL1", l1_rule, kFirst);
  registry.add("ReduceL2", l2_rule, kFirst);
  registry.add("ReduceLogSum", log_sum_rule, kFirst);
  registry.add("ReduceLogSumExp", log_sum_exp_rule, kFirst);
  registry.add("ReduceMax", extreme_rule, kFirst);
  registry.add("ReduceMin", extreme_rule, kFirst);
  registry.add("ReduceProd", product_rule, kFirst);
  registry.add("CumSum", cum_sum_rule, kFirst);
}

}  // namespace xrt::autodiff
