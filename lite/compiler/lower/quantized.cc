// SPDX-License-Identifier: Apache-2.0
// Q/DQ models: DequantizeLinear → Conv, Gemm or MatMul → (Add of a dequantised value) → (Relu or
// Clip) → QuantizeLinear is one integer kernel.
#include <algorithm>
#include <cmath>

#include "ir/pattern.h"
#include "lower/lower.h"

namespace xrt::lite {

std::optional<Lowering::QuantizedSum> Lowering::match_quantized(NodeId id) const {
  const Node& node = graph_.node(id);
  auto sum = quantised_sum(graph_, node);
  if (!sum) return std::nullopt;
  const SumChain chain = chain_behind(graph_, node);
  const auto to = quantised_to(graph_, chain.end);
  if (!to || graph_.uses(chain.end).size() != 1) return std::nullopt;
  QuantizedSum m{id, {}, std::move(*sum), {}, *to, {}};
  if (chain.residual.valid()) {
    m.residual = dequantised_from(graph_, chain.residual);
    if (!m.residual) return std::nullopt;
  } else if (chain.bias.valid()) {
    const auto terms =
        channel_terms(graph_, chain.bias, static_cast<std::int64_t>(m.sum.bias.size()));
    if (!terms) return std::nullopt;
    std::transform(terms->begin(), terms->end(), m.sum.bias.begin(), m.sum.bias.begin(),
                   std::plus<>());
  }
  if (const Node* last = chain.activation) {
    m.epilogue.clip = true;
    if (last->op == "Relu") m.epilogue.lo = 0;
    for (std::size_t i = 1; i < last->inputs.size(); ++i) {
      const auto bound = scalar_constant(graph_, last->input(i));
      if (bound) (i == 1 ? m.epilogue.lo : m.epilogue.hi) = *bound / to->scale;
    }
  }
  m.absorbed.push_back(id);
  for (const Node* taken : {chain.add, chain.activation}) {
    if (taken != nullptr) m.absorbed.push_back(producer_id(graph_, taken->output(0)));
  }
  return m;
}

void Lowering::find_quantized() {
  for (const NodeId id : graph_.nodes()) {
    std::optional<QuantizedSum> m = match_quantized(id);
    if (!m) continue;
    absorbed_.insert(m->absorbed.begin(), m->absorbed.end());
    const ValueId result = m->to.q;
    sums_.emplace(result, std::move(*m));
  }
}

void Lowering::quantized_sum(const Node& node, const QuantizedSum& m) {
  const Node& sum = graph_.node(m.node);
  const Grid& from = m.sum.from;
  const Tensor& weights = m.sum.weights.bytes;
  const int x = value(from.q), y = output(node);
  const int residual = m.residual ? value(m.residual->q) : -1;
  Quantized q;
  q.on = true;
  q.x_scale = from.scale, q.x_zero = from.zero;
  q.y_scale = m.to.scale, q.y_zero = m.to.zero;
  if (m.residual) q.r_scale = m.residual->scale, q.r_zero = m.residual->zero;
  q.w_scales = m.sum.weights.scales;
  const std::vector<double>& terms = m.sum.bias;
  Tensor bias;  // in steps of the sum: those of x times those of the weights
  if (std::any_of(terms.begin(), terms.end(), [](double term) { return term != 0; })) {
    bias = Tensor::allocate(DType::kInt32, {static_cast<std::int64_t>(terms.size())});
    for (std::size_t c = 0; c < terms.size(); ++c) {
      const double step = double{from.scale} * q.w_scales[c];
      const double steps = step != 0 ? std::nearbyint(terms[c] / step) : 0;
      bias.data<std::int32_t>()[c] =
          static_cast<std::int32_t>(std::clamp(steps, -2147483000.0, 2147483000.0));
    }
  }
  if (sum.op == "Conv") {
    LConv c = conv_shape(sum, dims(x), weights.dims());
    c.x = x, c.residual = residual, c.weights = weights, c.bias = bias;
    c.epilogue = m.epilogue, c.q = std::move(q);
    return add(node, std::move(c), y);
  }
  LGemm g;
  g.a = x, g.residual = residual, g.transpose_b = m.sum.axis == 0, g.bias = bias;
  g.b = out_.add_value(sum.name + "/weights", DType::kInt8, weights.dims());
  out_.values.back().constant = weights;
  g.epilogue = m.epilogue, g.q = std::move(q);
  add(node, std::move(g), y);
}

}  // namespace xrt::lite
