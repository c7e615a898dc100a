// SPDX-License-Identifier: Apache-2.0
// Pooling and its gradients.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontends/oneflow/lowering.h"
#include "frontends/oneflow/ops/axis_matrices.h"

namespace xrt::oneflow {
namespace {

using Sizes = std::vector<std::int64_t>;

struct Window {
  Sizes kernel, strides, pads, dilations;
  bool ceil = false;
};

Window window_of(const Lowering& l, std::int64_t spatial) {
  if (l.text("data_format", "channels_first") != "channels_first") {
    l.unsupported("only channels_first is known");
  }
  Window w{l.sizes("kernel_size"), l.sizes("stride"), l.sizes("padding"), {}, l.flag("ceil_mode")};
  if (spatial < 0) l.invalid("a tensor with batch and channels is wanted");
  w.dilations = l.has_attribute("dilation") ? l.sizes("dilation")
                                            : Sizes(static_cast<std::size_t>(spatial), 1);
  for (const Sizes* sizes : {&w.kernel, &w.strides, &w.pads, &w.dilations}) {
    if (static_cast<std::int64_t>(sizes->size()) != spatial) {
      l.invalid(
          "kernel_size, stride, padding or dilation has another length than the tensor has "
          "spatial dimensions");
    }
    for (const std::int64_t size : *sizes) {
      if (size < (sizes == &w.pads ? 0 : 1)) l.invalid("a size of the window is not positive");
    }
  }
  return w;
}

Attributes attributes_of(const Window& w) {
  Sizes both = w.pads;
  both.insert(both.end(), w.pads.begin(), w.pads.end());
  return {{"kernel_shape", w.kernel},
          {"strides", w.strides},
          {"pads", std::move(both)},
          {"dilations", w.dilations},
          {"ceil_mode", static_cast<std::int64_t>(w.ceil)}};
}

// Product of the dimensions after batch and channel.
std::int64_t plane(const Dims& dims) {
  return std::accumulate(dims.begin() + 2, dims.end(), std::int64_t{1}, std::multiplies<>());
}

// y, indice: where in its channel's plane each largest element lies.
void max_pool(Lowering& l) {
  const Window w = window_of(l, l.rank() - 2);
  if (!l.wanted(1)) {
    return l.result(0, l.op("MaxPool", {l.in()}, attributes_of(w)));
  }
  const auto outputs = l.ops("MaxPool", {l.in()}, 2, attributes_of(w));
  l.result(0, outputs[0]);
  // ONNX counts through the whole tensor.
  const std::int64_t size = plane(l.dims());
  l.result(1, l.op("Mod", {outputs[1], l.scalar(size, DType::kInt64)}));
}

// dy goes to where the largest element was.
void to_largest(Lowering& l, std::size_t of, std::size_t index, std::size_t gradient) {
  const Dims x = l.dims(of, 2), dy = l.dims(gradient, 2);
  const Dims wide{x[0] * x[1], plane(x)}, flat{dy[0] * dy[1], plane(dy)};
  const ValueId zeros = l.op("Expand", {l.scalar(0, l.dtype(gradient)), l.ints(wide)});
  const ValueId summed = l.op(
      "ScatterElements", {zeros, l.reshape(l.in(index), flat), l.reshape(l.in(gradient), flat)},
      {{"axis", std::int64_t{1}}, {"reduction", std::string("add")}});
  l.result(0, l.reshape(summed, x));
}

// x, indice, dy
void max_pool_grad(Lowering& l) { to_largest(l, 0, 1, 2); }

// dy, x, index
void adaptive_max_pool_grad(Lowering& l) { to_largest(l, 1, 2, 0); }

// How often each element of one axis is read, per window: sizes[o] is the divisor's factor.
Sizes window_counts(const Window& w, std::size_t axis, std::int64_t in, std::int64_t out,
                    bool with_pads) {
  Sizes counts;
  for (std::int64_t o = 0; o < out; ++o) {
    std::int64_t begin = o * w.strides[axis] - w.pads[axis];
    std::int64_t end = std::min(begin + w.kernel[axis], in + w.pads[axis]);
    if (!with_pads) {
      begin = std::max<std::int64_t>(begin, 0);
      end = std::min(end, in);
    }
    counts.push_back(std::max<std::int64_t>(end - begin, 1));
  }
  return counts;
}

void avg_pool(Lowering& l) {
  const Window w = window_of(l, l.rank() - 2);
  Attributes attributes = attributes_of(w);
  const std::int64_t divisor = l.integer("divisor_override", 0);
  const bool with_pads = l.flag("count_include_pad") || divisor != 0;
  attributes["count_include_pad"] = static_cast<std::int64_t>(with_pads);
  ValueId y = l.op("AveragePool", {l.in()}, std::move(attributes));
  if (divisor != 0) {
    if (w.ceil) l.unsupported("divisor_override together with ceil_mode");
    const double size = std::accumulate(w.kernel.begin(), w.kernel.end(), 1.0, std::multiplies<>());
    y = l.mul(y, l.scalar(size / static_cast<double>(divisor), l.dtype()));
  }
  l.result(0, y);
}

// The matrix [out, in] that sums windows of one axis: 1 where window o reads element i.
Tensor window_matrix(const Lowering& l, const Window& w, std::size_t axis, std::int64_t in,
                     std::int64_t out, const Sizes& divisors) {
  Tensor matrix = zero_matrix(l, out, in);
  for (std::int64_t o = 0; o < out; ++o) {
    const std::int64_t begin = o * w.strides[axis] - w.pads[axis];
    const std::int64_t end = std::min(begin + w.kernel[axis], in);
    for (std::int64_t i = std::max<std::int64_t>(begin, 0); i < end; ++i) {
      matrix.data<float>()[o * in + i] =
          1.0F / static_cast<float>(divisors[static_cast<std::size_t>(o)]);
    }
  }
  return matrix;
}

// x, dy
void avg_pool_grad(Lowering& l) {
  const Dims x = l.dims(0), dy = l.dims(1);
  const Window w = window_of(l, l.rank() - 2);
  if (x.size() != dy.size()) l.invalid("x and dy have different ranks");
  const std::int64_t divisor = l.integer("divisor_override", 0);
  std::vector<Tensor> matrices;
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    l.table_size(dy[i + 2]);
    Sizes counts = window_counts(w, i, x[i + 2], dy[i + 2], l.flag("count_include_pad"));
    if (divisor != 0) counts.assign(counts.size(), i == 0 ? divisor : 1);
    matrices.push_back(window_matrix(l, w, i, x[i + 2], dy[i + 2], counts));
  }
  l.result(0, apply_matrices(l, l.in(1), l.dtype(1), matrices, true, l.rank()));
}

// --- adaptive -----------------------------------------------------------------------------------

// The size of the result, from the result's own type: output_size may leave an axis out.
std::vector<Tensor> adaptive_matrices(const Lowering& l, const Dims& x, const Dims& y) {
  std::vector<Tensor> matrices;
  for (std::size_t axis = 2; axis < x.size(); ++axis) {
    const std::int64_t in = x[axis], out = y[axis];
    Tensor matrix = zero_matrix(l, out, in);
    for (std::int64_t o = 0; o < out; ++o) {
      const std::int64_t begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
      std::fill(matrix.data<float>() + o * in + begin, matrix.data<float>() + o * in + end,
                1.0F / static_cast<float>(end - begin));
    }
    matrices.push_back(std::move(matrix));
  }
  return matrices;
}

void check_adaptive(const Lowering& l, const Dims& x, const Dims& y) {
  if (x.size() < 3 || x.size() != y.size()) l.invalid("a tensor with batch and channels is wanted");
  for (std::size_t i = 2; i < x.size(); ++i) {
    if (x[i] < 1 || y[i] < 1) l.invalid("a dimension is 0");
  }
}

void adaptive_avg_pool(Lowering& l) {
  const Dims x = l.dims(), y = l.result_dims();
  check_adaptive(l, x, y);
  bool divides = true;
  Sizes kernel;
  for (std::size_t i = 2; i < x.size(); ++i) {
    divides = divides && x[i] % y[i] == 0;
    kernel.push_back(x[i] / y[i]);
  }
  if (std::all_of(y.begin() + 2, y.end(), [](std::int64_t n) { return n == 1; })) {
    return l.result(0, l.op("GlobalAveragePool", {l.in()}));
  }
  if (x == y) return l.result(0, l.in());
  if (divides) {
    return l.result(0,
                    l.op("AveragePool", {l.in()}, {{"kernel_shape", kernel}, {"strides", kernel}}));
  }
  l.result(0, apply_matrices(l, l.in(), l.dtype(), adaptive_matrices(l, x, y), false, l.rank()));
}

// x, dy
void adaptive_avg_pool_grad(Lowering& l) {
  const Dims x = l.dims(0), y = l.dims(1);
  check_adaptive(l, x, y);
  if (std::all_of(y.begin() + 2, y.end(), [](std::int64_t n) { return n == 1; })) {
    const ValueId scaled =
        l.mul(l.in(1), l.scalar(1.0 / static_cast<double>(plane(x)), l.dtype(1)));
    return l.result(0, l.op("Expand", {scaled, l.ints(x)}));
  }
  l.result(0, apply_matrices(l, l.in(1), l.dtype(1), adaptive_matrices(l, x, y), true, l.rank()));
}

// Only where the windows are all alike.
void adaptive_max_pool(Lowering& l) {
  const Dims x = l.dims(), y = l.result_dims();
  check_adaptive(l, x, y);
  Sizes kernel;
  for (std::size_t i = 2; i < x.size(); ++i) {
    if (x[i] % y[i] != 0) l.unsupported("windows of different sizes");
    kernel.push_back(x[i] / y[i]);
  }
  const auto outputs =
      l.ops("MaxPool", {l.in()}, 2, {{"kernel_shape", kernel}, {"strides", kernel}});
  l.result(0, outputs[0]);
  const std::int64_t size = plane(x);
  l.result(1, l.op("Mod", {outputs[1], l.scalar(size, DType::kInt64)}));
}

// --- TensorFlow's -------------------------------------------------------------------------------

Attributes tf_attributes(const Lowering& l) {
  if (l.text("data_format", "channels_first") != "channels_first") {
    l.unsupported("only channels_first is known");
  }
  Attributes attributes{{"kernel_shape", l.integers("pool_size")},
                        {"strides", l.integers("strides")},
                        {"ceil_mode", static_cast<std::int64_t>(l.flag("ceil_mode"))}};
  const std::string padding = l.text("padding", "customized");
  if (padding == "valid") {
    attributes["auto_pad"] = std::string("VALID");
  } else if (padding == "same_lower") {
    attributes["auto_pad"] = std::string("SAME_LOWER");
  } else if (padding == "same" || padding == "same_upper") {
    attributes["auto_pad"] = std::string("SAME_UPPER");
  } else {
    Sizes pads = l.integers("padding_before");
    const Sizes after = l.integers("padding_after");
    pads.insert(pads.end(), after.begin(), after.end());
    attributes["pads"] = std::move(pads);
  }
  return attributes;
}

void tf_max_pool(Lowering& l) { l.result(0, l.op("MaxPool", {l.in()}, tf_attributes(l))); }
void tf_avg_pool(Lowering& l) { l.result(0, l.op("AveragePool", {l.in()}, tf_attributes(l))); }

}  // namespace

void register_pooling(Registry& r) {
  r.add({"max_pool_1d", "max_pool_2d", "max_pool_3d"}, max_pool);
  r.add({"max_pool_1d_grad", "max_pool_2d_grad", "max_pool_3d_grad"}, max_pool_grad);
  r.add({"avg_pool_1d", "avg_pool_2d", "avg_pool_3d"}, avg_pool);
  r.add({"avg_pool_1d_grad", "avg_pool_2d_grad", "avg_pool_3d_grad"}, avg_pool_grad);
  r.add({"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"}, adaptive_avg_pool);
  r.add({"adaptive_avg_pool1d_grad", "adaptive_avg_pool2d_grad", "adaptive_avg_pool3d_grad"},
        adaptive_avg_pool_grad);
  r.add({"adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"}, adaptive_max_pool);
  r.add({"adaptive_max_pool1d_grad", "adaptive_max_pool2d_grad", "adaptive_max_pool3d_grad"},
        adaptive_max_pool_grad);
  r.add({"tf_max_pool_1d", "tf_max_pool_2d", "tf_max_pool_3d"}, tf_max_pool);
  r.add({"tf_avg_pool_1d", "tf_avg_pool_2d", "tf_avg_pool_3d"}, tf_avg_pool);
}

}  // namespace xrt::oneflow
