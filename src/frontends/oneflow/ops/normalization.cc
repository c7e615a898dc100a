// SPDX-License-Identifier: Apache-2.0
// Normalisations, softmax and dropout, with their gradients.
#include <algorithm>
#include <numeric>

#include "frontends/oneflow/lowering.h"

namespace xrt::oneflow {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes axes_from(std::int64_t first, std::int64_t last) {
  Sizes axes;
  for (std::int64_t i = first; i < last; ++i) axes.push_back(i);
  return axes;
}

// --- batch normalisation ------------------------------------------------------------------------

struct Channels {
  Sizes others;      // all axes but that of the channels
  Dims wide;         // the shape that spreads one number per channel over the tensor
  double count = 1;  // elements per channel
};

Channels channels_of(const Lowering& l, std::size_t operand) {
  const Dims dims = l.dims(operand);
  const auto rank = static_cast<std::int64_t>(dims.size());
  const std::int64_t axis = l.axis(l.integer("axis"), rank);
  Channels c;
  c.wide.assign(dims.size(), 1);
  c.wide[static_cast<std::size_t>(axis)] = dims[static_cast<std::size_t>(axis)];
  for (std::int64_t i = 0; i < rank; ++i) {
    if (i == axis) continue;
    c.others.push_back(i);
    c.count *= static_cast<double>(dims[static_cast<std::size_t>(i)]);
  }
  return c;
}

ValueId batch_normalized(Lowering& l, std::size_t mean) {
  const float epsilon = static_cast<float>(l.real("epsilon"));
  if (l.axis(l.integer("axis"), l.rank()) != 1) {
    // The formula, with one number per channel spread over the tensor.
    const Channels c = channels_of(l, 0);
    const ValueId spread = l.add(l.in(mean + 1), l.scalar(epsilon, l.dtype(mean + 1)));
    const ValueId inverse = l.op("Reciprocal", {l.op("Sqrt", {spread})});
    const ValueId hat = l.mul(l.sub(l.in(0), l.reshape(l.in(mean), c.wide)),
                              l.reshape(l.mul(inverse, l.in(mean + 2)), c.wide));
    return l.add(hat, l.reshape(l.in(mean + 3), c.wide));
  }
  return l.op("BatchNormalization",
              {l.in(0), l.in(mean + 2), l.in(mean + 3), l.in(mean), l.in(mean + 1)},
              {{"epsilon", epsilon}});
}

// The new running statistic: momentum · old + (1 - momentum) · new.
void update_running(Lowering& l, std::size_t segment, ValueId value) {
  if (!l.has(segment) || !l.is_variable(segment)) return;
  const double momentum = l.real("momentum");
  const DType dtype = l.dtype(segment);
  l.update(segment, l.add(l.mul(l.current(segment), l.scalar(momentum, dtype)),
                          l.mul(value, l.scalar(1 - momentum, dtype))));
}

// In training: y from the statistics of this batch; results `mean` and the one after it.
ValueId normalized_by_batch(Lowering& l, std::size_t moving, std::size_t gamma,
                            std::size_t mean_result) {
  const Channels c = channels_of(l, 0);
  const DType dtype = l.dtype();
  const ValueId mean = l.reduce("ReduceMean", l.in(0), c.others, true);
  const ValueId centered = l.sub(l.in(0), mean);
  const ValueId variance = l.reduce("ReduceMean", l.mul(centered, centered), c.others, true);
  const ValueId spread = l.add(variance, l.scalar(l.real("epsilon"), dtype));
  const ValueId inverse = l.op("Reciprocal", {l.op("Sqrt", {spread})});
  const Dims flat{
      std::accumulate(c.wide.begin(), c.wide.end(), std::int64_t{1}, std::multiplies<>())};
  const ValueId flat_mean = l.reshape(mean, flat);
  update_running(l, moving, flat_mean);
  const double unbiased = c.count > 1 ? c.count / (c.count - 1) : 1;
  update_running(l, moving + 1, l.mul(l.reshape(variance, flat), l.scalar(unbiased, dtype)));
  l.result(mean_result, flat_mean);
  l.result(mean_result + 1, l.reshape(inverse, flat));
  const ValueId scale = l.mul(inverse, l.reshape(l.in(gamma), c.wide));
  return l.add(l.mul(centered, scale), l.reshape(l.in(gamma + 1), c.wide));
}

// x, moving_mean?, moving_variance?, gamma, beta, _add_to_output? → y, mean?, inv_variance?
void normalization(Lowering& l) {
  ValueId y = l.flag("training") ? normalized_by_batch(l, 1, 3, 1) : batch_normalized(l, 1);
  if (l.has(5)) y = l.add(y, l.in(5));
  l.result(0, y);
}

// x, addend?, moving_mean?, moving_variance?, gamma, beta → y, reserve_space, mean?, inv_variance?
void normalization_add_relu(Lowering& l) {
  ValueId y = l.flag("training") ? normalized_by_batch(l, 2, 4, 2) : batch_normalized(l, 2);
  if (l.has(1)) y = l.add(y, l.in(1));
  l.result(0, l.op("Relu", {y}));
}

// The gradients of gamma, beta and x.
void batch_gradients(Lowering& l, ValueId dy) {
  const Channels c = channels_of(l, 0);
  const ValueId inverse = l.reshape(l.in(3), c.wide);
  const ValueId hat = l.mul(l.sub(l.in(0), l.reshape(l.in(2), c.wide)), inverse);
  const ValueId gamma_diff = l.reduce("ReduceSum", l.mul(dy, hat), c.others, false);
  const ValueId beta_diff = l.reduce("ReduceSum", dy, c.others, false);
  l.result(0, gamma_diff);
  l.result(1, beta_diff);
  if (!l.wanted(2)) return;
  // (dy - mean(dy) - hat · mean(dy · hat)) · gamma · inverse
  const ValueId count = l.scalar(1.0 / c.count, l.dtype());
  const ValueId along = l.mul(hat, l.reshape(l.mul(gamma_diff, count), c.wide));
  const ValueId average = l.reshape(l.mul(beta_diff, count), c.wide);
  const ValueId rest = l.sub(l.sub(dy, average), along);
  l.result(2, l.mul(rest, l.mul(inverse, l.reshape(l.in(4), c.wide))));
}

// x, dy, mean, inv_variance, gamma → gamma_diff, beta_diff, dx
void normalization_grad(Lowering& l) { batch_gradients(l, l.in(1)); }

// x, dy, mean, inv_variance, gamma, beta, reserve_space, y → gamma_diff, beta_diff, dx,
// addend_diff?
void normalization_add_relu_grad(Lowering& l) {
  const ValueId zero = l.scalar(0, l.dtype(1));
  const ValueId dy = l.where(l.op("Greater", {l.in(7), zero}), l.in(1), zero);
  batch_gradients(l, dy);
  l.result(3, dy);
}

// --- layer and group normalisation --------------------------------------------------------------

// x, then beta if `center`, gamma if `scale` → y, mean, inv_variance
void layer_norm(Lowering& l) {
  const Dims dims = l.dims();
  const std::int64_t axis = l.axis(l.integer("begin_norm_axis"), l.rank());
  const Dims normalized(dims.begin() + axis, dims.end());
  const bool center = l.flag("center"), scale = l.flag("scale");
  const std::size_t scale_at = center ? 2 : 1;
  if (l.operands() < 1 + static_cast<std::size_t>(center) + static_cast<std::size_t>(scale)) {
    l.invalid("beta or gamma is missing");
  }
  std::vector<ValueId> inputs{l.in(),
                              scale ? l.flat()[scale_at] : l.filled(normalized, 1, l.dtype())};
  if (center) inputs.push_back(l.flat()[1]);
  const bool statistics = l.wanted(1) || l.wanted(2);
  const auto outputs = l.ops("LayerNormalization", inputs, statistics ? 3 : 1,
                             {{"axis", axis}, {"epsilon", static_cast<float>(l.real("epsilon"))}});
  l.result(0, outputs[0]);
  if (!statistics) return;
  l.result(1, l.reshape(outputs[1], l.result_dims(1)));
  l.result(2, l.reshape(outputs[2], l.result_dims(2)));
}

// The statistic, one per group of normalised elements, with trailing dimensions of 1.
Dims spread_shape(const Dims& dims, std::int64_t axis) {
  Dims shape(dims.begin(), dims.begin() + axis);
  shape.resize(dims.size(), 1);
  return shape;
}

// dy, x, mean, inv_variance, gamma?, _add_to_output? → dx
void layer_norm_grad(Lowering& l) {
  const Dims dims = l.dims(1);
  const std::int64_t axis = l.axis(l.integer("begin_norm_axis"), l.rank(1));
  const Sizes axes = axes_from(axis, static_cast<std::int64_t>(dims.size()));
  const Dims wide = spread_shape(dims, axis);
  const ValueId inverse = l.reshape(l.in(3), wide);
  const ValueId hat = l.mul(l.sub(l.in(1), l.reshape(l.in(2), wide)), inverse);
  const ValueId g = l.has(4) ? l.mul(l.in(0), l.in(4)) : l.in(0);
  const ValueId average = l.reduce("ReduceMean", g, axes, true);
  const ValueId along = l.mul(hat, l.reduce("ReduceMean", l.mul(g, hat), axes, true));
  ValueId dx = l.mul(l.sub(l.sub(g, average), along), inverse);
  if (l.has(5)) dx = l.add(dx, l.in(5));
  l.result(0, dx);
}

// dy, x, mean, inv_variance → beta_diff?, gamma_diff?
void layer_norm_param_grad(Lowering& l) {
  const Dims dims = l.dims(1);
  const std::int64_t axis = l.axis(l.integer("begin_params_axis"), l.rank(1));
  const Sizes before = axes_from(0, axis);
  const Dims wide = spread_shape(dims, axis);
  const ValueId hat = l.mul(l.sub(l.in(1), l.reshape(l.in(2), wide)), l.reshape(l.in(3), wide));
  l.result(0, l.reduce("ReduceSum", l.in(0), before, false));
  l.result(1, l.reduce("ReduceSum", l.mul(l.in(0), hat), before, false));
}

// x, then beta and gamma if `affine` → y, mean, inv_variance
void group_norm(Lowering& l) {
  const Dims dims = l.dims();
  const std::int64_t groups = l.size("num_groups");
  if (dims.size() < 2 || groups < 1 || dims[1] % groups != 0) l.invalid("num_groups does not fit");
  if (l.text("data_format", "channels_first") != "channels_first") {
    l.unsupported("only channels_first is known");
  }
  const Dims split{dims[0], groups, -1};
  const ValueId x = l.reshape(l.in(), split);
  const ValueId mean = l.reduce("ReduceMean", x, {2}, true);
  const ValueId centered = l.sub(x, mean);
  const ValueId variance = l.reduce("ReduceMean", l.mul(centered, centered), {2}, true);
  const ValueId spread = l.add(variance, l.scalar(l.real("epsilon"), l.dtype()));
  const ValueId inverse = l.op("Reciprocal", {l.op("Sqrt", {spread})});
  ValueId y = l.reshape(l.mul(centered, inverse), dims);
  if (l.flag("affine")) {
    Dims wide(dims.size() - 1, 1);
    wide.front() = dims[1];
    const auto operands = l.flat();
    if (operands.size() < 3) l.invalid("beta or gamma is missing");
    y = l.add(l.mul(y, l.reshape(operands[2], wide)), l.reshape(operands[1], wide));
  }
  if (l.text("activation", "none") == "silu") y = l.mul(y, l.op("Sigmoid", {y}));
  l.result(0, y);
  l.result(1, l.reshape(mean, {dims[0], groups}));
  l.result(2, l.reshape(inverse, {dims[0], groups}));
}

// --- softmax and dropout ------------------------------------------------------------------------

void softmax(Lowering& l) { l.result(0, l.op("Softmax", {l.in()}, {{"axis", std::int64_t{-1}}})); }

void log_softmax(Lowering& l) {
  l.result(0, l.op("LogSoftmax", {l.in()}, {{"axis", std::int64_t{-1}}}));
}

// y, dy: y · (dy - sum(dy · y))
void softmax_grad(Lowering& l) {
  const ValueId sum = l.reduce("ReduceSum", l.mul(l.in(0), l.in(1)), {l.rank() - 1}, true);
  l.result(0, l.mul(l.in(0), l.sub(l.in(1), sum)));
}

// prob (the logarithms), dy: dy - exp(prob) · sum(dy)
void log_softmax_grad(Lowering& l) {
  const ValueId sum = l.reduce("ReduceSum", l.in(1), {l.rank() - 1}, true);
  l.result(0, l.sub(l.in(1), l.mul(l.op("Exp", {l.in(0)}), sum)));
}

// in, _add_to_output? → out, mask
void dropout(Lowering& l) {
  const auto outputs =
      l.ops("Dropout", {l.in(), l.scalar(l.real("rate"), l.dtype()), l.scalar(1, DType::kBool)}, 2);
  l.result(0, l.has(1) ? l.add(outputs[0], l.in(1)) : outputs[0]);
  l.result(1, outputs[1]);
}

// Ones with the probability `p`, or with those of the operand.
void bernoulli(Lowering& l) {
  const double p = l.real("p", -1);
  ValueId chances = l.in();
  if (p >= 0) chances = l.op("Expand", {l.scalar(p, l.dtype()), l.ints(l.dims())});
  l.result(0, l.op("Bernoulli", {chances},
                   {{"dtype", static_cast<std::int64_t>(l.result_type().dtype)}}));
}

// dy, mask
void dropout_grad(Lowering& l) {
  const ValueId kept = l.cast(l.in(1), l.dtype(0));
  l.result(0, l.mul(l.mul(l.in(0), kept), l.scalar(l.real("scale"), l.dtype(0))));
}

}  // namespace

void register_normalization(Registry& r) {
  r.add({"normalization", "normalization_infer"}, normalization);
  r.add("normalization_grad", normalization_grad);
  r.add("normalization_add_relu", normalization_add_relu);
  r.add("normalization_add_relu_grad", normalization_add_relu_grad);
  r.add("layer_norm", layer_norm);
  r.add("layer_norm_grad", layer_norm_grad);
  r.add("layer_norm_param_grad", layer_norm_param_grad);
  r.add("group_norm", group_norm);
  r.add("softmax", softmax);
  r.add("softmax_grad", softmax_grad);
  r.add("log_softmax", log_softmax);
  r.add("log_softmax_grad", log_softmax_grad);
  r.add("dropout", dropout);
  r.add("bernoulli", bernoulli);
  r.add("dropout_grad", dropout_grad);
}

}  // namespace xrt::oneflow
