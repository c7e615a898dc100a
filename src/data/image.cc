// SPDX-License-Identifier: Apache-2.0
#include "data/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/half.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// --- resizing -----------------------------------------------------------------------------------

struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Taps> taps_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, std::llround(center - support));
    const auto last = std::min(from, static_cast<std::int64_t>(std::llround(center + support)));
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = first;
    double sum = 0;
    for (std::int64_t x = first; x < last; ++x) {
      const double distance = std::abs((static_cast<double>(x) + 0.5 - center) / support);
      const double weight = std::max(0.0, 1.0 - distance);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
  }
  return all;
}

// --- to tensors ---------------------------------------------------------------------------------

struct Layout {
  std::size_t channel, row, column;
};

bool may_be_channels(const Dim& dim) {
  return dim.is_known() && (dim.value() == 1 || dim.value() == 3);
}

Layout layout_of(const Type& type, const std::string& name, const std::string& wanted) {
  const std::size_t rank = type.rank();
  if (!type.has_rank() || (rank != 3 && rank != 4)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("input '{}' is {}: an image needs rank 3 or 4", name, to_string(type)));
  }
  const std::size_t base = rank - 3;
  const Layout first{base, base + 1, base + 2};
  const Layout last{base + 2, base, base + 1};
  if (wanted == "nchw") return first;
  if (wanted == "nhwc") return last;
  if (may_be_channels((*type.shape)[first.channel])) return first;
  if (may_be_channels((*type.shape)[last.channel])) return last;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("input '{}' is {}: where are the channels? Say --layout nchw or nhwc",
                          name, to_string(type)));
}

}  // namespace

Image read_image(const std::filesystem::path& path) {
  try {
    return decode_image(read_file(path));
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}: {}", path.string(), e.what()));
  }
}

Image resize(const Image& image, std::int64_t width, std::int64_t height) {
  if (image.width == width && image.height == height) return image;
  const std::vector<Taps> columns = taps_of(image.width, width);
  const std::vector<Taps> rows = taps_of(image.height, height);
  std::vector<float> wide(static_cast<std::size_t>(image.height * width) * 3);
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const Taps& taps = columns[static_cast<std::size_t>(x)];
      for (std::int64_t c = 0; c < 3; ++c) {
        float sum = 0;
        for (std::size_t i = 0; i < taps.weights.size(); ++i) {
          const std::int64_t from = taps.first + static_cast<std::int64_t>(i);
          sum += taps.weights[i] *
                 image.pixels[static_cast<std::size_t>((y * image.width + from) * 3 + c)];
        }
        wide[static_cast<std::size_t>((y * width + x) * 3 + c)] = sum;
      }
    }
  }
  Image result{width, height,
               std::vector<std::uint8_t>(static_cast<std::size_t>(width * height) * 3)};
  for (std::int64_t y = 0; y < height; ++y) {
    const Taps& taps = rows[static_cast<std::size_t>(y)];
    for (std::int64_t i = 0; i < width * 3; ++i) {
      float sum = 0;
      for (std::size_t t = 0; t < taps.weights.size(); ++t) {
        const std::int64_t from = taps.first + static_cast<std::int64_t>(t);
        sum += taps.weights[t] * wide[static_cast<std::size_t>(from * width * 3 + i)];
      }
      result.pixels[static_cast<std::size_t>(y * width * 3 + i)] =
          static_cast<std::uint8_t>(std::clamp(sum + 0.5F, 0.0F, 255.0F));
    }
  }
  return result;
}

Tensor image_tensor(const Image& image, const Type& type, const std::string& name,
                    const ImageOptions& options) {
  const Layout layout = layout_of(type, name, options.layout);
  const Shape& shape = *type.shape;
  const auto size_or = [&](std::size_t axis, std::int64_t fallback) {
    return shape[axis].is_known() ? shape[axis].value() : fallback;
  };
  const std::int64_t height = size_or(layout.row, image.height);
  const std::int64_t width = size_or(layout.column, image.width);
  const std::int64_t channels = size_or(layout.channel, 3);
  if (height <= 0 || width <= 0 || (channels != 1 && channels != 3)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("input '{}' is {}: an image has 1 or 3 channels", name, to_string(type)));
  }
  if (shape.size() == 4 && shape[0].is_known() && shape[0].value() != 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("input '{}' is {}: one image is a batch of 1", name, to_string(type)));
  }
  const Image scaled = resize(image, width, height);
  Dims dims(shape.size(), 1);
  dims[layout.channel] = channels;
  dims[layout.row] = height;
  dims[layout.column] = width;
  Tensor tensor = Tensor::allocate(type.dtype, dims);
  const bool first = layout.channel < layout.row;
  for (std::int64_t p = 0; p < width * height; ++p) {
    const std::uint8_t* pixel = scaled.pixels.data() + p * 3;
    for (std::int64_t c = 0; c < channels; ++c) {
      // ITU-R BT.601 luma where the model wants one channel.
      const float grey = 0.299F * pixel[0] + 0.587F * pixel[1] + 0.114F * pixel[2];
      const float value =
          channels == 1 ? grey : static_cast<float>(pixel[options.channels == "bgr" ? 2 - c : c]);
      const auto channel = static_cast<std::size_t>(c);
      const float scaled_value = (value / 255.0F - options.mean[channel]) / options.std[channel];
      const std::int64_t at = first ? c * width * height + p : p * channels + c;
      switch (type.dtype) {
        case DType::kFloat32:
          tensor.data<float>()[at] = scaled_value;
          break;
        case DType::kFloat16:
          tensor.data<std::uint16_t>()[at] = float_to_half(scaled_value);
          break;
        case DType::kUInt8:
          tensor.data<std::uint8_t>()[at] = static_cast<std::uint8_t>(std::lround(value));
          break;
        default:
          throw Error(ErrorCode::kInvalidArgument,
                      fmt::format("input '{}' is {}: an image becomes float32, float16 or uint8; "
                                  "pass a .npy file",
                                  name, to_string(type)));
      }
    }
  }
  return tensor;
}

}  // namespace xrt
