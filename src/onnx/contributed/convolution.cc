// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools: with an activation, with channels in the last place, and in ONNX
// Runtime's blocked layout.
//
// In the domain com.microsoft.nchwc channels lie in blocks of 8 or 16, and their number is rounded
// up to a multiple of that. Here values keep the plain layout (with the channels rounded up), and
// the weights in the file, which lie in blocks, are put in order.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "onnx/contributed/rewriting.h"
#include "xrt/error.h"

namespace xrt::contributed {
namespace {

std::vector<float> activation_parameters(Rewriting& r) {
  const auto it = r.attributes().find("activation_params");
  if (it == r.attributes().end()) return {};
  const auto* values = std::get_if<std::vector<float>>(&it->second);
  if (values == nullptr) {
    throw Error(ErrorCode::kInvalidModel, "its activation_params are no list of numbers");
  }
  std::vector<float> parameters = *values;
  r.attributes().erase(it);
  return parameters;
}

// Conv of x and w, plus the inputs 2 (per channel) and 3, and the activation that is named.
ValueId convolve(Rewriting& r, ValueId x, ValueId w, ValueId sum) {
  const std::string activation = r.string_attr("activation", "");
  const std::vector<float> parameters = activation_parameters(r);
  ValueId y = r.op("Conv", {x, w, r.input(2)}, std::move(r.attributes()));
  if (sum.valid()) y = r.add(y, sum);
  return apply_activation(r, y, activation, parameters);
}

void rewrite_fused_conv(Rewriting& r) { r.finish({convolve(r, r.need(0), r.need(1), r.input(3))}); }

void rewrite_nhwc_conv(Rewriting& r) {
  const ValueId sum = r.input(3).valid() ? r.channels_first(r.input(3)) : ValueId{};
  r.finish({r.channels_last(convolve(r, r.channels_first(r.need(0)), r.need(1), sum))});
}

void rewrite_nhwc_max_pool(Rewriting& r) {
  const ValueId y = r.op("MaxPool", {r.channels_first(r.need(0))}, std::move(r.attributes()));
  r.finish({r.channels_last(y)});
}

// The block that ONNX Runtime has on this processor: a file in blocks is one of this processor, as
// it is for ONNX Runtime itself.
std::int64_t block_here() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
  return 16;
#endif
}

// Weights (O, I, …) that lie as (O / b, I / b, …, b of I, b of O), or, where I is less than a
// block, as (O / b, I, …, b of O).
ValueId unblocked_weights(Rewriting& r, ValueId w) {
  const auto out = r.dim(w, 0);
  const auto in = r.dim(w, 1);
  const auto rank = r.rank(w);
  if (!out || !in || rank != 4) r.refuse("the shape of its weights is not known");
  const std::int64_t block = *out % 16 == 0 ? block_here() : 8;
  if (*out % block != 0) r.refuse(fmt::format("{} channels are no whole blocks", *out));
  const ValueId plain = r.shape(w);
  const ValueId kernel = r.shape(w, 2);
  const bool blocked = *in >= block;
  const ValueId stored =
      blocked ? r.concat({r.ints({*out / block, *in / block}), kernel, r.ints({block, block})})
              : r.concat({r.ints({*out / block, *in}), kernel, r.ints({block})});
  const Ints perm = blocked ? Ints{0, 5, 1, 4, 2, 3} : Ints{0, 4, 1, 2, 3};
  return r.reshape_to(r.transpose(r.reshape_to(w, stored), perm), plain);
}

void rewrite_nchwc_conv(Rewriting& r) {
  r.finish({convolve(r, r.need(0), unblocked_weights(r, r.need(1)), r.input(3))});
}

void rewrite_reorder_input(Rewriting& r) {
  const bool last = r.flag("channels_last");
  ValueId x = r.need(0);
  if (last) x = r.channels_first(x);
  const auto channels = r.dim(x, 1);
  if (channels && *channels % block_here() != 0) {
    const std::int64_t missing = block_here() - *channels % block_here();
    x = r.op("Pad", {x, r.ints({0, missing}), {}, r.ints({1})});
  }
  r.finish({x});
}

void rewrite_reorder_output(Rewriting& r) {
  const bool last = r.flag("channels_last");
  const auto channels = r.required_int("channels", kLength);
  ValueId x = r.need(0);
  if (r.dim(x, 1) != channels) x = r.slice(x, {0}, {channels}, {1});
  r.finish({last ? r.channels_last(x) : x});
}

// An op that does not care where channels lie.
void rewrite_nchwc_pool(Rewriting& r) {
  r.become(r.op_name(), {r.need(0)}, std::move(r.attributes()));
}

void rewrite_nchwc_upsample(Rewriting& r) {
  if (!r.has_attr("scales")) {
    throw Error(ErrorCode::kInvalidModel, "its attribute 'scales' is missing");
  }
  std::vector<float> factors;
  for (const std::int64_t scale : r.ints_attr("scales", kLength)) {
    factors.push_back(static_cast<float>(scale));
  }
  const std::string mode = r.string_attr("mode", "nearest");
  Attributes attributes{{"mode", mode},
                        {"coordinate_transformation_mode",
                         r.string_attr("coordinate_transformation_mode", "asymmetric")}};
  if (mode == "nearest") attributes["nearest_mode"] = std::string("floor");
  const auto count = static_cast<std::int64_t>(factors.size());
  const ValueId list =
      r.constant(Tensor::from<float>(DType::kFloat32, {count}, std::span<const float>(factors)));
  r.become("Resize", {r.need(0), {}, list}, std::move(attributes));
}

// Padding that is an input: what a ConvTranspose without padding gives, cut by it.
void rewrite_conv_transpose_with_pads(Rewriting& r) {
  const ValueId pads = r.input(2);
  const Values operands{r.need(0), r.need(1), r.input(3)};
  if (const Tensor known = r.known(pads); known.defined()) {
    r.attributes()["pads"] = known.to_int64();
    return r.become("ConvTranspose", operands, std::move(r.attributes()));
  }
  const ValueId y = r.op("ConvTranspose", operands, std::move(r.attributes()));
  if (!pads.valid()) return r.finish({y});
  const ValueId sizes = r.shape(y, 2);
  const ValueId count = r.shape(sizes);
  const ValueId begins = r.slice_axis(pads, {}, count, 0);
  const ValueId ends = r.sub(sizes, r.slice_axis(pads, count, {}, 0));
  const ValueId axes = r.add(r.range(r.squeeze(count, {0})), r.whole(2));
  r.finish({r.op("Slice", {y, begins, ends, axes})});
}

// The largest element of each window, where a row of a window ends at the first element that the
// mask hides. Beyond one axis, the first element of a channel is never hidden.
void rewrite_maxpool_with_mask(Rewriting& r) {
  constexpr std::int64_t kManyElements = 1024;
  const std::string auto_pad = r.string_attr("auto_pad", "NOTSET");
  const Ints kernel = r.ints_attr("kernel_shape", kLength);
  const std::size_t axes = kernel.size();
  const Ints strides = r.ints_attr("strides", kLength, Ints(axes, 1));
  Ints pads = r.ints_attr("pads", kLengthOrNone, Ints(2 * axes, 0));
  if (auto_pad == "VALID") pads.assign(2 * axes, 0);
  std::int64_t elements = 1;
  for (const std::int64_t k : kernel) elements = std::min(elements * k, kManyElements + 1);
  if (axes == 0 || strides.size() != axes || pads.size() != 2 * axes) {
    throw Error(ErrorCode::kInvalidModel, "kernel_shape, strides and pads do not match");
  }
  if (elements > kManyElements || auto_pad.starts_with("SAME")) {
    r.refuse("windows of more than 1024 elements, or auto_pad");
  }
  const ValueId x = r.need(0);
  ValueId seen = r.op("Not", {r.op("Equal", {r.need(1), r.cast_like(r.whole(0), r.need(1))})});
  Ints spatial;
  for (std::size_t i = 0; i < axes; ++i) spatial.push_back(static_cast<std::int64_t>(i) + 2);
  if (axes > 1) {
    const ValueId count = r.op("ReduceProd", {r.shape(x, 2)}, {{"keepdims", std::int64_t{0}}});
    const ValueId first = r.op("Equal", {r.range(count), r.whole(0)});
    seen = r.op("Or", {seen, r.reshape_to(first, r.shape(x, 2))});
  }
  // Beyond the borders nothing is read, and no row ends there.
  const ValueId lowest = r.number(std::numeric_limits<float>::lowest(), x);
  const ValueId around = r.ints(pads);
  const ValueId padded = r.op("Pad", {x, around, lowest, r.ints(spatial)});
  const ValueId hidden = r.cast(r.op("Not", {seen}), DType::kInt32);
  const ValueId padded_hidden =
      r.op("Pad", {hidden, around, r.cast(r.whole(0), DType::kInt32), r.ints(spatial)});
  ValueId y;
  ValueId open;
  Ints at(axes, 0);
  for (std::int64_t n = 0; n < elements; ++n) {
    Ints ends;
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t left = kernel[i] - 1 - at[i];
      ends.push_back(left == 0 ? std::numeric_limits<std::int64_t>::max() : -left);
    }
    const auto taken = [&](ValueId v) {
      return r.op("Slice", {v, r.ints(at), r.ints(ends), r.ints(spatial), r.ints(strides)});
    };
    const ValueId shows = r.op("Equal", {taken(padded_hidden), r.cast(r.whole(0), DType::kInt32)});
    open = at.back() == 0 ? shows : r.op("And", {open, shows});
    const ValueId candidate = r.where(open, taken(padded), lowest);
    y = y.valid() ? r.op("Max", {y, candidate}) : candidate;
    for (std::size_t i = axes; i-- > 0;) {
      if (++at[i] < kernel[i]) break;
      at[i] = 0;
    }
  }
  r.finish({y});
}

// Cuts borders off, or, with a scale, a picture of that size at the border.
void rewrite_crop(Rewriting& r) {
  Ints border = r.ints_attr("border", kLengthOrNone);
  const Ints scale = r.ints_attr("scale", kLengthOrNone);
  if (border.empty()) border.assign(4, 0);
  if (border.size() != 4) throw Error(ErrorCode::kInvalidModel, "its border is no list of four");
  const std::int64_t left = border[0];
  const std::int64_t top = border[1];
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  Ints ends{border[3] == 0 ? kEnd : -border[3], border[2] == 0 ? kEnd : -border[2]};
  if (scale.size() == 2) ends = {top + scale[0], left + scale[1]};
  r.become("Slice", {r.need(0), r.ints({top, left}), r.ints(ends), r.ints({2, 3})});
}

constexpr auto kConvolutions = std::to_array<Entry>({
    {"", "Crop", rewrite_crop},
    {kMicrosoft, "ConvTransposeWithDynamicPads", rewrite_conv_transpose_with_pads},
    {kMicrosoft, "FusedConv", rewrite_fused_conv},
    {kMicrosoft, "MaxpoolWithMask", rewrite_maxpool_with_mask},
    {kMicrosoft, "NhwcConv", rewrite_nhwc_conv},
    {kMicrosoft, "NhwcFusedConv", rewrite_nhwc_conv},
    {kMicrosoft, "NhwcMaxPool", rewrite_nhwc_max_pool},
    {kNchwc, "AveragePool", rewrite_nchwc_pool},
    {kNchwc, "Conv", rewrite_nchwc_conv},
    {kNchwc, "GlobalAveragePool", rewrite_nchwc_pool},
    {kNchwc, "GlobalMaxPool", rewrite_nchwc_pool},
    {kNchwc, "MaxPool", rewrite_nchwc_pool},
    {kNchwc, "ReorderInput", rewrite_reorder_input},
    {kNchwc, "ReorderOutput", rewrite_reorder_output},
    {kNchwc, "Upsample", rewrite_nchwc_upsample},
});

}  // namespace

std::span<const Entry> convolution_ops() { return kConvolutions; }

}  // namespace xrt::contributed
