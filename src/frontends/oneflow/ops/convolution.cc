// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients. OneFlow pads both ends alike ("padding_before").
#include <algorithm>

#include "frontends/oneflow/lowering.h"

namespace xrt::oneflow {
namespace {

using Sizes = std::vector<std::int64_t>;

struct Window {
  Sizes kernel, strides, dilations, pads;
  std::int64_t groups = 1;

  Sizes both_pads() const {
    Sizes both = pads;
    both.insert(both.end(), pads.begin(), pads.end());
    return both;
  }
};

Window window_of(const Lowering& l, std::int64_t spatial) {
  if (l.text("data_format", "channels_first") != "channels_first") {
    l.unsupported("only channels_first is known");
  }
  Window w{l.sizes("kernel_size"), l.sizes("strides"), l.sizes("dilation_rate"),
           l.sizes("padding_before"), l.has_attribute("groups") ? l.size("groups") : 1};
  for (const Sizes* sizes : {&w.kernel, &w.strides, &w.dilations, &w.pads}) {
    if (static_cast<std::int64_t>(sizes->size()) != spatial) {
      l.invalid(
          "kernel_size, strides, dilation_rate or padding_before has another length than "
          "the tensor has spatial dimensions");
    }
    for (const std::int64_t size : *sizes) {
      if (size < (sizes == &w.pads ? 0 : 1)) l.invalid("a size of the window is not positive");
    }
  }
  if (w.groups < 1) l.invalid("groups is not positive");
  return w;
}

Attributes attributes_of(const Window& w) {
  return {{"kernel_shape", w.kernel},
          {"strides", w.strides},
          {"dilations", w.dilations},
          {"pads", w.both_pads()},
          {"group", w.groups}};
}

// in, weight, bias?, _add_to_output?
void conv(Lowering& l) {
  const Window w = window_of(l, l.rank() - 2);
  std::vector<ValueId> inputs{l.in(0), l.in(1)};
  if (l.has(2)) inputs.push_back(l.in(2));
  ValueId y = l.op("Conv", inputs, attributes_of(w));
  if (l.has(3)) y = l.add(y, l.in(3));
  l.result(0, y);
}

void deconv(Lowering& l) {
  const Window w = window_of(l, l.rank() - 2);
  Attributes attributes = attributes_of(w);
  if (l.has_attribute("output_padding")) {
    attributes["output_padding"] = l.integers("output_padding");
  }
  l.result(0, l.op("ConvTranspose", {l.in(0), l.in(1)}, std::move(attributes)));
}

// dy, filter, x_like, _add_to_output?
void conv_data_grad(Lowering& l) {
  const Dims x = l.dims(2), dy = l.dims(0);
  const auto spatial = static_cast<std::size_t>(l.rank() - 2);
  const Window w = window_of(l, static_cast<std::int64_t>(spatial));
  if (x.size() != dy.size()) l.invalid("dy and x_like have different ranks");
  Attributes attributes = attributes_of(w);
  // Rows of the input that no window reached.
  Sizes rest;
  for (std::size_t i = 0; i < spatial; ++i) {
    rest.push_back(x[i + 2] - ((dy[i + 2] - 1) * w.strides[i] - 2 * w.pads[i] +
                               w.dilations[i] * (w.kernel[i] - 1) + 1));
    if (rest.back() < 0) l.invalid("x_like is smaller than dy and the window make it");
  }
  if (std::any_of(rest.begin(), rest.end(), [](std::int64_t n) { return n != 0; })) {
    attributes["output_padding"] = rest;
  }
  ValueId dx = l.op("ConvTranspose", {l.in(0), l.in(1)}, std::move(attributes));
  if (l.has(3)) dx = l.add(dx, l.in(3));
  l.result(0, dx);
}

// dy, x: batch and channels change places, and what was the stride is now the distance between the
// elements of the window.
void conv_filter_grad(Lowering& l) {
  const Dims dy = l.dims(0), x = l.dims(1);
  const auto spatial = static_cast<std::size_t>(l.rank() - 2);
  const Window w = window_of(l, static_cast<std::int64_t>(spatial));
  if (x.size() != dy.size() || x[1] % w.groups != 0) l.invalid("dy, x and groups do not fit");
  const std::int64_t per_group = x[1] / w.groups;
  Sizes exchanged{1, 0}, axes;
  for (std::size_t i = 0; i < spatial; ++i) {
    exchanged.push_back(static_cast<std::int64_t>(i) + 2);
    axes.push_back(static_cast<std::int64_t>(i) + 2);
  }
  ValueId image;
  if (w.groups == 1) {
    image = l.transpose(l.in(1), exchanged);
  } else {
    Dims split{x[0], w.groups, per_group}, joined{per_group, w.groups * x[0]};
    Sizes order{2, 1, 0};
    for (std::size_t i = 0; i < spatial; ++i) {
      split.push_back(x[i + 2]);
      joined.push_back(x[i + 2]);
      order.push_back(static_cast<std::int64_t>(i) + 3);
    }
    image = l.reshape(l.transpose(l.reshape(l.in(1), split), order), joined);
  }
  Sizes filter(dy.begin() + 2, dy.end());
  Window turned{filter, w.dilations, w.strides, w.pads, w.groups};
  ValueId y = l.op("Conv", {image, l.transpose(l.in(0), exchanged)}, attributes_of(turned));
  // Rows of the input that no window reached make the result longer than the kernel.
  bool longer = false;
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t made =
        (x[i + 2] + 2 * w.pads[i] - w.strides[i] * (dy[i + 2] - 1) - 1) / w.dilations[i] + 1;
    longer = longer || made != w.kernel[i];
  }
  if (longer) y = l.slice(y, Sizes(spatial, 0), w.kernel, axes);
  l.result(0, l.transpose(y, exchanged));
}

// dy
void conv_bias_grad(Lowering& l) {
  Sizes axes;
  for (std::int64_t i = 0; i < l.rank(); ++i) {
    if (i != 1) axes.push_back(i);
  }
  l.result(0, l.reduce("ReduceSum", l.in(), axes, false));
}

}  // namespace

void register_convolution(Registry& r) {
  r.add({"conv1d", "conv2d", "conv3d"}, conv);
  r.add({"deconv1d", "deconv2d", "deconv3d"}, deconv);
  r.add("conv_data_grad", conv_data_grad);
  r.add("conv_filter_grad", conv_filter_grad);
  r.add("conv_bias_grad", conv_bias_grad);
}

}  // namespace xrt::oneflow
