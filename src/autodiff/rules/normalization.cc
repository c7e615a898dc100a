// SPDX-License-Identifier: Apache-2.0
// Normalisations. GroupNormalization is differentiated through its function body.
//
// The gradient of batch normalisation over a batch's own statistics is an op of its own:
//
//   xrt.BatchNormalizationGradient(X, scale, mean, var, dY) -> dX, dScale, dBias
//   attribute epsilon; mean and var (biased) are those of X
//   x' = (X - mean) / sqrt(var + epsilon)
//   dBias = sum dY    dScale = sum dY x'    dX = scale / sqrt(var + epsilon)
//                                                * (dY - dBias / n - x' dScale / n)
#include <numeric>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

// A vector of one number per channel, under a shape that broadcasts over the spatial axes.
Var per_channel(Var v, std::int64_t rank) { return unsqueeze(v, range(1, rank - 1)); }

Dims all_but_channels(std::int64_t rank) {
  Dims axes = range(2, rank);
  axes.insert(axes.begin(), 0);
  return axes;
}

void batch_norm_rule(Rule& r) {
  const std::int64_t rank = r.x_rank();
  if (rank < 2) r.refuse("the input has no channels");
  const double epsilon = need_float(r.node, "epsilon");
  const Dims axes = all_but_channels(rank);
  if (r.attr("training_mode") != 0) {
    if (r.has_dy(1) || r.has_dy(2)) r.refuse("the running statistics lead to the loss");
    Var center = r.y(1);
    Var variance = r.y(2);
    // With no momentum the outputs are the batch's own statistics.
    if (need_float(r.node, "momentum") != 0 || !center.valid() || !variance.valid()) {
      center = mean(r.x(0), axes, false);
      variance = mean(square(r.x(0) - per_channel(center, rank)), axes, false);
    }
    const auto made = r.e.node(
        kOwnDomain, "BatchNormalizationGradient", {r.x(0), r.x(1), center, variance, r.dy()},
        {r.x(0).dtype, r.x(1).dtype, r.x(1).dtype}, {{"epsilon", static_cast<float>(epsilon)}});
    for (std::size_t i = 0; i < 3; ++i) r.give(i, made[i]);
    return;
  }
  const Var inverse = reciprocal(sqrt(r.x(4) + epsilon));
  if (r.needs(0)) r.give(0, r.dy() * per_channel(r.x(1) * inverse, rank));
  if (r.needs(1) || r.needs(3) || r.needs(4)) {
    const Var hat = (r.x(0) - per_channel(r.x(3), rank)) * per_channel(inverse, rank);
    const Var product = sum(r.dy() * hat, axes, false);
    if (r.needs(1)) r.give(1, product);
    if (r.needs(4)) r.give(4, product * r.x(1) * square(inverse) * -0.5);
  }
  if (r.needs(2)) r.give(2, sum(r.dy(), axes, false));
  if (r.needs(3)) r.give(3, -(sum(r.dy(), axes, false) * r.x(1) * inverse));
}

struct Normalized {
  Var hat;
  Var inverse;  // of the standard deviation
};

Normalized normalized(Var x, const Dims& axes, double epsilon) {
  const Var centered = x - mean(x, axes, true);
  const Var inverse = reciprocal(sqrt(mean(square(centered), axes, true) + epsilon));
  return {centered * inverse, inverse};
}

// The gradient of hat with respect to x, applied to g.
Var normalized_gradient(const Normalized& n, Var g, const Dims& axes) {
  return n.inverse * (g - mean(g, axes, true) - n.hat * mean(g * n.hat, axes, true));
}

void layer_norm_rule(Rule& r) {
  if (r.has_dy(1) || r.has_dy(2)) r.refuse("its outputs Mean or InvStdDev lead to the loss");
  const std::int64_t rank = r.x_rank();
  const Dims axes = range(r.attr("axis"), rank);
  const Normalized n = normalized(r.x(), axes, need_float(r.node, "epsilon"));
  if (r.needs(0)) r.give(0, normalized_gradient(n, r.dy() * r.x(1), axes));
  if (r.needs(1)) r.give_broadcast(1, r.dy() * n.hat);
  r.give_broadcast(2, r.dy());
}

void rms_norm_rule(Rule& r) {
  const std::int64_t rank = r.x_rank();
  const Dims axes = range(r.attr("axis"), rank);
  const Var x = r.x();
  const double epsilon = need_float(r.node, "epsilon");
  const Var inverse = reciprocal(sqrt(mean(square(x), axes, true) + epsilon));
  const Var hat = x * inverse;
  if (r.needs(0)) {
    const Var g = r.dy() * r.x(1);
    r.give(0, inverse * (g - hat * mean(g * hat, axes, true)));
  }
  if (r.needs(1)) r.give_broadcast(1, r.dy() * hat);
}

// ONNX's function adds 1e-9 to the deviation.
void mean_variance_rule(Rule& r) {
  const Dims axes = r.node.attr_ints("axes");
  const Var x = r.x();
  const Var centered = x - mean(x, axes, true);
  const Var deviation = sqrt(mean(square(centered), axes, true));
  const Var inverse = reciprocal(deviation + 1e-9);
  const Var hat = centered * inverse;
  const Var g = r.dy();
  r.give(0, inverse * (g - mean(g, axes, true) - centered / deviation * mean(g * hat, axes, true)));
}

void instance_norm_rule(Rule& r) {
  const std::int64_t rank = r.x_rank();
  const Dims axes = range(2, rank);
  const Normalized n = normalized(r.x(), axes, need_float(r.node, "epsilon"));
  const Dims channels = all_but_channels(rank);
  if (r.needs(0)) r.give(0, normalized_gradient(n, r.dy() * per_channel(r.x(1), rank), axes));
  if (r.needs(1)) r.give(1, sum(r.dy() * n.hat, channels, false));
  if (r.needs(2)) r.give(2, sum(r.dy(), channels, false));
}

// y = x * s^-beta, s = bias + alpha/size * (sum of squares of the channels around)
void lrn_rule(Rule& r) {
  const std::int64_t size = r.attr("size");
  const double alpha = need_float(r.node, "alpha");
  const double beta = need_float(r.node, "beta");
  const double bias = need_float(r.node, "bias");
  const Dims dims = r.x_dims();
  const auto around = [&](Var v, std::int64_t before, std::int64_t behind) {
    Dims low(dims.size(), 0);
    Dims high(dims.size(), 0);
    low[1] = before;
    high[1] = behind;
    const Var wide = pad(v, low, high);
    Var total;
    for (std::int64_t k = 0; k < size; ++k) {
      const Var part = slice(wide, {k}, {k + dims[1]}, {1});
      total = k == 0 ? part : total + part;
    }
    return total;
  };
  const std::int64_t before = (size - 1) / 2;
  const std::int64_t behind = size - 1 - before;
  const Var x = r.x();
  const Var s = around(square(x), before, behind) * (alpha / static_cast<double>(size)) + bias;
  const Var scaled = pow(s, -beta);
  const Var inner = around(r.dy() * x * scaled / s, behind, before);
  r.give(0, r.dy() * scaled - x * inner * (2 * alpha * beta / static_cast<double>(size)));
}

// y = x / |x|_p; where the norm is 0, y is 0.
void lp_normalization_rule(Rule& r) {
  const Dims axes{r.attr("axis")};
  const Var x = r.x();
  const bool two = r.attr("p") == 2;
  const Var norm = two ? sqrt(sum(square(x), axes, true)) : sum(abs(x), axes, true);
  const Var zero = equal(norm, x.e->scalar(0, x.dtype));
  const Var safe = where(zero, x.e->scalar(1, x.dtype), norm);
  const Var along = sum(r.dy() * r.y(), axes, true);
  const Var g = (r.dy() - (two ? r.y() : sign(x)) * along) / safe;
  r.give(0, where(zero, x.e->scalar(0, x.dtype), g));
}

}  // namespace

void register_normalization(RuleRegistry& registry) {
  registry.add("BatchNormalization", batch_norm_rule);
  registry.add("LayerNormalization", layer_norm_rule);
  registry.add("RMSNormalization", rms_norm_rule);
  registry.add("MeanVarianceNormalization", mean_variance_rule);
  registry.add("InstanceNormalization", instance_norm_rule);
  registry.add("LRN", lrn_rule);
  registry.add("LpNormalization", lp_normalization_rule);
}

}  // namespace xrt::autodiff
