// SPDX-License-Identifier: Apache-2.0
// What fusion finds behind a sum of products, and its translation to the steps of the result.
#pragma once

#include <optional>
#include <vector>

#include "engines/native/dnn/post_ops.h"
#include "ops/quantized.h"

namespace xrt::native::dnn {

// What follows a sum of products, in the units of the model.
struct Chain {
  ValueId result;
  std::vector<double> bias;  // per channel
  std::vector<PostOp> ops;
  std::optional<Grid> residual;  // of the op "Sum"
  std::optional<Grid> to;        // absent: the result is float32
};

// Takes what follows chain.result; `channel_rank` is 0 where channels are the last axis. Without
// `bytes` the result stays float32, whatever it is quantised to. Of a chain without a bias `ops`
// may hold any op of one input, under its own name.
Chain follow(const Graph& graph, Chain chain, std::size_t channel_rank, bool bytes = true);

// Translates post-ops from the units of the model to steps of a grid.
class Steps {
 public:
  // `chain` is kept by reference.
  explicit Steps(const Chain& chain);

  // Scale and zero point that the sum itself is made in.
  double scale() const { return scale_; }
  double zero() const { return zero_; }

  // `offset`: what the bias takes over from the post-ops, in steps.
  std::vector<PostOp> translate(double* offset);

 private:
  void enter_steps();
  void add(const PostOp& op);
  bool is_saturation(const PostOp& op) const;

  const Chain& chain_;
  std::size_t first_ = 0;  // from this post-op on the unit is the step
  double scale_ = 1;
  double zero_ = 0;
  std::vector<PostOp> ops_;
};

}  // namespace xrt::native::dnn
