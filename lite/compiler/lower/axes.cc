// SPDX-License-Identifier: Apache-2.0
// Ops along axes; LSTM, unrolled into products and pointwise ops.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/attributes.h"
#include "lir/ew_builder.h"
#include "lower/lower.h"

namespace xrt::lite {
void Lowering::reduce(const Node& node) {
  static const std::map<std::string, xrt_reduce_kind, std::less<>> kinds = {
      {"ReduceSum", XRT_REDUCE_SUM},   {"ReduceMean", XRT_REDUCE_MEAN},
      {"ReduceMax", XRT_REDUCE_MAX},   {"ReduceMin", XRT_REDUCE_MIN},
      {"ReduceProd", XRT_REDUCE_PROD}, {"ReduceL1", XRT_REDUCE_L1},
      {"ReduceL2", XRT_REDUCE_L2},     {"ReduceSumSquare", XRT_REDUCE_SUM_SQUARE}};
  LReduce r;
  r.x = input(node, 0);
  if (dtype(r.x) != DType::kFloat32) refuse(node, "float32 only");
  r.kind = kinds.at(node.op);
  r.keep_dims = need_int(node, "keepdims") != 0;
  const std::size_t rank = dims(r.x).size();
  if (has_input(node, 1)) {
    for (const std::int64_t a : int_constant(node, 1)) r.axes.push_back(static_cast<int>(a));
  }
  const int y = output(node);
  if (r.axes.empty()) {
    if (need_int(node, "noop_with_empty_axes") != 0) return reduce_elements(node, r.kind);
    r.axes.resize(rank);
    std::iota(r.axes.begin(), r.axes.end(), 0);
  }
  std::sort(r.axes.begin(), r.axes.end());
  add(node, std::move(r), y);
}

// Over no axes: each element by itself, and what the op does to one before it adds them up remains.
void Lowering::reduce_elements(const Node& node, xrt_reduce_kind kind) {
  if (kind != XRT_REDUCE_L1 && kind != XRT_REDUCE_L2 && kind != XRT_REDUCE_SUM_SQUARE) {
    return reshape(node);
  }
  EwBuilder b(out_, false);
  const int x = b.in(input(node, 0));
  if (kind == XRT_REDUCE_SUM_SQUARE) {
    b.op(XRT_EW_MUL, x, x);
  } else {
    b.op(XRT_EW_ABS, x);
  }
  add(node, b.take(), output(node));
}

void Lowering::softmax(const Node& node) {
  LSoftmax s;
  s.x = input(node, 0);
  if (dtype(s.x) != DType::kFloat32) refuse(node, "float32 only");
  s.axis = static_cast<int>(need_int(node, "axis"));
  s.log = node.op == "LogSoftmax";
  add(node, s, output(node));
}

void Lowering::layer_norm(const Node& node) {
  LNorm n;
  n.x = input(node, 0);
  n.axis = static_cast<int>(need_int(node, "axis"));
  n.epsilon = need_float(node, "epsilon");
  const Tensor* scale = constant(node, 1);
  const Tensor* bias = constant(node, 2);
  std::int64_t size = 1;
  for (std::size_t d = static_cast<std::size_t>(n.axis); d < dims(n.x).size(); ++d)
    size *= dims(n.x)[d];
  if (dtype(n.x) != DType::kFloat32 || scale == nullptr || scale->count() != size ||
      (has_input(node, 2) && (bias == nullptr || bias->count() != size))) {
    refuse(node, "float32 with constant scale and bias of the normalised size only");
  }
  n.scale = scale->reshaped({size});
  if (bias != nullptr) n.bias = bias->reshaped({size});
  add(node, std::move(n), output(node));
}

void Lowering::arg(const Node& node) {
  LArg a;
  a.x = input(node, 0);
  a.axis = static_cast<int>(need_int(node, "axis"));
  a.minimum = node.op == "ArgMin";
  if (dtype(a.x) != DType::kFloat32 || need_int(node, "select_last_index") != 0) {
    refuse(node, "float32, first index only");
  }
  add(node, a, output(node));
}

// Gates in ONNX's order: input, output, forget, cell.
void Lowering::lstm(const Node& node) {
  const int x = input(node, 0);
  const Tensor *w = constant(node, 1), *r = constant(node, 2), *b = constant(node, 3);
  const std::int64_t length = dims(x)[0], batch = dims(x)[1], features = dims(x)[2];
  if (need_string(node, "direction") != "forward" || w == nullptr || r == nullptr ||
      (has_input(node, 3) && b == nullptr) || has_input(node, 4) || has_input(node, 7) ||
      need_int(node, "layout") != 0 || node.has("clip") || node.has("activations") ||
      need_int(node, "input_forget") != 0 || length > 64) {
    refuse(node, "forward, constant weights, no peepholes, at most 64 steps");
  }
  const std::int64_t hidden = r->dims()[2], gates = 4 * hidden;
  Tensor bias;
  if (b != nullptr) {
    bias = Tensor::allocate(DType::kFloat32, {gates});
    for (std::int64_t i = 0; i < gates; ++i) {
      bias.data<float>()[i] = b->data<float>()[i] + b->data<float>()[gates + i];
    }
  }
  const auto temporary = [&](const std::string& what, Dims shape) {
    return out_.add_value(node.name + "/" + what, DType::kFloat32, std::move(shape));
  };
  const auto constant_value = [&](const std::string& what, const Tensor& t) {
    const int v = temporary(what, t.dims());
    out_.values.back().constant = t;
    return v;
  };
  const auto view = [&](int from, Dims shape, const std::string& what) {
    const int v = temporary(what, std::move(shape));
    LView op;
    op.x = from;
    add(node, op, v);
    return v;
  };
  const auto piece = [&](int from, std::int64_t axis, std::int64_t at, std::int64_t size,
                         const std::string& what) {
    Dims shape = dims(from);
    shape[static_cast<std::size_t>(axis)] = size;
    const int v = temporary(what, shape);
    CopyPiece p;
    p.x = from;
    p.x_start.assign(shape.size(), 0);
    p.x_start[static_cast<std::size_t>(axis)] = at;
    p.x_step.assign(shape.size(), 1);
    p.y_start.assign(shape.size(), 0);
    p.size = shape;
    LCopy c;
    c.pieces.push_back(p);
    add(node, std::move(c), v);
    return v;
  };
  const int wv = constant_value("w", w->reshaped({gates, features}));
  const int rv = constant_value("r", r->reshaped({gates, hidden}));
  // All steps' products with the input at once.
  LGemm g;
  g.a = view(x, {length * batch, features}, "x");
  g.b = wv, g.transpose_b = true, g.bias = bias;
  const int projected = temporary("projected", {length * batch, gates});
  add(node, g, projected);
  const auto state = [&](std::size_t i, const char* what) {
    if (has_input(node, i)) return view(input(node, i), {batch, hidden}, what);
    Tensor zero = Tensor::allocate(DType::kFloat32, {batch, hidden});
    std::fill_n(zero.data<float>(), zero.count(), 0.0F);
    return constant_value(what, zero);
  };
  int h = state(5, "h"), c = state(6, "c");
  std::vector<int> all;
  for (std::int64_t t = 0; t < length; ++t) {
    LGemm step;
    step.a = h, step.b = rv, step.transpose_b = true;
    step.residual = length == 1 ? projected : piece(projected, 0, t * batch, batch, "step");
    const int sum = temporary("sum", {batch, gates});
    add(node, step, sum);
    int gate[4];
    for (int i = 0; i < 4; ++i) gate[i] = piece(sum, 1, i * hidden, hidden, "gate");
    EwBuilder cell(out_, false);
    const int forget = cell.op(XRT_EW_SIGMOID, cell.in(gate[2]));
    const int fresh = cell.op(XRT_EW_MUL, cell.op(XRT_EW_SIGMOID, cell.in(gate[0])),
                              cell.op(XRT_EW_TANH, cell.in(gate[3])));
    cell.op(XRT_EW_ADD, cell.op(XRT_EW_MUL, forget, cell.in(c)), fresh);
    c = temporary("c", {batch, hidden});
    add(node, cell.take(), c);
    EwBuilder out(out_, false);
    const int o = out.op(XRT_EW_SIGMOID, out.in(gate[1]));
    out.op(XRT_EW_MUL, o, out.op(XRT_EW_TANH, out.in(c)));
    h = temporary("h", {batch, hidden});
    add(node, out.take(), h);
    all.push_back(h);
  }
  const auto finish = [&](std::size_t i, int from) {
    if (!node.output(i).valid()) return;
    LView v;
    v.x = from;
    add(node, v, value(node.output(i)));
  };
  if (node.output(0).valid()) {
    const int y = value(node.output(0));
    LCopy join;
    for (std::size_t t = 0; t < all.size(); ++t) {
      CopyPiece p;
      p.x = view(all[t], {1, 1, batch, hidden}, "y");
      p.x_start = p.y_start = {0, 0, 0, 0};
      p.y_start[0] = static_cast<std::int64_t>(t);
      p.x_step = {1, 1, 1, 1};
      p.size = {1, 1, batch, hidden};
      join.pieces.push_back(p);
    }
    add(node, std::move(join), y);
  }
  finish(1, h);
  finish(2, c);
}

}  // namespace xrt::lite
