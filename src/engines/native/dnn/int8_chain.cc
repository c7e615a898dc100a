// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/int8_chain.h"

#include <algorithm>
#include <limits>

namespace xrt::native::dnn {
namespace {

bool is_linear(const PostOp& op) {
  return op.op == "Sum" || op.op == "Linear" || op.op == "Relu" || op.op == "Clip";
}

float clamped(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kMost, kMost));
}

}  // namespace

Steps::Steps(const Chain& chain) : chain_(chain) {
  if (!chain.to) {
    first_ = chain.ops.size();  // float32 all the way
    return;
  }
  for (std::size_t i = 0; i < chain.ops.size(); ++i) {
    if (!is_linear(chain.ops[i])) first_ = i + 1;
  }
  if (first_ == 0) scale_ = chain.to->scale, zero_ = chain.to->zero;
}

std::vector<PostOp> Steps::translate(double* offset) {
  *offset = 0;
  bool constants_move = true;  // what is added so far could as well be added to the bias
  for (std::size_t i = 0; i < chain_.ops.size(); ++i) {
    if (i == first_ && i > 0) enter_steps();
    const PostOp& op = chain_.ops[i];
    if (op.op == "Sum") {
      const double step = chain_.residual->scale / scale_;
      ops_.push_back({"Sum", static_cast<float>(step), op.beta, op.input});
      const double shift = -chain_.residual->zero * step;
      if (constants_move) {
        *offset += shift;
      } else if (shift != 0) {
        ops_.push_back({"Linear", 1, static_cast<float>(shift)});
      }
      continue;
    }
    constants_move = false;
    add(op);
  }
  if (first_ == chain_.ops.size() && first_ > 0 && chain_.to) enter_steps();
  while (!ops_.empty() && chain_.to && is_saturation(ops_.back())) ops_.pop_back();
  return std::move(ops_);
}

void Steps::enter_steps() {
  scale_ = chain_.to->scale;
  zero_ = chain_.to->zero;
  ops_.push_back({"Linear", static_cast<float>(1 / scale_), static_cast<float>(zero_)});
}

void Steps::add(const PostOp& op) {
  if (scale_ == 1 && zero_ == 0) {
    ops_.push_back(op);
  } else if (op.op == "Relu") {
    ops_.push_back({"Clip", static_cast<float>(zero_), std::numeric_limits<float>::max()});
  } else if (op.op == "Clip") {
    ops_.push_back({"Clip", clamped(op.alpha / scale_ + zero_), clamped(op.beta / scale_ + zero_)});
  } else {  // Linear
    ops_.push_back(
        {"Linear", op.alpha, static_cast<float>(op.beta / scale_ + zero_ - op.alpha * zero_)});
  }
}

// Cuts off nothing but what rounding and saturation cut off as well.
bool Steps::is_saturation(const PostOp& op) const {
  const Grid& to = *chain_.to;
  if (op.op == "Relu") return to.low() == 0;
  return op.op == "Clip" && op.alpha <= to.low() + 0.5F && op.beta > to.high() - 0.5F;
}

}  // namespace xrt::native::dnn
