// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/int8/chain.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/pattern.h"

namespace xrt::native::dnn {
namespace {

constexpr std::size_t kMaximumPostOps = 8;

bool is_linear(const PostOp& op) {
  return op.op == "Sum" || op.op == "Linear" || op.op == "Relu" || op.op == "Clip";
}

float clamped(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kMost, kMost));
}

bool add_bias(const Graph& graph, Chain& chain, ValueId other, std::size_t channel_rank) {
  const Tensor* constant = graph.constant(other);
  const auto channels = static_cast<std::int64_t>(chain.bias.size());
  if (constant == nullptr || constant->dtype() != DType::kFloat32) return false;
  if (channel_rank != 0) {  // [channels, 1 …]
    const Dims dims = padded_dims(constant->dims(), channel_rank);
    if (dims.size() != channel_rank || dims[1] != constant->count()) return false;
  } else if (constant->rank() == 0 || constant->dims().back() != constant->count()) {
    return false;
  }
  if (constant->count() != channels) return false;
  for (std::int64_t c = 0; c < channels; ++c) chain.bias[c] += constant->data<float>()[c];
  return true;
}

// `before_sum`: what there was before the residual; null where none may be taken.
bool take_next(const Graph& graph, Chain& chain, std::size_t channel_rank,
               std::optional<Chain>* before_sum) {
  const auto use = sole_use(graph, chain.result);
  if (!use || chain.ops.size() >= kMaximumPostOps) return false;
  const Node& node = graph.node(use->node);
  if (!node.domain.empty() || node.outputs.size() != 1) return false;
  const Type& type = graph.type(chain.result);
  const ValueId out = node.outputs[0];
  if (!same_shape(type, graph.type(out)) || graph.type(out).dtype != DType::kFloat32) {
    return false;
  }
  std::size_t operand = 0;
  if (auto op = unary_post_op(graph, node, &operand)) {
    if (node.inputs[operand] != chain.result) return false;
    chain.ops.push_back(std::move(*op));
    chain.result = out;
    return true;
  }
  // What a table of bytes can do; behind a product it is the library's to say.
  if (chain.bias.empty() && node.inputs.size() == 1 && node.attributes.empty()) {
    chain.ops.push_back({node.op});
    chain.result = out;
    return true;
  }
  if (node.op != "Add") return false;
  const ValueId other = other_input(node, chain.result);
  if (other == chain.result) return false;
  if (chain.ops.empty() && !chain.bias.empty() && add_bias(graph, chain, other, channel_rank)) {
    chain.result = out;
    return true;
  }
  if (before_sum == nullptr) return false;
  const auto residual = dequantised_from(graph, other);
  if (!residual || chain.residual || chain.bias.empty() || !same_shape(type, graph.type(other))) {
    return false;
  }
  *before_sum = chain;
  chain.residual = residual;
  chain.ops.push_back({"Sum", 1, static_cast<float>(residual->dtype), 3});
  chain.result = out;
  return true;
}

}  // namespace

Chain follow(const Graph& graph, Chain chain, std::size_t channel_rank, bool bytes) {
  std::optional<Chain> before_sum;
  for (;;) {
    if (bytes) chain.to = quantised_to(graph, chain.result);
    if (chain.to || !take_next(graph, chain, channel_rank, bytes ? &before_sum : nullptr)) break;
  }
  // The residual's bytes lie where the result is written: that one has to be of bytes, too.
  if (!chain.to && before_sum) return *before_sum;
  return chain;
}

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
