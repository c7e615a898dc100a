// SPDX-License-Identifier: Apache-2.0
// Ops that compute each element by itself.
#include <cmath>
#include <limits>

#include "ir/attributes.h"
#include "lir/ew_builder.h"
#include "lir/ew_ops.h"
#include "lower/lower.h"

namespace xrt::lite {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_lite_type(DType d) {
  return d == DType::kFloat32 || d == DType::kInt32 || d == DType::kInt64 || d == DType::kBool ||
         d == DType::kFloat16 || is_byte(d);
}

}  // namespace

void Lowering::pointwise(const Node& node) {
  const std::string& op = node.op;
  std::vector<int> in;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    in.push_back(node.inputs[i].valid() ? input(node, i) : -1);
  }
  if (in.empty() || in[0] < 0) refuse(node, "lite has no kernel for this op");
  const int y = output(node);
  const bool select = op == "Where";
  const DType data = dtype(in[select ? 1 : 0]);
  for (const int v : in) {
    if (v >= 0 && !is_lite_type(dtype(v))) refuse(node, "lite does not compute in its types");
  }
  if (!is_lite_type(dtype(y))) refuse(node, "lite does not compute in its types");
  if (is_byte(dtype(y)) && op != "Relu" && op != "Clip" && op != "Max" && op != "Min" && !select) {
    refuse(node, "8-bit arithmetic is for quantised models (QuantizeLinear, DequantizeLinear)");
  }
  if (dims(y).size() > XRT_EW_MAX_RANK) refuse(node, "ranks to 6 only");
  const bool integer = !is_floating(data) && !(op == "Cast" && is_floating(dtype(y)));
  EwBuilder b(out_, integer);
  const auto x = [&](std::size_t i) { return b.in(in[i]); };
  const auto clip = [&](int v, double lo, double hi) {
    if (lo > -kInfinity) v = b.op(XRT_EW_MAX, v, b.k(lo));
    if (hi < kInfinity) v = b.op(XRT_EW_MIN, v, b.k(hi));
    return v;
  };
  int result = -1;
  if (op == "Sign" && integer) {  // the kernel's own is of floating point
    result = clip(x(0), -1, 1);
  } else if (const EwOp* row = ew_op_of(op); row != nullptr && row->form == EwOp::Form::kUnary) {
    result = b.op(row->op, x(0));
  } else if (row != nullptr) {
    if (row->form != EwOp::Form::kFold && in.size() != 2) refuse(node, "needs two inputs");
    result = x(0);
    for (std::size_t i = 1; i < in.size(); ++i) {
      const int other = x(i);
      const bool swap = row->form == EwOp::Form::kSwapped;
      result = swap ? b.op(row->op, other, result) : b.op(row->op, result, other);
    }
    if (op == "Pow") {  // exact and quick where the exponent is a small whole number
      const Tensor* e = constant(node, 1);
      if (integer) refuse(node, "float32 only");
      if (e != nullptr && e->count() == 1 && e->dtype() == DType::kFloat32) {
        const float exponent = e->data<float>()[0];
        EwBuilder p(out_, false);
        const int v = p.in(in[0]);
        int r = -1;
        if (exponent == 2) r = p.op(XRT_EW_MUL, v, v);
        if (exponent == 3) r = p.op(XRT_EW_MUL, p.op(XRT_EW_MUL, v, v), v);
        if (exponent == 0.5F) r = p.op(XRT_EW_SQRT, v);
        if (r >= 0) return add(node, p.take(), y);
      }
    }
  } else if (op == "Relu") {
    result = b.op(XRT_EW_MAX, x(0), b.k(0));
  } else if (op == "Clip") {
    double lo = -kInfinity, hi = kInfinity;
    for (std::size_t i = 1; i < in.size(); ++i) {
      if (in[i] < 0) continue;
      const Tensor* bound = constant(node, i);
      if (bound == nullptr) refuse(node, "its bounds are no constants");
      const double value = bound->dtype() == DType::kFloat32
                               ? bound->data<float>()[0]
                               : static_cast<double>(bound->to_int64()[0]);
      (i == 1 ? lo : hi) = value;
    }
    result = clip(x(0), lo, hi);
  } else if (select) {
    result = b.op(XRT_EW_SELECT, x(1), x(2), x(0));
  } else if (op == "Cast") {
    if (is_byte(dtype(y)) && data != DType::kBool) refuse(node, "casts to 8 bits");
    result = x(0);
    if (!integer && !is_floating(dtype(y)) && dtype(y) != DType::kBool) {
      result = b.op(XRT_EW_TRUNC, result);
    }
  } else if (op == "Reciprocal") {
    result = b.op(XRT_EW_DIV, b.k(1), x(0));
  } else if (op == "HardSigmoid" || op == "HardSwish") {
    const bool swish = op == "HardSwish";
    const double alpha = swish ? 1.0 / 6 : need_float(node, "alpha");
    const double beta = swish ? 0.5 : need_float(node, "beta");
    result = clip(b.op(XRT_EW_ADD, b.op(XRT_EW_MUL, x(0), b.k(alpha)), b.k(beta)), 0, 1);
    if (swish) result = b.op(XRT_EW_MUL, x(0), result);
  } else if (op == "Swish") {
    const int v = b.op(XRT_EW_MUL, x(0), b.k(need_float(node, "alpha")));
    result = b.op(XRT_EW_MUL, x(0), b.op(XRT_EW_SIGMOID, v));
  } else if (op == "LeakyRelu" || op == "PRelu") {
    const int slope = op == "PRelu" ? x(1) : b.k(need_float(node, "alpha"));
    const int low = b.op(XRT_EW_MUL, b.op(XRT_EW_MIN, x(0), b.k(0)), slope);
    result = b.op(XRT_EW_ADD, b.op(XRT_EW_MAX, x(0), b.k(0)), low);
  } else if (op == "Elu") {
    const int e = b.op(XRT_EW_SUB, b.op(XRT_EW_EXP, b.op(XRT_EW_MIN, x(0), b.k(0))), b.k(1));
    result = b.op(XRT_EW_ADD, b.op(XRT_EW_MAX, x(0), b.k(0)),
                  b.op(XRT_EW_MUL, e, b.k(need_float(node, "alpha"))));
  } else if (op == "Softplus") {  // max(x, 0) + log(1 + exp(-|x|))
    const int e = b.op(XRT_EW_EXP, b.op(XRT_EW_NEG, b.op(XRT_EW_ABS, x(0))));
    result = b.op(XRT_EW_ADD, b.op(XRT_EW_MAX, x(0), b.k(0)),
                  b.op(XRT_EW_LOG, b.op(XRT_EW_ADD, e, b.k(1))));
  } else if (op == "Softsign") {
    result = b.op(XRT_EW_DIV, x(0), b.op(XRT_EW_ADD, b.op(XRT_EW_ABS, x(0)), b.k(1)));
  } else if (op == "Gelu") {
    const int half = b.op(XRT_EW_MUL, x(0), b.k(0.5));
    int inner = -1;
    if (need_string(node, "approximate") == "tanh") {
      const int cube = b.op(XRT_EW_MUL, b.op(XRT_EW_MUL, x(0), x(0)), x(0));
      const int sum = b.op(XRT_EW_ADD, x(0), b.op(XRT_EW_MUL, cube, b.k(0.044715)));
      inner = b.op(XRT_EW_TANH, b.op(XRT_EW_MUL, sum, b.k(std::sqrt(2 / M_PI))));
    } else {
      inner = b.op(XRT_EW_ERF, b.op(XRT_EW_MUL, x(0), b.k(std::sqrt(0.5))));
    }
    result = b.op(XRT_EW_MUL, half, b.op(XRT_EW_ADD, inner, b.k(1)));
  } else {
    refuse(node, "lite has no kernel for this op");
  }
  LEw ew = b.take();
  if (ew.nodes.size() != static_cast<std::size_t>(result) + 1)
    ew.nodes.resize(static_cast<std::size_t>(result) + 1);
  if (ew.inputs.size() > XRT_EW_MAX_INPUTS) refuse(node, "more than 8 inputs");
  add(node, std::move(ew), y);
}

void Lowering::batch_norm(const Node& node) {
  const int x = input(node, 0), y = output(node);
  const Tensor* p[4] = {constant(node, 1), constant(node, 2), constant(node, 3), constant(node, 4)};
  const float epsilon = need_float(node, "epsilon");
  for (const Tensor* t : p) {
    if (t == nullptr || t->dtype() != DType::kFloat32)
      refuse(node, "its parameters are no constants");
  }
  Dims shape(dims(x).size() - 1, 1);
  shape[0] = p[0]->count();
  Tensor factor = Tensor::allocate(DType::kFloat32, shape);
  Tensor shift = Tensor::allocate(DType::kFloat32, shape);
  for (std::int64_t c = 0; c < factor.count(); ++c) {
    const double f = p[0]->data<float>()[c] / std::sqrt(double{p[3]->data<float>()[c]} + epsilon);
    factor.data<float>()[c] = static_cast<float>(f);
    shift.data<float>()[c] =
        static_cast<float>(p[1]->data<float>()[c] - f * p[2]->data<float>()[c]);
  }
  const auto make = [&](const char* name, const Tensor& t) {
    const int v = out_.add_value(node.name + name, DType::kFloat32, shape);
    out_.values.back().constant = t;
    return v;
  };
  const int f = make("/factor", factor), s = make("/shift", shift);
  EwBuilder mul(out_, false);
  const int middle = out_.add_value(node.name + "/scaled", DType::kFloat32, dims(x));
  mul.op(XRT_EW_MUL, mul.in(x), mul.in(f));
  add(node, mul.take(), middle);
  EwBuilder sum(out_, false);
  sum.op(XRT_EW_ADD, sum.in(middle), sum.in(s));
  add(node, sum.take(), y);
}

// A scale or zero point, one or one per channel along the node's axis, as something that
// broadcasts.
int Lowering::quantization_parameter(const Node& node, const Tensor& t, std::size_t rank) {
  Dims shape;
  if (t.count() != 1) {
    shape.assign(rank - static_cast<std::size_t>(need_int(node, "axis")), 1);
    shape[0] = t.count();
  }
  const int v = out_.add_value(node.name + "/parameter", t.dtype(), shape);
  out_.values.back().constant = t.reshaped(shape);
  return v;
}

void Lowering::quantize(const Node& node) {
  if (const auto sum = sums_.find(node.output(0)); sum != sums_.end()) {
    return quantized_sum(node, sum->second);
  }
  const int x = input(node, 0), y = output(node);
  if (!is_byte(dtype(y)) || dtype(x) != DType::kFloat32 || need_int(node, "block_size") != 0) {
    refuse(node, "float32 to int8 or uint8 only");
  }
  const auto parameter = [&](std::size_t i, const char* what) {
    return quantization_parameter(node, numbers(node, i, what), dims(x).size());
  };
  EwBuilder b(out_, false);
  const int real = b.in(x);
  int v = b.op(XRT_EW_ROUND, b.op(XRT_EW_DIV, real, b.in(parameter(1, "scale"))));
  if (has_input(node, 2)) v = b.op(XRT_EW_ADD, v, b.in(parameter(2, "zero point")));
  add(node, b.take(), y);
}

void Lowering::dequantize(const Node& node) {
  const int x = input(node, 0), y = output(node);
  if ((!is_byte(dtype(x)) && dtype(x) != DType::kInt32) || need_int(node, "block_size") != 0) {
    refuse(node, "int8, uint8 and int32 to float32 only");
  }
  const auto parameter = [&](std::size_t i, const char* what) {
    return quantization_parameter(node, numbers(node, i, what), dims(x).size());
  };
  EwBuilder b(out_, false);
  int v = b.in(x);
  if (has_input(node, 2)) v = b.op(XRT_EW_SUB, v, b.in(parameter(2, "zero point")));
  b.op(XRT_EW_MUL, v, b.in(parameter(1, "scale")));
  add(node, b.take(), y);
}

}  // namespace xrt::lite
