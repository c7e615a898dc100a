// SPDX-License-Identifier: Apache-2.0
#include "autodiff/losses.h"

#include <fmt/format.h>

#include "xrt/error.h"

namespace xrt::autodiff {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what);
}

Var reduced(const LossOptions& loss, Var each, std::int64_t rank) {
  if (loss.reduction == "mean") return mean(each, range(0, rank), false);
  if (loss.reduction == "sum") return sum(each, range(0, rank), false);
  refuse(fmt::format("loss reduction '{}'; \"mean\" or \"sum\" is wanted", loss.reduction));
}

// Targets are class numbers; those equal to ignore_index count nothing.
Var negative_log_likelihood(const LossOptions& loss, Var log_p, std::int64_t rank, Var target,
                            std::int64_t classes) {
  Emitter& e = *log_p.e;
  const Var classes_of = cast(target, DType::kInt64);
  const Var counts =
      negate(equal(classes_of, e.scalar(static_cast<double>(loss.ignore_index), DType::kInt64)));
  const Var safe = masked(counts, classes_of);
  const Var picked =
      e.op("GatherElements", {log_p, unsqueeze(safe, {1})}, {{"axis", std::int64_t{1}}});
  Var each = -squeeze(picked, {1});
  if (loss.label_smoothing != 0) {
    each = each * (1 - loss.label_smoothing) -
           sum(log_p, {1}, false) * (loss.label_smoothing / static_cast<double>(classes));
  }
  each = masked(counts, each);
  const Dims all = range(0, rank - 1);
  const Var total = sum(each, all, false);
  if (loss.reduction == "sum") return total;
  if (loss.reduction != "mean") reduced(loss, each, rank - 1);
  return total / sum(cast(counts, log_p.dtype), all, false);
}

}  // namespace

bool takes_classes(const LossOptions& loss) {
  return (loss.kind == "cross_entropy" && !loss.class_probabilities) || loss.kind == "nll";
}

Type target_type(const LossOptions& loss, const Type& prediction) {
  if (!takes_classes(loss)) return prediction;
  if (!prediction.has_rank() || prediction.rank() < 2) {
    refuse(fmt::format("the loss \"{}\" wants predictions [batch, classes, …], not {}", loss.kind,
                       to_string(prediction)));
  }
  Shape shape = *prediction.shape;
  shape.erase(shape.begin() + 1);
  return Type::tensor(DType::kInt64, std::move(shape));
}

ValueId add_loss(Graph& graph, const LossOptions& loss, ValueId prediction, ValueId target) {
  Emitter e(graph);
  e.set_prefix("loss");
  const Type type = graph.type(prediction);
  const Type wanted = target_type(loss, type);
  const Type given = graph.type(target);
  if (!type.has_rank() || !given.has_rank() || given.rank() != wanted.rank()) {
    refuse(fmt::format("the target is {}; with predictions {} the loss \"{}\" wants {}",
                       to_string(given), to_string(type), loss.kind, to_string(wanted)));
  }
  const auto rank = static_cast<std::int64_t>(type.rank());
  const Var x = e.var(prediction);
  const Var t = e.var(target);
  const std::int64_t classes =
      rank > 1 && (*type.shape)[1].is_known() ? (*type.shape)[1].value() : 0;
  if (loss.label_smoothing != 0 && (loss.kind != "cross_entropy" || classes == 0)) {
    refuse("label smoothing goes with cross_entropy over a known number of classes");
  }
  const auto log_softmax = [&] { return e.op("LogSoftmax", {x}, {{"axis", std::int64_t{1}}}); };

  if (loss.kind == "cross_entropy" && loss.class_probabilities) {
    Var p = cast(t, x.dtype);
    if (loss.label_smoothing != 0) {
      p = p * (1 - loss.label_smoothing) + loss.label_smoothing / static_cast<double>(classes);
    }
    return reduced(loss, -sum(p * log_softmax(), {1}, false), rank - 1).id;
  }
  if (loss.kind == "cross_entropy") {
    return negative_log_likelihood(loss, log_softmax(), rank, t, classes).id;
  }
  if (loss.kind == "nll") return negative_log_likelihood(loss, x, rank, t, classes).id;

  const Var y = cast(t, x.dtype);
  if (loss.kind == "mse") return reduced(loss, square(x - y), rank).id;
  if (loss.kind == "l1") return reduced(loss, abs(x - y), rank).id;
  if (loss.kind == "smooth_l1" || loss.kind == "huber") {
    const double d = loss.delta;
    if (d <= 0) refuse(fmt::format("loss \"{}\": delta must be above 0", loss.kind));
    const Var size = abs(x - y);
    const Var huber = where(less(size, d), square(x - y) * 0.5, (size - 0.5 * d) * d);
    return reduced(loss, loss.kind == "huber" ? huber : huber / d, rank).id;
  }
  if (loss.kind == "bce") {
    // As PyTorch, logarithms end at -100.
    const auto log_of = [&](Var p) { return max(log(p), e.scalar(-100, x.dtype)); };
    return reduced(loss, -(y * log_of(x) + (1.0 - y) * log_of(1.0 - x)), rank).id;
  }
  if (loss.kind == "bce_with_logits") {
    // max(x, 0) - x y + log(1 + exp(-|x|))
    return reduced(loss, e.op("Relu", {x}) - x * y + e.op("Softplus", {-abs(x)}), rank).id;
  }
  if (loss.kind == "kl_div") {
    // Predictions are log-probabilities, targets probabilities; 0 log 0 = 0.
    const Var positive = greater(y, 0.0);
    const Var safe = where(positive, y, e.scalar(1, x.dtype));
    const Var each = masked(positive, y * (log(safe) - x));
    if (loss.reduction != "batchmean") return reduced(loss, each, rank).id;
    const auto dims = type.static_dims();
    if (!dims || dims->empty()) refuse("reduction \"batchmean\" wants a known batch");
    return (sum(each, range(0, rank), false) / static_cast<double>(dims->front())).id;
  }
  refuse(fmt::format(
      "loss \"{}\" is not known; there are cross_entropy, nll, mse, l1, smooth_l1, huber, bce, "
      "bce_with_logits, kl_div, and output (the model computes the loss itself)",
      loss.kind));
}

}  // namespace xrt::autodiff
