// SPDX-License-Identifier: Apache-2.0
// ConvTranspose by the kernels that there are. Where windows do not overlap (the kernel is as large
// as the stride) a product with every pixel gives the pixels of its window, which then only move.
// Otherwise it is a convolution by the mirrored kernel over the image with zeros in between
// (V. Dumoulin, F. Visin, "A guide to convolution arithmetic for deep learning", 2016).
#include <algorithm>

#include "ir/attributes.h"
#include "lower/lower.h"

namespace xrt::lite {

namespace {

struct Axis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, before = 0;
};

}  // namespace

void Lowering::conv_transpose(const Node& node) {
  const int x = input(node, 0), y = output(node);
  const Tensor factor = numbers(node, 1, "filter");
  if (dtype(x) != DType::kFloat32) refuse(node, "float32 only");
  const Dims from = dims(x), to = dims(y);
  const Dims& shape = factor.dims();
  const std::size_t rank = from.size() - 2;
  if (from.size() < 3 || rank > 2) refuse(node, "one or two spatial dimensions only");
  Tensor bias;
  if (has_input(node, 2)) bias = numbers(node, 2, "bias");
  const std::int64_t groups = need_int(node, "group");
  const std::int64_t in = from[1], out = to[1], in_group = in / groups, out_group = out / groups;
  // One-dimensional images are of height 1.
  Axis axes[2];
  for (std::size_t d = 0; d < rank; ++d) {
    Axis& a = axes[2 - rank + d];
    a.in = from[d + 2], a.out = to[d + 2], a.kernel = shape[d + 2];
    a.stride = need_ints(node, "strides")[d];
    a.dilation = need_ints(node, "dilations")[d];
    a.before = need_ints(node, "pads")[d];
  }
  const Axis &h = axes[0], &w = axes[1];
  const std::int64_t area = h.kernel * w.kernel;
  const auto make = [&](const char* name, const Dims& size) {
    return out_.add_value(node.name + name, DType::kFloat32, size);
  };
  const auto view = [&](int v, const char* name, const Dims& size, std::vector<int> perm = {}) {
    LView step;
    step.x = v, step.perm = std::move(perm);
    if (!step.perm.empty()) step.kind = LView::Kind::kTranspose;
    const int result = name == nullptr ? y : make(name, size);
    add(node, step, result);
    return result;
  };
  LConv c;
  const auto whole = [](const Axis& a) {
    return a.kernel == a.stride && a.dilation == 1 && a.before == 0 && a.out == a.in * a.stride;
  };
  if (groups == 1 && whole(h) && whole(w)) {
    // Channels [kernel height][kernel width][out] of a pixel are the pixels of its window.
    c.x = view(x, "/image", {from[0], in, h.in, w.in});
    c.weights = Tensor::allocate(DType::kFloat32, {area * out, in, 1, 1});
    for (std::int64_t t = 0; t < area; ++t) {
      for (std::int64_t o = 0; o < out; ++o) {
        for (std::int64_t i = 0; i < in; ++i) {
          c.weights.data<float>()[(t * out + o) * in + i] =
              factor.data<float>()[(i * out + o) * area + t];
        }
      }
    }
    if (bias.defined()) {
      c.bias = Tensor::allocate(DType::kFloat32, {area * out});
      for (std::int64_t k = 0; k < area * out; ++k) {
        c.bias.data<float>()[k] = bias.data<float>()[k % out];
      }
    }
    const int product = make("/product", {from[0], area * out, h.in, w.in});
    add(node, std::move(c), product);
    const int split = view(product, "/windows", {from[0], h.kernel, w.kernel, out, h.in, w.in});
    const int moved =
        view(split, "/moved", {from[0], out, h.in, h.kernel, w.in, w.kernel}, {0, 3, 4, 1, 5, 2});
    view(moved, nullptr, to);
    return;
  }
  // Zeros behind every pixel and row, then the mirrored kernel.
  const int apart = view(x, "/apart", {from[0], in, h.in, 1, w.in, 1});
  const int stuffed = make("/stuffed", {from[0], in, h.in, h.stride, w.in, w.stride});
  LCopy copy;
  copy.fill = true;
  CopyPiece piece;
  piece.x = apart;
  piece.size = dims(apart);
  piece.x_start.assign(6, 0), piece.y_start.assign(6, 0), piece.x_step.assign(6, 1);
  copy.pieces.push_back(std::move(piece));
  add(node, std::move(copy), stuffed);
  const Dims image = rank == 2 ? Dims{from[0], in, h.in * h.stride, w.in * w.stride}
                               : Dims{from[0], in, w.in * w.stride};
  c.x = view(stuffed, "/image", image);
  Dims mirrored = {out, in_group};
  mirrored.insert(mirrored.end(), shape.begin() + 2, shape.end());
  c.weights = Tensor::allocate(DType::kFloat32, mirrored);
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t i = 0; i < in_group; ++i) {
      for (std::int64_t t = 0; t < area; ++t) {
        const std::int64_t source = (o / out_group * in_group + i) * out_group + o % out_group;
        c.weights.data<float>()[(o * in_group + i) * area + t] =
            factor.data<float>()[source * area + area - 1 - t];
      }
    }
  }
  c.bias = bias;
  c.groups = static_cast<int>(groups);
  c.kh = static_cast<int>(h.kernel), c.kw = static_cast<int>(w.kernel);
  c.dilation_h = static_cast<int>(h.dilation), c.dilation_w = static_cast<int>(w.dilation);
  const std::int64_t top = (h.kernel - 1) * h.dilation - h.before;
  const std::int64_t left = (w.kernel - 1) * w.dilation - w.before;
  if (top < 0 || left < 0) refuse(node, "padding of more than the kernel");
  c.pad_top = static_cast<int>(top), c.pad_left = static_cast<int>(left);
  const auto after = [](const Axis& a, std::int64_t before) {
    return static_cast<int>(a.out - a.in * a.stride - before + (a.kernel - 1) * a.dilation);
  };
  c.pad_bottom = after(h, top), c.pad_right = after(w, left);
  add(node, std::move(c), y);
}

}  // namespace xrt::lite
