// SPDX-License-Identifier: Apache-2.0
// Gradients of a graph, as further nodes of the graph.
//
//   ValueId loss = …;                                   // a scalar
//   std::vector<ValueId> g = xrt::gradients(graph, loss, {w1, w2});
//
// The rules are written in ops of the ONNX standard, so that every engine runs the result; the few
// gradients that the standard has no good form for are ops of the domain "xrt", which the native
// and XLA engines have (docs/reference/gradients.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// How an op is differentiated.
enum class GradientKind {
  kNone,      // there is no rule
  kRule,      // by a rule of its own
  kZero,      // its derivative is zero wherever it exists: rounding, comparisons, sizes, indices
  kExpanded,  // replaced by ops that have rules
};
XRT_API GradientKind gradient_kind(std::string_view domain, std::string_view op);

struct GradientOptions {
  // Values whose gradient is zero because nothing differentiable leads from them to the loss get
  // zeros; otherwise they are an error that names what is in the way.
  bool allow_unused = false;
  // The gradient of the loss; an absent one is 1. Needed where the loss is not a scalar.
  ValueId seed = {};
};

// Adds d(loss)/d(value) for every value of `wrt` and returns them in that order; each has the type
// of its value. Nodes that are only defined by a function body may be replaced by that body. Types
// of the graph are inferred before and after.
// Throws kInvalidArgument: the loss has more than one element, or a value of `wrt` is of no
// floating-point type or does not lead to the loss; kUnsupported, naming node and op: a node on the
// way has no gradient.
XRT_API std::vector<ValueId> gradients(Graph& graph, ValueId loss, std::span<const ValueId> wrt,
                                       const GradientOptions& options = {});

// Loss functions mean what PyTorch's of that name mean.
struct LossOptions {
  // cross_entropy, nll, mse, l1, smooth_l1, huber, bce, bce_with_logits, kl_div; or output: the
  // model's first output is the loss.
  std::string kind = "cross_entropy";
  std::string reduction = "mean";    // mean, sum; kl_div also batchmean
  double label_smoothing = 0;        // cross_entropy
  std::int64_t ignore_index = -100;  // cross_entropy, nll: targets that do not count
  bool class_probabilities = false;  // cross_entropy: targets are probabilities, not class numbers
  double delta = 1;                  // huber's delta, smooth_l1's beta
};

// Optimizers compute what torch.optim's of that name compute; lamb follows You et al., 2020
// (arXiv:1904.00962), with bias correction.
struct OptimizerOptions {
  std::string name = "sgd";  // sgd, adagrad, rmsprop, adam, adamw, lamb
  double learning_rate = 0.01;
  double weight_decay = 0;  // added to the gradient; adamw and lamb: decoupled
  // sgd, rmsprop
  double momentum = 0;
  double dampening = 0;   // sgd
  bool nesterov = false;  // sgd
  // rmsprop
  double alpha = 0.99;
  bool centered = false;
  // adam, adamw, lamb
  double beta1 = 0.9;
  double beta2 = 0.999;
  bool amsgrad = false;  // adam, adamw
  // adagrad
  double learning_rate_decay = 0;
  double initial_accumulator = 0;
  // Added to the divisor; negative: 1e-8 (rmsprop too), adagrad 1e-10, lamb 1e-6.
  double epsilon = -1;
  // Gradients are first cut to [-clip_value, clip_value], then scaled so that the norm of all
  // together is at most clip_norm; 0: not.
  double clip_value = 0;
  double clip_norm = 0;
};

// Memory for time: values of the forward pass that are computed again when the backward pass wants
// them. Gradients are the same.
struct RecomputeOptions {
  // "none"; "cheap": elementwise ops and normalisations between convolutions and products;
  // "segments": everything but what leads from one of `segments` parts of the network to the next.
  std::string kind = "none";
  std::int64_t segments = 0;
};

}  // namespace xrt
