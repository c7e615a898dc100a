// SPDX-License-Identifier: Apache-2.0
// Loss functions and their gradients.
#include <numeric>

#include "frontends/oneflow/lowering.h"

namespace xrt::oneflow {
namespace {

ValueId int64_operand(Lowering& l, std::size_t operand) {
  return l.dtype(operand) == DType::kInt64 ? l.in(operand) : l.cast(l.in(operand), DType::kInt64);
}

// [n…, classes] as bool: where the class is the label of its row.
ValueId label_mask(Lowering& l, std::size_t label, std::int64_t classes, std::int64_t rank) {
  std::vector<std::int64_t> numbers(l.table_size(classes));
  std::iota(numbers.begin(), numbers.end(), 0);
  ValueId labels = int64_operand(l, label);
  if (l.rank(label) < rank) labels = l.unsqueeze(labels, {l.rank(label)});
  return l.op("Equal", {labels, l.ints(numbers)});
}

// The entry of each row that its label names.
ValueId picked(Lowering& l, ValueId rows, ValueId mask, std::int64_t rank) {
  return l.reduce("ReduceSum", l.where(mask, rows, l.scalar(0, l.dtype())), {rank - 1}, false);
}

ValueId counted(Lowering& l, std::size_t target) {
  const ValueId ignored = l.scalar(l.integer("ignore_index", -100), DType::kInt64);
  return l.op("Not", {l.op("Equal", {int64_operand(l, target), ignored})});
}

// The weight of each row: its class's, or 1; 0 where the label is to be ignored.
ValueId row_weights(Lowering& l, std::size_t target, std::size_t weight, ValueId mask,
                    DType dtype) {
  const ValueId kept = counted(l, target);
  if (!l.has(weight)) return l.cast(kept, dtype);
  const ValueId chosen = l.reduce("ReduceSum", l.where(mask, l.in(weight), l.scalar(0, dtype)),
                                  {l.rank(target)}, false);
  return l.where(kept, chosen, l.scalar(0, dtype));
}

// input [n, c], target [n], weight [c]? → output [n], out_weight [n]
void nll(Lowering& l) {
  const std::int64_t rank = l.rank();
  const ValueId mask = label_mask(l, 1, l.dims(0, 1).back(), rank);
  const ValueId weights = row_weights(l, 1, 2, mask, l.dtype());
  l.result(0, l.op("Neg", {l.mul(picked(l, l.in(0), mask, rank), weights)}));
  l.result(1, weights);
}

// out_grad [n], input [n, c], target [n], weight [c]?
void nll_grad(Lowering& l) {
  const std::int64_t rank = l.rank(1);
  const ValueId mask = label_mask(l, 2, l.dims(1, 1).back(), rank);
  const ValueId weights = row_weights(l, 2, 3, mask, l.dtype());
  const ValueId each = l.unsqueeze(l.op("Neg", {l.mul(l.in(0), weights)}), {rank - 1});
  l.result(0, l.where(mask, each, l.scalar(0, l.dtype())));
}

// prediction [n, c], label [n] → prob [n, c], out [n]
void sparse_softmax_cross_entropy(Lowering& l) {
  const std::int64_t rank = l.rank();
  const ValueId logs = l.op("LogSoftmax", {l.in(0)}, {{"axis", std::int64_t{-1}}});
  const ValueId mask = label_mask(l, 1, l.dims(0, 1).back(), rank);
  if (l.wanted(0)) l.result(0, l.op("Softmax", {l.in(0)}, {{"axis", std::int64_t{-1}}}));
  l.result(1, l.op("Neg", {picked(l, logs, mask, rank)}));
}

// Operands in either order of 0.9: label, dy, prob. dx = dy · (prob - onehot(label))
void sparse_softmax_cross_entropy_grad(Lowering& l) {
  const std::size_t label = 0, dy = 1, prob = 2;
  const std::int64_t rank = l.rank(prob);
  const DType dtype = l.dtype(prob);
  const ValueId mask = l.cast(label_mask(l, label, l.dims(prob, 1).back(), rank), dtype);
  l.result(0, l.mul(l.unsqueeze(l.in(dy), {rank - 1}), l.sub(l.in(prob), mask)));
}

// prediction [n, c] (probabilities), label [n]
void sparse_cross_entropy(Lowering& l) {
  const std::int64_t rank = l.rank();
  const ValueId mask = label_mask(l, 1, l.dims(0, 1).back(), rank);
  l.result(0, l.op("Neg", {l.op("Log", {picked(l, l.in(0), mask, rank)})}));
}

// prediction, label (probabilities) → prob, out
void softmax_cross_entropy(Lowering& l) {
  const std::int64_t rank = l.rank();
  const ValueId logs = l.op("LogSoftmax", {l.in(0)}, {{"axis", std::int64_t{-1}}});
  if (l.wanted(0)) l.result(0, l.op("Softmax", {l.in(0)}, {{"axis", std::int64_t{-1}}}));
  l.result(1, l.op("Neg", {l.reduce("ReduceSum", l.mul(l.in(1), logs), {rank - 1}, false)}));
}

// dy, label, prob
void softmax_cross_entropy_grad(Lowering& l) {
  l.result(0, l.mul(l.unsqueeze(l.in(0), {l.rank(0)}), l.sub(l.in(2), l.in(1))));
}

// --- of two tensors of one shape ----------------------------------------------------------------

ValueId number(Lowering& l, double value) { return l.scalar(value, l.dtype()); }

// input, target
void smooth_l1_loss(Lowering& l) {
  const double beta = l.real("beta");
  const ValueId size = l.op("Abs", {l.sub(l.in(0), l.in(1))});
  if (beta == 0) return l.result(0, size);
  const ValueId inner = l.mul(l.mul(size, size), number(l, 0.5 / beta));
  l.result(
      0, l.where(l.op("Less", {size, number(l, beta)}), inner, l.sub(size, number(l, 0.5 * beta))));
}

// input, target, dy
void smooth_l1_loss_grad(Lowering& l) {
  const double beta = l.real("beta");
  const ValueId d = l.sub(l.in(0), l.in(1));
  ValueId slope = l.op("Sign", {d});
  if (beta != 0) {
    const ValueId near = l.op("Less", {l.op("Abs", {d}), number(l, beta)});
    slope = l.where(near, l.div(d, number(l, beta)), slope);
  }
  l.result(0, l.mul(l.in(2), slope));
}

// input (probabilities), target, weight?: logarithms are bounded by -100.
void binary_cross_entropy(Lowering& l) {
  const ValueId one = number(l, 1), floor = number(l, -100);
  const ValueId yes = l.op("Max", {l.op("Log", {l.in(0)}), floor});
  const ValueId no = l.op("Max", {l.op("Log", {l.sub(one, l.in(0))}), floor});
  const ValueId sum = l.add(l.mul(l.in(1), yes), l.mul(l.sub(one, l.in(1)), no));
  ValueId y = l.op("Neg", {sum});
  if (l.has(2)) y = l.mul(y, l.in(2));
  l.result(0, y);
}

// input, target, weight?, dy
void binary_cross_entropy_grad(Lowering& l) {
  const auto operands = l.flat(3);
  const ValueId one = number(l, 1), x = operands[0];
  const ValueId spread = l.op("Max", {l.mul(x, l.sub(one, x)), number(l, 1e-12)});
  ValueId dx = l.mul(operands.back(), l.div(l.sub(x, operands[1]), spread));
  if (operands.size() == 4) dx = l.mul(dx, operands[2]);
  l.result(0, dx);
}

// max(x, 0) - x · target + log(1 + exp(-|x|))
ValueId logits_loss(Lowering& l) {
  const ValueId x = l.in(0);
  const ValueId tail = l.op("Softplus", {l.op("Neg", {l.op("Abs", {x})})});
  return l.add(l.sub(l.op("Relu", {x}), l.mul(x, l.in(1))), tail);
}

// input, target, weight?, pos_weight?
void binary_cross_entropy_with_logits(Lowering& l) {
  if (l.flag("has_pos_weight")) l.unsupported("pos_weight");
  const ValueId y = logits_loss(l);
  l.result(0, l.has(2) ? l.mul(y, l.in(2)) : y);
}

// input, target, weight?, pos_weight?, dy
void binary_cross_entropy_with_logits_grad(Lowering& l) {
  if (l.flag("has_pos_weight")) l.unsupported("pos_weight");
  const auto operands = l.flat(3);
  ValueId dx = l.mul(operands.back(), l.sub(l.op("Sigmoid", {operands[0]}), operands[1]));
  if (operands.size() == 4) dx = l.mul(dx, operands[2]);
  l.result(0, dx);
}

std::vector<std::int64_t> all_axes(const Lowering& l) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(l.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

void binary_cross_entropy_with_logits_reduce_mean(Lowering& l) {
  l.result(0, l.reduce("ReduceMean", logits_loss(l), all_axes(l), false));
}

// input, target, dy (one number)
void binary_cross_entropy_with_logits_reduce_mean_grad(Lowering& l) {
  const auto count = static_cast<double>(element_count(l.dims()));
  const ValueId d = l.sub(l.op("Sigmoid", {l.in(0)}), l.in(1));
  l.result(0, l.mul(d, l.div(l.in(2), number(l, count))));
}

// input (logarithms), target
void kl_div_loss(Lowering& l) {
  if (l.flag("log_target")) {
    return l.result(0, l.mul(l.op("Exp", {l.in(1)}), l.sub(l.in(1), l.in(0))));
  }
  const ValueId zero = number(l, 0);
  const ValueId y = l.mul(l.in(1), l.sub(l.op("Log", {l.in(1)}), l.in(0)));
  l.result(0, l.where(l.op("Greater", {l.in(1), zero}), y, zero));
}

// input, target, dy
void kl_div_loss_grad(Lowering& l) {
  const ValueId zero = number(l, 0);
  if (l.flag("log_target")) {
    return l.result(0, l.op("Neg", {l.mul(l.op("Exp", {l.in(1)}), l.in(2))}));
  }
  const ValueId dx = l.op("Neg", {l.mul(l.in(1), l.in(2))});
  l.result(0, l.where(l.op("Greater", {l.in(1), zero}), dx, zero));
}

}  // namespace

void register_losses(Registry& r) {
  r.add("nll", nll);
  r.add("nll_grad", nll_grad);
  r.add({"sparse_softmax_cross_entropy", "sparse_softmax_cross_entropy_ms"},
        sparse_softmax_cross_entropy);
  r.add({"sparse_softmax_cross_entropy_grad", "sparse_softmax_cross_entropy_ms_grad"},
        sparse_softmax_cross_entropy_grad);
  r.add("sparse_cross_entropy", sparse_cross_entropy);
  r.add("softmax_cross_entropy", softmax_cross_entropy);
  r.add("softmax_cross_entropy_grad", softmax_cross_entropy_grad);
  r.add("smooth_l1_loss", smooth_l1_loss);
  r.add("smooth_l1_loss_grad", smooth_l1_loss_grad);
  r.add("binary_cross_entropy", binary_cross_entropy);
  r.add("binary_cross_entropy_grad", binary_cross_entropy_grad);
  r.add("binary_cross_entropy_with_logits", binary_cross_entropy_with_logits);
  r.add("binary_cross_entropy_with_logits_grad", binary_cross_entropy_with_logits_grad);
  r.add("binary_cross_entropy_with_logits_reduce_mean",
        binary_cross_entropy_with_logits_reduce_mean);
  r.add("binary_cross_entropy_with_logits_reduce_mean_grad",
        binary_cross_entropy_with_logits_reduce_mean_grad);
  r.add("kl_div_loss", kl_div_loss);
  r.add("kl_div_loss_grad", kl_div_loss_grad);
}

}  // namespace xrt::oneflow
