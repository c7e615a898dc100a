// SPDX-License-Identifier: Apache-2.0
// Pools.
//
// The gradient of a maximum pool is an op of its own:
//
//   xrt.MaxPoolGradient(X, dY) -> dX, with MaxPool's attributes: each element of dY is added where
//   the first maximum of its window is.
#include <cmath>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

Dims spatial(const Dims& dims) { return {dims.begin() + 2, dims.end()}; }

void max_pool_rule(Rule& r) {
  const Var g =
      r.e.node(kOwnDomain, "MaxPoolGradient", {r.x(), r.dy()}, {r.x().dtype}, r.node.attributes)[0];
  r.e.graph().set_type(g.id, r.x_type());
  r.give(0, g);
}

void global_max_pool_rule(Rule& r) {
  // Equal maxima share the gradient.
  const Var hit = cast(equal(r.x(), r.y()), r.x().dtype);
  r.give(0, hit * (r.dy() / sum(hit, range(2, r.x_rank()), true)));
}

void global_average_pool_rule(Rule& r) {
  std::int64_t count = 1;
  for (const std::int64_t n : spatial(r.x_dims())) count *= n;
  r.give(0, expand(r.dy() / static_cast<double>(count), r.x_dims()));
}

// Which elements each window covers, and its divisor, are known: spread by a transposed convolution
// of each channel with ones.
void average_pool_rule(Rule& r) {
  const Dims x = r.x_dims();
  const Dims y = r.y_dims();
  const std::size_t n = x.size() - 2;
  const Dims kernel = r.node.attr_ints("kernel_shape");
  const Dims strides = r.node.attr_ints("strides");
  const Dims dilations = r.node.attr_ints("dilations");
  const Dims pads = r.node.attr_ints("pads");
  const bool count_pad = r.attr("count_include_pad") != 0;
  Dims begin;
  Dims end;
  Dims extra;
  std::vector<std::vector<double>> counts(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t extent = (kernel[i] - 1) * dilations[i] + 1;
    const std::int64_t low = pads[i];
    const std::int64_t high = pads[i + n];
    for (std::int64_t o = 0; o < y[i + 2]; ++o) {
      double count = 0;
      for (std::int64_t k = 0; k < kernel[i]; ++k) {
        const std::int64_t at = o * strides[i] - low + k * dilations[i];
        const bool inside = at >= 0 && at < x[i + 2];
        const bool padding = count_pad && at < x[i + 2] + high;
        if (inside || padding) count += 1;
      }
      counts[i].push_back(count);
    }
    // The last windows may reach past the padding (ceil_mode) or end before it.
    const std::int64_t reach = (y[i + 2] - 1) * strides[i] + extent - low;
    begin.push_back(low);
    end.push_back(std::max<std::int64_t>(reach - x[i + 2], 0));
    extra.push_back(std::max<std::int64_t>(x[i + 2] - reach, 0));
  }
  std::vector<double> divisors{1};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> longer;
    for (const double d : divisors) {
      for (const double c : counts[i]) longer.push_back(d * c);
    }
    divisors = std::move(longer);
  }
  for (double& d : divisors) d = 1 / d;
  const Dims out = spatial(y);
  const Var scaled = r.dy() * r.e.numbers(divisors, out, r.dy().dtype);
  Dims single{-1, 1};
  single.insert(single.end(), out.begin(), out.end());
  Dims ones{1, 1};
  ones.insert(ones.end(), kernel.begin(), kernel.end());
  // A window that begins in the padding behind the input makes rows that are cut off again, so
  // what output_padding adds is less than a stride; more is added by Pad.
  Dims tail(n + 2, 0);
  Dims output_padding(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    output_padding[i] = std::min(extra[i], strides[i] - 1);
    tail[i + 2] = extra[i] - output_padding[i];
  }
  begin.insert(begin.end(), end.begin(), end.end());
  Attributes attributes{
      {"kernel_shape", kernel}, {"strides", strides}, {"dilations", dilations}, {"pads", begin}};
  if (output_padding != Dims(n, 0)) attributes["output_padding"] = output_padding;
  Var g = r.e.op("ConvTranspose",
                 {reshape(scaled, single), r.e.constant(filled(r.dy().dtype, ones, 1))},
                 std::move(attributes));
  g = pad(g, Dims(n + 2, 0), tail);
  r.give(0, reshape(g, x));
}

// y = (sum |x|^p)^(1/p): dx = dy * x * |x|^(p-2) / y^(p-1)
void global_lp_pool_rule(Rule& r) {
  const auto p = static_cast<double>(r.attr("p"));
  const Var x = r.x();
  const Var y = r.y();
  if (p == 1) return r.give(0, r.dy() * sign(x));
  const Var zero = equal(y, x.e->scalar(0, x.dtype));
  const Var safe = where(zero, x.e->scalar(1, x.dtype), y);
  const Var slope = p == 2 ? x / safe : sign(x) * pow(abs(x), p - 1) / pow(safe, p - 1);
  r.give(0, r.dy() * slope);
}

}  // namespace

void register_pool(RuleRegistry& registry) {
  registry.add("MaxPool", max_pool_rule);
  registry.add("GlobalMaxPool", global_max_pool_rule);
  registry.add("AveragePool", average_pool_rule);
  registry.add("GlobalAveragePool", global_average_pool_rule);
  registry.add("GlobalLpPool", global_lp_pool_rule);
}

}  // namespace xrt::autodiff
