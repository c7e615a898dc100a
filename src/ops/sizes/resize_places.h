// SPDX-License-Identifier: Apache-2.0
// Where elements of a Resize's result lie in its operand, along one axis.
//
// The arithmetic is float32's, as ONNX Runtime's and PyTorch's is: with a scale of 1.6 the rounded
// quotient decides which of two neighbours is the nearest one.
//
// Scales make floor(size · scale) elements in every mode, as ONNX Runtime and ONNX's type inference
// have it. The standard's text has a factor for the region that tf_crop_and_resize takes, which
// they leave out.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "xrt/export.h"

namespace xrt {

// The attribute coordinate_transformation_mode.
enum class ResizeTransform : std::uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kCrop,
};

// The attribute nearest_mode.
enum class ResizeNearest : std::uint8_t { kPreferFloor, kPreferCeil, kFloor, kCeil };

XRT_API std::optional<ResizeTransform> resize_transform(std::string_view name);
XRT_API std::optional<ResizeNearest> resize_nearest(std::string_view name);

struct ResizedAxis {
  std::int64_t in = 1, out = 1;
  double scale = 1;
  double length = 1;                  // of the result, before it was rounded down to `out`
  double roi_start = 0, roi_end = 1;  // what kCrop takes of the operand, of its length
};

// Elements of the result by a scale. In float, as exporters and engines count: 5 times 1.8 are 9,
// not a little less; in double where `in` is no number of float. None beyond 10^15.
XRT_API std::optional<std::int64_t> resized_size(std::int64_t in, float scale);

// Of the result's element i, counted in elements of the operand.
XRT_API double resized_place(ResizeTransform transform, const ResizedAxis& axis, std::int64_t i);

// The element of the operand that is nearest to a place, within its ends.
XRT_API std::int64_t nearest_element(ResizeNearest nearest, double place, std::int64_t size);

}  // namespace xrt
