// SPDX-License-Identifier: Apache-2.0
#include "ops/sizes/resize_places.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace xrt {
namespace {

template <typename E, std::size_t N>
std::optional<E> found(const std::array<std::pair<std::string_view, E>, N>& names,
                       std::string_view name) {
  for (const auto& [known, value] : names) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ResizeTransform> resize_transform(std::string_view name) {
  using enum ResizeTransform;
  return found<ResizeTransform, 6>({{{"half_pixel", kHalfPixel},
                                     {"half_pixel_symmetric", kHalfPixelSymmetric},
                                     {"pytorch_half_pixel", kPytorchHalfPixel},
                                     {"align_corners", kAlignCorners},
                                     {"asymmetric", kAsymmetric},
                                     {"tf_crop_and_resize", kCrop}}},
                                   name);
}

std::optional<ResizeNearest> resize_nearest(std::string_view name) {
  using enum ResizeNearest;
  return found<ResizeNearest, 4>({{{"round_prefer_floor", kPreferFloor},
                                   {"round_prefer_ceil", kPreferCeil},
                                   {"floor", kFloor},
                                   {"ceil", kCeil}}},
                                 name);
}

std::optional<std::int64_t> resized_size(std::int64_t in, float scale) {
  constexpr std::int64_t kExact = std::int64_t{1} << std::numeric_limits<float>::digits;
  const double size = in <= kExact ? double{static_cast<float>(in) * scale}
                                   : static_cast<double>(in) * double{scale};
  if (!(size >= 0 && size <= 1e15)) return std::nullopt;
  return static_cast<std::int64_t>(size);
}

double resized_place(ResizeTransform transform, const ResizedAxis& axis, std::int64_t i) {
  const auto x = static_cast<float>(i);
  const auto in = static_cast<float>(axis.in);
  const auto out = static_cast<float>(axis.out);
  const auto scale = static_cast<float>(axis.scale);
  const auto length = static_cast<float>(axis.length);
  const auto start = static_cast<float>(axis.roi_start);
  const auto end = static_cast<float>(axis.roi_end);
  const float half_pixel = (x + 0.5F) / scale - 0.5F;
  float place = x;
  switch (transform) {
    case ResizeTransform::kHalfPixel:
      place = half_pixel;
      break;
    case ResizeTransform::kHalfPixelSymmetric:
      place = in / 2 * (1 - out / length) + (x + 0.5F) / scale - 0.5F;
      break;
    case ResizeTransform::kPytorchHalfPixel:
      place = axis.out > 1 ? half_pixel : 0;
      break;
    case ResizeTransform::kAlignCorners:
      place = length == 1 ? 0 : x * (in - 1) / (length - 1);
      break;
    case ResizeTransform::kAsymmetric:
      place = x / scale;
      break;
    case ResizeTransform::kCrop:
      place = axis.out > 1 ? start * (in - 1) + x * (end - start) * (in - 1) / (out - 1)
                           : 0.5F * (start + end) * (in - 1);
      break;
  }
  return static_cast<double>(place);
}

std::int64_t nearest_element(ResizeNearest nearest, double place, std::int64_t size) {
  double at = 0;
  switch (nearest) {
    case ResizeNearest::kPreferFloor:
      at = std::ceil(place - 0.5);
      break;
    case ResizeNearest::kPreferCeil:
      at = std::floor(place + 0.5);
      break;
    case ResizeNearest::kFloor:
      at = std::floor(place);
      break;
    case ResizeNearest::kCeil:
      at = std::ceil(place);
      break;
  }
  return static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(size - 1)));
}

}  // namespace xrt
