// SPDX-License-Identifier: Apache-2.0
// Convolutions in one to three dimensions.
//
// The gradient of the input is a transposed convolution. That of the weight has no good form among
// the standard ops and is an op of its own, which is bilinear like the convolution:
//
//   xrt.ConvWeightGradient(X [N,C,…], dY [N,M,…]) -> dW [M,C/group,kernel…], dB [M] (optional)
//   dW[m,c,k…] = sum over n, o… of dY[n,m,o…] * X[n, group's c, o·stride + k·dilation - pad …]
//   dB[m] = sum over n, o… of dY[n,m,o…]
#include <algorithm>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

struct Window {
  Dims kernel, strides, dilations, begin, end;
  std::int64_t group = 1;

  Attributes attributes() const {
    Dims pads = begin;
    pads.insert(pads.end(), end.begin(), end.end());
    return {{"kernel_shape", kernel},
            {"strides", strides},
            {"dilations", dilations},
            {"pads", pads},
            {"group", group}};
  }
};

Dims spatial(const Dims& dims) { return {dims.begin() + 2, dims.end()}; }

Window read_window(const Rule& r, const Dims& kernel) {
  const std::size_t n = kernel.size();
  Window w;
  w.kernel = kernel;
  w.strides = r.node.attr_ints("strides");
  w.dilations = r.node.attr_ints("dilations");
  w.group = r.attr("group");
  const Dims pads = r.node.attr_ints("pads");
  if (w.strides.size() != n || w.dilations.size() != n || pads.size() != 2 * n) {
    r.refuse("strides, dilations or pads do not fit the kernel");
  }
  w.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
  w.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
  return w;
}

// The gradient of a convolution's input of the sizes `image`, given that of its result.
Var input_gradient(Var dy, Var weight, const Window& w, const Dims& image, const Dims& result) {
  Attributes attributes = w.attributes();
  Dims extra;
  bool any = false;
  for (std::size_t i = 0; i < image.size(); ++i) {
    const std::int64_t extent = (w.kernel[i] - 1) * w.dilations[i] + 1;
    extra.push_back(image[i] - ((result[i] - 1) * w.strides[i] + extent - w.begin[i] - w.end[i]));
    any = any || extra.back() != 0;
  }
  if (any) attributes["output_padding"] = extra;
  return dy.e->op("ConvTranspose", {dy, weight}, std::move(attributes));
}

// dW, and dB where asked for.
std::vector<Var> weight_gradient(Var image, Var dy, const Window& w, bool with_bias = false) {
  return dy.e->node(kOwnDomain, "ConvWeightGradient", {image, dy},
                    std::vector<DType>(with_bias ? 2 : 1, dy.dtype), w.attributes());
}

Var convolve(Var image, Var weight, const Window& w) {
  return image.e->op("Conv", {image, weight}, w.attributes());
}

void give_bias(Rule& r) {
  if (!r.needs(2)) return;
  Dims axes = range(2, r.y_rank());
  axes.insert(axes.begin(), 0);
  r.give(2, sum(r.dy(), axes, false));
}

void conv_rule(Rule& r) {
  const Dims image = spatial(r.x_dims(0));
  const Dims result = spatial(r.y_dims());
  const Window w = read_window(r, spatial(r.x_dims(1)));
  if (r.needs(0)) r.give(0, input_gradient(r.dy(), r.x(1), w, image, result));
  if (r.needs(1) && r.needs(2)) {
    const auto made = weight_gradient(r.x(0), r.dy(), w, /*with_bias=*/true);
    r.give(1, made[0]);
    r.give(2, made[1]);
    return;
  }
  if (r.needs(1)) r.give(1, weight_gradient(r.x(0), r.dy(), w)[0]);
  give_bias(r);
}

// A transposed convolution is the input gradient of a convolution: the roles change.
void conv_transpose_rule(Rule& r) {
  const Dims result = spatial(r.x_dims(0));
  const Dims image = spatial(r.y_dims());
  const Dims kernel = spatial(r.x_dims(1));
  Window w = read_window(r, kernel);
  // Rows that output_padding added lie beyond the last window.
  for (std::size_t i = 0; i < image.size(); ++i) {
    const std::int64_t extent = (kernel[i] - 1) * w.dilations[i] + 1;
    w.end[i] = (result[i] - 1) * w.strides[i] + extent - image[i] - w.begin[i];
    if (w.end[i] < 0) {
      w.end[i] = 0;
      if ((image[i] + w.begin[i] - extent) / w.strides[i] + 1 != result[i]) {
        r.refuse("output_padding of a stride or more");
      }
    }
  }
  if (r.needs(0)) r.give(0, convolve(r.dy(), r.x(1), w));
  if (r.needs(1)) r.give(1, weight_gradient(r.dy(), r.x(0), w)[0]);
  give_bias(r);
}

void weight_gradient_rule(Rule& r) {
  if (r.has_dy(1)) r.refuse("the gradient of its output dB");
  const Dims image = spatial(r.x_dims(0));
  const Dims result = spatial(r.x_dims(1));
  const Window w = read_window(r, r.node.attr_ints("kernel_shape"));
  if (r.needs(0)) r.give(0, input_gradient(r.x(1), r.dy(), w, image, result));
  if (r.needs(1)) r.give(1, convolve(r.x(0), r.dy(), w));
}

}  // namespace

void register_convolution(RuleRegistry& registry) {
  registry.add("Conv", conv_rule);
  registry.add("ConvTranspose", conv_transpose_rule);
  registry.add_own("ConvWeightGradient", weight_gradient_rule);
}

}  // namespace xrt::autodiff
