// SPDX-License-Identifier: Apache-2.0
// Ops that write variables: optimizers and assignments. Every read of a job sees what a variable
// held before the job; the new value is an output of the graph, aliased to the variable.
#include "frontends/oneflow/lowering.h"

namespace xrt::oneflow {
namespace {

// A tensor of one element as a number, whatever its rank.
ValueId operand_number(Lowering& l, std::size_t segment) { return l.reshape(l.in(segment), {}); }

ValueId times(Lowering& l, ValueId x, double factor, DType dtype) {
  return factor == 1 ? x : l.mul(x, l.scalar(factor, dtype));
}

// Segments that optimizers share; those of a kind of optimizer follow its state.
struct Segments {
  std::size_t learning_rate, scale, skip_if;
};

ValueId learning_rate(Lowering& l, const Segments& at) {
  const double factor = l.real("learning_rate_scale", 1);
  if (!l.has(at.learning_rate)) {
    return l.scalar(l.real("learning_rate_val") * factor, DType::kFloat32);
  }
  return times(l, operand_number(l, at.learning_rate), factor, DType::kFloat32);
}

// scale · gradient + l1 · sign(model) + l2 · model
ValueId gradient(Lowering& l, const Segments& at) {
  if (l.has(at.skip_if)) l.unsupported("skip_if: loss scaling is not known here");
  const DType dtype = l.dtype(0);
  ValueId g = l.dtype(1) == dtype ? l.in(1) : l.cast(l.in(1), dtype);
  g = times(l, g, l.real("scale", 1), dtype);
  if (l.has(at.scale)) g = l.mul(g, operand_number(l, at.scale));
  const double l1 = l.real("l1", 0), l2 = l.real("l2", 0);
  if (l1 != 0) g = l.add(g, l.mul(l.op("Sign", {l.in(0)}), l.scalar(l1, dtype)));
  if (l2 != 0) g = l.add(g, l.mul(l.in(0), l.scalar(l2, dtype)));
  return g;
}

// model - step - rate · weight_decay · model
void step(Lowering& l, ValueId rate, ValueId by) {
  const double decay = l.real("weight_decay", 0);
  ValueId next = l.sub(l.in(0), by);
  if (decay != 0) {
    next = l.sub(next, l.mul(l.mul(rate, l.scalar(decay, l.dtype(0))), l.in(0)));
  }
  l.update(0, next);
}

// a · x + b · y
ValueId blend(Lowering& l, double a, ValueId x, double b, ValueId y, DType dtype) {
  return l.add(l.mul(x, l.scalar(a, dtype)), times(l, y, b, dtype));
}

// model, model_diff, model_copy?, learning_rate?, scale_by_tensor?, skip_if?
void sgd_update(Lowering& l) {
  const Segments at{3, 4, 5};
  if (l.has(2)) l.unsupported("a copy of the model in another type");
  const ValueId rate = learning_rate(l, at);
  step(l, rate, l.mul(rate, gradient(l, at)));
}

// model, model_diff, momentum, learning_rate?, scale_by_tensor?, skip_if?
void momentum_update(Lowering& l) {
  const Segments at{3, 4, 5};
  const DType dtype = l.dtype(0);
  const double beta = l.real("beta");
  const ValueId rate = learning_rate(l, at);
  ValueId g = gradient(l, at);
  const ValueId momentum = blend(l, beta, l.in(2), 1 - l.real("dampening", 0), g, dtype);
  g = l.flag("nesterov") ? l.add(g, l.mul(momentum, l.scalar(beta, dtype))) : momentum;
  if (l.flag("maximize")) g = l.op("Neg", {g});
  step(l, rate, l.mul(rate, g));
  l.update(2, momentum);
}

ValueId bias_correction(Lowering& l, std::size_t segment, const char* attribute) {
  return l.has(segment) ? operand_number(l, segment)
                        : l.scalar(l.real(attribute, 1), DType::kFloat32);
}

// model, model_diff, model_copy?, learning_rate?, scale_by_tensor?, skip_if?, bias_correction1?,
// bias_correction2?, m, v, max_v?
void adam_update(Lowering& l) {
  const Segments at{3, 4, 5};
  if (l.has(2)) l.unsupported("a copy of the model in another type");
  const DType dtype = l.dtype(0);
  const double beta1 = l.real("beta1"), beta2 = l.real("beta2");
  const ValueId rate = learning_rate(l, at);
  const ValueId g = gradient(l, at);
  const ValueId m = blend(l, beta1, l.in(8), 1 - beta1, g, dtype);
  const ValueId v = blend(l, beta2, l.in(9), 1 - beta2, l.mul(g, g), dtype);
  ValueId second = v;
  if (l.flag("amsgrad")) {
    second = l.op("Max", {l.in(10), v});
    l.update(10, second);
  }
  const ValueId root2 = l.op("Sqrt", {bias_correction(l, 7, "bias_correction2_val")});
  const ValueId spread =
      l.add(l.div(l.op("Sqrt", {second}), root2), l.scalar(l.real("epsilon"), dtype));
  const ValueId size = l.div(rate, bias_correction(l, 6, "bias_correction1_val"));
  step(l, rate, l.mul(size, l.div(m, spread)));
  l.update(8, m);
  l.update(9, v);
}

// model, model_diff, learning_rate?, scale_by_tensor?, skip_if?, train_step?, sum
void adagrad_update(Lowering& l) {
  const Segments at{2, 3, 4};
  const DType dtype = l.dtype(0);
  ValueId rate = learning_rate(l, at);
  const double decay = l.real("lr_decay", 0);
  if (decay != 0) {
    // Steps count from 1, the variable from 0.
    const ValueId done = l.has(5) ? l.cast(operand_number(l, 5), DType::kFloat32)
                                  : l.scalar(l.integer("train_step_val", 0), DType::kFloat32);
    const ValueId slower =
        l.add(l.mul(done, l.scalar(decay, DType::kFloat32)), l.scalar(1, DType::kFloat32));
    rate = l.div(rate, slower);
  }
  const ValueId g = gradient(l, at);
  const ValueId sum = l.add(l.in(6), l.mul(g, g));
  const ValueId spread = l.add(l.op("Sqrt", {sum}), l.scalar(l.real("epsilon"), dtype));
  step(l, rate, l.mul(l.div(rate, spread), g));
  l.update(6, sum);
}

// model, model_diff, learning_rate?, scale_by_tensor?, skip_if?, mean_square, mean_gradient?
void rmsprop_update(Lowering& l) {
  const Segments at{2, 3, 4};
  const DType dtype = l.dtype(0);
  const double decay = l.real("decay_rate");
  const ValueId rate = learning_rate(l, at);
  const ValueId g = gradient(l, at);
  const ValueId square = blend(l, decay, l.in(5), 1 - decay, l.mul(g, g), dtype);
  ValueId spread = square;
  if (l.flag("centered")) {
    const ValueId mean = blend(l, decay, l.in(6), 1 - decay, g, dtype);
    spread = l.sub(square, l.mul(mean, mean));
    l.update(6, mean);
  }
  const ValueId root = l.op("Sqrt", {l.add(spread, l.scalar(l.real("epsilon"), dtype))});
  // OneFlow gives weight_decay no part in this rule.
  l.update(0, l.sub(l.in(0), l.div(l.mul(rate, g), root)));
  l.update(5, square);
}

ValueId norm(Lowering& l, ValueId x) {
  return l.reduce("ReduceL2", l.op("Reshape", {x, l.ints({-1})}), {0}, false);
}

// model, model_diff, learning_rate?, scale_by_tensor?, skip_if?, bias_correction1?,
// bias_correction2?, m, v
void lamb_update(Lowering& l) {
  const Segments at{2, 3, 4};
  const DType dtype = l.dtype(0);
  const double beta1 = l.real("beta1"), beta2 = l.real("beta2");
  const ValueId rate = learning_rate(l, at);
  const ValueId g = gradient(l, at);
  const ValueId m = blend(l, beta1, l.in(7), 1 - beta1, g, dtype);
  const ValueId v = blend(l, beta2, l.in(8), 1 - beta2, l.mul(g, g), dtype);
  ValueId first = m, root = l.op("Sqrt", {v});
  if (l.flag("do_bias_correction", true)) {
    first = l.div(m, bias_correction(l, 5, "bias_correction1_val"));
    root = l.div(root, l.op("Sqrt", {bias_correction(l, 6, "bias_correction2_val")}));
  }
  const ValueId direction = l.div(first, l.add(root, l.scalar(l.real("epsilon"), dtype)));
  const ValueId weight_norm = norm(l, l.in(0)), step_norm = norm(l, direction);
  const ValueId zero = l.scalar(0, dtype), one = l.scalar(1, dtype);
  const ValueId both =
      l.op("And", {l.op("Greater", {weight_norm, zero}), l.op("Greater", {step_norm, zero})});
  const ValueId divisor = l.where(both, step_norm, one);
  const ValueId trust = l.mul(rate, l.where(both, l.div(weight_norm, divisor), one));
  step(l, trust, l.mul(trust, direction));
  l.update(7, m);
  l.update(8, v);
}

// 1 - beta^(train_step + 1)
void adam_bias_correction_factor(Lowering& l) {
  const DType f32 = DType::kFloat32;
  const ValueId steps = l.add(l.cast(l.in(), f32), l.scalar(1, f32));
  l.result(0, l.sub(l.scalar(1, f32), l.op("Pow", {l.scalar(l.real("beta"), f32), steps})));
}

// model, model_diff
void l1_l2_regularize_gradient(Lowering& l) {
  const DType dtype = l.dtype(0);
  const ValueId first = l.mul(l.op("Sign", {l.in(0)}), l.scalar(l.real("l1"), dtype));
  const ValueId second = l.mul(l.in(0), l.scalar(l.real("l2"), dtype));
  l.result(0, l.add(l.in(1), l.add(first, second)));
}

// ref, value
void assign(Lowering& l) { l.update(0, l.in(1)); }

// Ops of OneFlow's own graph: OperatorConf's number says which.
void system_op(Lowering& l) {
  constexpr std::int64_t kIdentity = 290, kLearningRateSchedule = 298;
  const std::int64_t kind = l.integer("op_type_case");
  if (kind == kIdentity) return l.result(0, l.in());
  // Its formula is not in the text: whoever runs the job gives the rate.
  if (kind == kLearningRateSchedule) return l.result(0, l.add_schedule());
  l.unsupported("a system op of kind " + std::to_string(kind));
}

}  // namespace

void register_updates(Registry& r) {
  r.add("sgd_update", sgd_update);
  r.add("momentum_update", momentum_update);
  r.add("adam_update", adam_update);
  r.add("adagrad_update", adagrad_update);
  r.add("rmsprop_update", rmsprop_update);
  r.add("lamb_update", lamb_update);
  r.add("adam_bias_correction_factor", adam_bias_correction_factor);
  r.add("l1_l2_regularize_gradient", l1_l2_regularize_gradient);
  r.add("assign", assign);
  r.add("system", system_op);
}

}  // namespace xrt::oneflow
