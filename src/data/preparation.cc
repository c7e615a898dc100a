// SPDX-License-Identifier: Apache-2.0
#include "data/preparation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void refuse_preparation(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what);
}

// Python's round(n / 2): halves go to the even number.
std::int64_t half_to_even(std::int64_t n) {
  const std::int64_t half = n / 2;
  return n % 2 != 0 && half % 2 != 0 ? half + 1 : half;
}

}  // namespace

const std::vector<std::string>& preparation_presets() {
  static const std::vector<std::string> names = {"imagenet", "oneflow"};
  return names;
}

Preparation preparation_preset(const std::string& name) {
  Preparation preparation{256, 224, {}};
  if (name == "imagenet") {
    preparation.image.mean = {0.485F, 0.456F, 0.406F};
    preparation.image.std = {0.229F, 0.224F, 0.225F};
  } else if (name == "oneflow") {
    preparation.image.mean = {123.68F, 116.779F, 103.939F};
    preparation.image.std = {58.393F, 57.12F, 57.375F};
    preparation.image.divisor = 1;
  } else {
    refuse_preparation(fmt::format("there is no preset '{}'; there are {}", name,
                                   fmt::join(preparation_presets(), ", ")));
  }
  return preparation;
}

Preparation make_preparation(const PreparationWishes& wishes) {
  Preparation result;
  if (!wishes.preset.empty()) result = preparation_preset(wishes.preset);
  if (wishes.resize_shorter) result.resize_shorter = *wishes.resize_shorter;
  if (wishes.crop) result.crop = *wishes.crop;
  if (wishes.mean) result.image.mean = *wishes.mean;
  if (wishes.std) result.image.std = *wishes.std;
  if (wishes.scale) result.image.divisor = *wishes.scale == 255 ? 1 : 255;
  result.image.layout = wishes.layout;
  result.image.channels = wishes.channels;
  check_preparation(result);
  return result;
}

void check_preparation(const Preparation& preparation) {
  if (preparation.resize_shorter < 0 || preparation.crop < 0) {
    refuse_preparation("resize_shorter and crop are numbers of pixels, from 0 on");
  }
  if (preparation.resize_shorter > kMaxSide || preparation.crop > kMaxSide) {
    refuse_preparation(fmt::format("resize_shorter and crop are at most {} pixels", kMaxSide));
  }
  const ImageOptions& image = preparation.image;
  const float largest = 255 / image.divisor;
  for (const float mean : image.mean) {
    if (!std::isfinite(mean) || mean > largest) {
      refuse_preparation(fmt::format("a mean of {} is beyond values from 0 to {}{}", mean, largest,
                                     largest == 1 ? ": say scale 255" : ""));
    }
  }
  for (const float deviation : image.std) {
    if (!std::isfinite(deviation) || !(deviation > 0)) {
      refuse_preparation(fmt::format("a deviation (std) of {} is not above 0", deviation));
    }
  }
}

Image resize_shorter(const Image& image, std::int64_t size) {
  const auto longer = [&](std::int64_t length, std::int64_t shorter) {
    const std::int64_t scaled = size * length / shorter;
    // A picture of 1 × 100,000 pixels would take more memory than any of a set.
    if (scaled > kMaxSide) {
      refuse_preparation(
          fmt::format("a picture of {} x {} pixels whose shorter side is to be {}: its longer side "
                      "would be {} (at most {})",
                      image.width, image.height, size, scaled, kMaxSide));
    }
    return scaled;
  };
  if (image.width <= image.height) return resize(image, size, longer(image.height, image.width));
  return resize(image, longer(image.width, image.height), size);
}

Image center_crop(const Image& image, std::int64_t size) {
  if (image.width == size && image.height == size) return image;
  // Where the picture begins in the crop (it is smaller), or the crop in the picture.
  const auto place = [size](std::int64_t length) {
    return length < size ? std::pair{(size - length) / 2, std::int64_t{0}}
                         : std::pair{std::int64_t{0}, half_to_even(length - size)};
  };
  const auto [left, from_x] = place(image.width);
  const auto [top, from_y] = place(image.height);
  const std::int64_t width = std::min(size, image.width);
  const std::int64_t height = std::min(size, image.height);
  Image result{size, size, std::vector<std::uint8_t>(static_cast<std::size_t>(size * size) * 3)};
  for (std::int64_t y = 0; y < height; ++y) {
    std::memcpy(result.pixels.data() + ((top + y) * size + left) * 3,
                image.pixels.data() + ((from_y + y) * image.width + from_x) * 3,
                static_cast<std::size_t>(width) * 3);
  }
  return result;
}

Image prepare_image(const Image& image, const ImageShape& shape, const Preparation& preparation) {
  Image result;
  if (preparation.resize_shorter == 0 && preparation.crop == 0) {
    result = resize(image, shape.width < 0 ? image.width : shape.width,
                    shape.height < 0 ? image.height : shape.height);
  } else {
    result =
        preparation.resize_shorter > 0 ? resize_shorter(image, preparation.resize_shorter) : image;
    if (preparation.crop > 0) result = center_crop(result, preparation.crop);
  }
  if ((shape.height >= 0 && result.height != shape.height) ||
      (shape.width >= 0 && result.width != shape.width)) {
    refuse_preparation(
        fmt::format("the prepared picture has {} x {} pixels, the input wants {} x {} (width x "
                    "height): change crop",
                    result.width, result.height, shape.width, shape.height));
  }
  return result;
}

}  // namespace xrt
