// SPDX-License-Identifier: Apache-2.0
// Pillow's arithmetic for 8-bit pictures: weights rounded to 22 bits behind the point, sums in
// int32, and a picture of 8 bits between the horizontal pass, which comes first, and the vertical
// one.
#include <algorithm>
#include <cmath>

#include "data/image.h"

namespace xrt {
namespace {

constexpr int kPointBits = 32 - 8 - 2;

struct Taps {
  std::int64_t first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Taps> taps_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(scale, 1.0);
  const double shrink = 1.0 / support;
  std::vector<Taps> all(static_cast<std::size_t>(to));
  std::vector<double> weights;
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - support + 0.5));
    const auto last = std::min(from, static_cast<std::int64_t>(center + support + 0.5));
    weights.clear();
    double sum = 0;
    for (std::int64_t x = first; x < last; ++x) {
      const double distance = std::abs((static_cast<double>(x) - center + 0.5) * shrink);
      weights.push_back(std::max(0.0, 1.0 - distance));
      sum += weights.back();
    }
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = first;
    for (const double weight : weights) {
      taps.weights.push_back(
          static_cast<std::int32_t>(0.5 + weight / sum * static_cast<double>(1U << kPointBits)));
    }
  }
  return all;
}

std::uint8_t pixel_of(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kPointBits, 0, 255));
}

constexpr std::int32_t kHalf = 1 << (kPointBits - 1);

Image resize_rows(const Image& image, std::int64_t width) {
  const std::vector<Taps> columns = taps_of(image.width, width);
  Image result{width, image.height,
               std::vector<std::uint8_t>(static_cast<std::size_t>(width * image.height) * 3)};
  std::uint8_t* to = result.pixels.data();
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* row = image.pixels.data() + y * image.width * 3;
    for (const Taps& taps : columns) {
      std::int32_t red = kHalf, green = kHalf, blue = kHalf;
      const std::uint8_t* from = row + taps.first * 3;
      for (const std::int32_t weight : taps.weights) {
        red += weight * from[0];
        green += weight * from[1];
        blue += weight * from[2];
        from += 3;
      }
      *to++ = pixel_of(red);
      *to++ = pixel_of(green);
      *to++ = pixel_of(blue);
    }
  }
  return result;
}

Image resize_columns(const Image& image, std::int64_t height) {
  const std::vector<Taps> rows = taps_of(image.height, height);
  const auto row_size = static_cast<std::size_t>(image.width) * 3;
  Image result{image.width, height,
               std::vector<std::uint8_t>(row_size * static_cast<std::size_t>(height))};
  std::vector<std::int32_t> sums(row_size);
  std::uint8_t* to = result.pixels.data();
  for (const Taps& taps : rows) {
    std::fill(sums.begin(), sums.end(), kHalf);
    const std::uint8_t* from =
        image.pixels.data() + static_cast<std::size_t>(taps.first) * row_size;
    for (const std::int32_t weight : taps.weights) {
      for (std::size_t i = 0; i < row_size; ++i) sums[i] += weight * from[i];
      from += row_size;
    }
    for (std::size_t i = 0; i < row_size; ++i) *to++ = pixel_of(sums[i]);
  }
  return result;
}

}  // namespace

Image resize(const Image& image, std::int64_t width, std::int64_t height) {
  if (image.width == width && image.height == height) return image;
  if (image.height == height) return resize_rows(image, width);
  if (image.width == width) return resize_columns(image, height);
  return resize_columns(resize_rows(image, width), height);
}

}  // namespace xrt
