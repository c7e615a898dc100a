// SPDX-License-Identifier: Apache-2.0
// From a picture of any size to the values of one sample, as networks of ImageNet want it: resize
// the shorter side, cut out the middle, mean and standard deviation. Sizes, rounding and pixels are
// those of torchvision's Resize and CenterCrop on Pillow's pictures.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/image.h"

namespace xrt {

struct Preparation {
  std::int64_t resize_shorter = 0;  // pixels; 0: no
  std::int64_t crop = 0;            // width and height; 0: no
  ImageOptions image;
};

// "imagenet": what torchvision's classifiers were trained with, on values from 0 to 1; "oneflow":
// OneFlow-Benchmark's, on values from 0 to 255. kInvalidArgument for another name.
Preparation preparation_preset(const std::string& name);
const std::vector<std::string>& preparation_presets();

// What a user says: a preset or none, and what differs from it.
struct PreparationWishes {
  std::string preset;
  std::optional<std::int64_t> resize_shorter, crop;
  std::optional<std::array<float, 3>> mean, std;
  std::optional<int> scale;  // values before the mean go from 0 to 1, or to 255
  std::string layout = "auto", channels = "rgb";
};

// Throws as preparation_preset() and check_preparation().
Preparation make_preparation(const PreparationWishes& wishes);

// Throws kInvalidArgument for sizes below 0, a deviation that is not above 0, and a mean beyond the
// range of the values.
void check_preparation(const Preparation& preparation);

// The longest side of a prepared picture, in pixels.
inline constexpr std::int64_t kMaxSide = 1 << 14;

// The longer side keeps the proportion, rounded down.
Image resize_shorter(const Image& image, std::int64_t size);
// What lies beyond a smaller picture is black.
Image center_crop(const Image& image, std::int64_t size);

// The picture as an input of that shape wants it, pixels still of 8 bits. Where neither
// resize_shorter nor crop is given it is resized to the input's height and width. kInvalidArgument
// where its size is another one in the end.
Image prepare_image(const Image& image, const ImageShape& shape, const Preparation& preparation);

}  // namespace xrt
