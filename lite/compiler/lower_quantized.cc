// SPDX-License-Identifier: Apache-2.0
// Q/DQ models: DequantizeLinear → Conv, Gemm or MatMul → (Add of a dequantised value) → (Relu or
// Clip) → QuantizeLinear is one integer kernel.
#include <algorithm>
#include <cmath>

#include "ir/attributes.h"
#include "lower.h"

namespace xrt::lite {

struct Lowering::QuantizedSum {
  const Node* sum = nullptr;
  std::vector<const Node*> absorbed;
  ValueId x, residual;
  Tensor weights, w_scale, bias, extra_bias;  // bias: int32, or float32
  Epilogue epilogue;                          // in real units
  Quantized q;
  std::int64_t w_axis = 0;
};

const Node* Lowering::producer(ValueId id) const {
  if (!id.valid() || graph_.value(id).origin != Origin::kNode) return nullptr;
  return &graph_.node(graph_.value(id).producer);
}

const Node* Lowering::only_reader_of(ValueId id) const {
  const Node* node = producer(id);
  return node != nullptr && graph_.uses(id).size() == 1 && !graph_.is_output(id) ? node : nullptr;
}

namespace {

bool is_eight_bit(DType d) { return d == DType::kUInt8 || d == DType::kInt8; }

std::optional<float> scalar(const Tensor* t) {
  if (t == nullptr || t->count() != 1 || t->dtype() != DType::kFloat32) return std::nullopt;
  return t->data<float>()[0];
}

// A bias counted in the steps of the sum: input scale times weight scale, of each channel. Any
// other is taken as the numbers that it stands for.
bool in_steps(const Tensor& scale, const Tensor* zero, float x_scale, const Tensor& w_scale) {
  if (scale.count() != 1 && w_scale.count() != 1 && scale.count() != w_scale.count()) return false;
  for (std::int64_t c = 0; c < std::max(scale.count(), w_scale.count()); ++c) {
    const double step = double{x_scale} * w_scale.data<float>()[w_scale.count() == 1 ? 0 : c];
    const double given = scale.data<float>()[scale.count() == 1 ? 0 : c];
    if (std::abs(given - step) > 1e-5 * step) return false;
  }
  if (zero == nullptr) return true;
  const std::vector<std::int64_t> zeros = zero->to_int64();
  return std::all_of(zeros.begin(), zeros.end(), [](std::int64_t z) { return z == 0; });
}

}  // namespace

std::optional<Tensor> Lowering::weights(const Node& node, std::size_t i) const {
  if (const Tensor* direct = constant(node, i)) return *direct;
  const Node* dq = producer(node.input(i));
  if (dq == nullptr || dq->op != "DequantizeLinear" || !dq->domain.empty()) return std::nullopt;
  const Tensor *v = constant(*dq, 0), *scale = constant(*dq, 1), *zero = constant(*dq, 2);
  if (v == nullptr || scale == nullptr || scale->dtype() != DType::kFloat32 ||
      (has_input(*dq, 2) && zero == nullptr) || dq->attr_int("block_size", 0) != 0) {
    return std::nullopt;
  }
  const std::vector<std::int64_t> raw = v->to_int64();
  const std::vector<std::int64_t> zeros = zero ? zero->to_int64() : std::vector<std::int64_t>{0};
  const std::int64_t axis = need_int(*dq, "axis");
  std::int64_t inner = 1;
  for (std::size_t d = static_cast<std::size_t>(axis) + 1; d < v->rank(); ++d)
    inner *= v->dims()[d];
  Tensor result = Tensor::allocate(DType::kFloat32, v->dims());
  for (std::int64_t k = 0; k < v->count(); ++k) {
    const std::int64_t c = scale->count() == 1 ? 0 : k / inner % scale->count();
    const std::int64_t z = zeros[static_cast<std::size_t>(zeros.size() == 1 ? 0 : c)];
    result.data<float>()[k] =
        static_cast<float>(raw[static_cast<std::size_t>(k)] - z) * scale->data<float>()[c];
  }
  return result;
}

std::optional<Lowering::QuantizedSum> Lowering::match_quantized(const Node& node) const {
  QuantizedSum m;
  const std::optional<float> y_scale = scalar(constant(node, 1));
  const Tensor* y_zero = constant(node, 2);
  if (!y_scale || (has_input(node, 2) && (y_zero == nullptr || y_zero->count() != 1)) ||
      !is_eight_bit(graph_.type(node.output(0)).dtype)) {
    return std::nullopt;
  }
  m.q.on = true;
  m.q.y_scale = *y_scale;
  m.q.y_zero = y_zero ? static_cast<int>(y_zero->to_int64()[0]) : 0;
  const Node* n = only_reader_of(node.input(0));
  const auto step = [&](ValueId next) {
    m.absorbed.push_back(n);
    n = only_reader_of(next);
  };
  const auto dequantized = [&](ValueId id) -> const Node* {
    const Node* dq = producer(id);
    if (dq == nullptr || dq->op != "DequantizeLinear" || !scalar(constant(*dq, 1)) ||
        !is_eight_bit(graph_.type(dq->input(0)).dtype) ||
        (has_input(*dq, 2) && constant(*dq, 2) == nullptr)) {
      return nullptr;
    }
    return dq;
  };
  const auto zero_of = [&](const Node& dq) {
    const Tensor* zero = constant(dq, 2);
    return zero ? static_cast<int>(zero->to_int64()[0]) : 0;
  };
  const auto is_sum = [](const Node* s) {
    return s != nullptr && s->domain.empty() &&
           (s->op == "Conv" || s->op == "Gemm" || s->op == "MatMul");
  };
  if (n != nullptr && (n->op == "Relu" || n->op == "Clip")) {
    m.epilogue.clip = true;
    if (n->op == "Relu") m.epilogue.lo = 0;
    for (std::size_t i = 1; n->op == "Clip" && i < 3; ++i) {
      if (!has_input(*n, i)) continue;
      const std::optional<float> bound = scalar(constant(*n, i));
      if (!bound) return std::nullopt;
      (i == 1 ? m.epilogue.lo : m.epilogue.hi) = *bound;
    }
    step(n->input(0));
  }
  if (n != nullptr && n->op == "Add") {
    for (std::size_t i = 0; i < 2; ++i) {
      const Node* sum = only_reader_of(n->input(i));
      if (!is_sum(sum)) continue;
      if (const Tensor* bias = constant(*n, 1 - i)) {
        if (sum->op != "MatMul" || bias->dtype() != DType::kFloat32 || bias->rank() != 1) continue;
        m.extra_bias = *bias;
      } else if (const Node* dq = dequantized(n->input(1 - i))) {
        if (graph_.type(n->input(0)) != graph_.type(n->input(1))) continue;
        m.residual = dq->input(0);
        m.q.r_scale = *scalar(constant(*dq, 1));
        m.q.r_zero = zero_of(*dq);
      } else {
        continue;
      }
      step(n->input(i));
      break;
    }
  }
  if (!is_sum(n)) return std::nullopt;
  m.sum = n;
  m.absorbed.push_back(n);
  const Node* x = dequantized(n->input(0));
  const Node* w = producer(n->input(1));
  if (x == nullptr || w == nullptr || w->op != "DequantizeLinear") return std::nullopt;
  m.x = x->input(0);
  m.q.x_scale = *scalar(constant(*x, 1));
  m.q.x_zero = zero_of(*x);
  const Tensor *values = constant(*w, 0), *scale = constant(*w, 1), *zero = constant(*w, 2);
  if (values == nullptr || values->dtype() != DType::kInt8 || scale == nullptr ||
      scale->dtype() != DType::kFloat32 || (has_input(*w, 2) && zero == nullptr)) {
    return std::nullopt;
  }
  if (zero != nullptr) {
    for (const std::int64_t z : zero->to_int64()) {
      if (z != 0) return std::nullopt;
    }
  }
  m.weights = *values;
  m.w_scale = *scale;
  m.w_axis = need_int(*w, "axis");
  const bool by_row = n->op == "Conv" || (n->op == "Gemm" && n->attr_int("transB", 0) != 0);
  if (scale->count() > 1 && m.w_axis != (by_row ? 0 : 1)) return std::nullopt;
  if (n->op != "Conv" && values->rank() != 2) return std::nullopt;
  const std::int64_t channels = values->dims()[by_row ? 0 : 1];
  if (scale->count() != 1 && scale->count() != channels) return std::nullopt;
  if (n->op == "Gemm" && (n->attr_int("transA", 0) != 0 || n->attr_float("alpha", 1) != 1 ||
                          n->attr_float("beta", 1) != 1)) {
    return std::nullopt;
  }
  if (has_input(*n, 2)) {
    const std::optional<Tensor> bias = weights(*n, 2);
    if (!bias) return std::nullopt;
    const Node* dq = producer(n->input(2));
    const bool whole = dq != nullptr && constant(*dq, 0)->dtype() == DType::kInt32 &&
                       in_steps(*constant(*dq, 1), constant(*dq, 2), m.q.x_scale, m.w_scale);
    m.bias = whole ? *constant(*dq, 0) : *bias;
  }
  for (const Tensor* t : {&m.bias, &m.extra_bias}) {
    if (t->defined() && t->count() != 1 && t->count() != channels) return std::nullopt;
  }
  return m;
}

void Lowering::find_quantized() {
  for (const NodeId id : graph_.nodes()) {
    const Node& node = graph_.node(id);
    if (node.op != "QuantizeLinear" || !node.domain.empty()) continue;
    if (const std::optional<QuantizedSum> m = match_quantized(node)) {
      for (const Node* n : m->absorbed) absorbed_.insert(graph_.value(n->outputs[0]).producer);
    }
  }
}

bool Lowering::quantized_sum(const Node& node) {
  std::optional<QuantizedSum> m = match_quantized(node);
  if (!m) return false;
  const Node& sum = *m->sum;
  const int x = value(m->x), y = output(node);
  const int residual = m->residual.valid() ? value(m->residual) : -1;
  const bool by_row = sum.op == "Conv" || (sum.op == "Gemm" && sum.attr_int("transB", 0) != 0);
  const std::int64_t channels = by_row ? m->weights.dims()[0] : m->weights.dims()[1];
  m->q.w_scales.resize(static_cast<std::size_t>(channels));
  Tensor bias;
  if (m->bias.defined() || m->extra_bias.defined()) {
    bias = Tensor::allocate(DType::kInt32, {channels});
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    const float w = m->w_scale.data<float>()[m->w_scale.count() == 1 ? 0 : c];
    m->q.w_scales[static_cast<std::size_t>(c)] = w;
    if (!bias.defined()) continue;
    double total = 0;
    const double unit = double{m->q.x_scale} * w;
    for (const Tensor* t : {&m->bias, &m->extra_bias}) {
      if (!t->defined()) continue;
      const std::int64_t k = t->count() == 1 ? 0 : c;
      total +=
          t->dtype() == DType::kInt32 ? t->data<std::int32_t>()[k] : t->data<float>()[k] / unit;
    }
    bias.data<std::int32_t>()[c] =
        static_cast<std::int32_t>(std::clamp(std::nearbyint(total), -2147483000.0, 2147483000.0));
  }
  if (m->epilogue.clip) {
    m->epilogue.lo /= m->q.y_scale;
    m->epilogue.hi /= m->q.y_scale;
  }
  if (sum.op == "Conv") {
    LConv c = conv_shape(sum, dims(x), m->weights.dims());
    c.x = x, c.residual = residual, c.weights = m->weights, c.bias = bias;
    c.epilogue = m->epilogue, c.q = m->q;
    add(node, std::move(c), y);
    return true;
  }
  LGemm g;
  g.a = x, g.residual = residual, g.transpose_b = by_row, g.bias = bias;
  g.b = out_.add_value(sum.name + "/weights", DType::kInt8, m->weights.dims());
  out_.values.back().constant = m->weights;
  g.epilogue = m->epilogue, g.q = m->q;
  add(node, std::move(g), y);
  return true;
}

}  // namespace xrt::lite
