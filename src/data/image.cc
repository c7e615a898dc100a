// SPDX-License-Identifier: Apache-2.0
#include "data/image.h"

#include <fmt/format.h>

#include <array>

#include "base/file.h"
#include "base/half.h"
#include "xrt/error.h"

namespace xrt {
namespace {

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

float prepared(int pixel, std::size_t channel, const ImageOptions& options) {
  return (static_cast<float>(pixel) / options.divisor - options.mean[channel]) /
         options.std[channel];
}

// A pixel has 256 levels: `value` is asked once for each of them and channel.
template <typename T, typename Value>
void store(const Image& image, const ImageShape& shape, const ImageOptions& options, T* to,
           const Value& value) {
  const std::int64_t count = image.width * image.height;
  const bool planes = shape.channel < shape.row;
  const std::int64_t step = planes ? 1 : shape.channels;
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    std::array<T, 256> table;
    for (int pixel = 0; pixel < 256; ++pixel) {
      table[static_cast<std::size_t>(pixel)] = value(pixel, static_cast<std::size_t>(c), options);
    }
    T* at = to + (planes ? c * count : c);
    const std::uint8_t* from = image.pixels.data();
    if (shape.channels == 1) {
      for (std::int64_t p = 0; p < count; ++p, from += 3, at += step) {
        *at = table[(19595U * from[0] + 38470U * from[1] + 7471U * from[2] + 0x8000U) >> 16U];
      }
    } else {
      from += options.channels == "bgr" ? 2 - c : c;
      for (std::int64_t p = 0; p < count; ++p, from += 3, at += step) *at = table[*from];
    }
  }
}

}  // namespace

Image read_image(const std::filesystem::path& path) {
  try {
    return decode_image(read_file(path));
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}: {}", path.string(), e.what()));
  }
}

ImageShape image_shape(const Type& type, const std::string& name, const ImageOptions& options) {
  const Layout layout = layout_of(type, name, options.layout);
  const Shape& shape = *type.shape;
  const auto size = [&](std::size_t axis) {
    return shape[axis].is_known() ? shape[axis].value() : -1;
  };
  const std::int64_t channels = size(layout.channel) < 0 ? 3 : size(layout.channel);
  if (size(layout.row) == 0 || size(layout.column) == 0 || (channels != 1 && channels != 3)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("input '{}' is {}: an image has 1 or 3 channels", name, to_string(type)));
  }
  return {layout.channel, layout.row,       layout.column,
          channels,       size(layout.row), size(layout.column)};
}

void store_image(const Image& image, const ImageShape& shape, DType dtype,
                 const ImageOptions& options, void* to) {
  switch (dtype) {
    case DType::kFloat32:
      return store(image, shape, options, static_cast<float*>(to), prepared);
    case DType::kFloat16:
      return store(image, shape, options, static_cast<std::uint16_t*>(to),
                   [](int pixel, std::size_t channel, const ImageOptions& how) {
                     return float_to_half(prepared(pixel, channel, how));
                   });
    case DType::kUInt8:
      return store(image, shape, options, static_cast<std::uint8_t*>(to),
                   [](int pixel, std::size_t, const ImageOptions&) {
                     return static_cast<std::uint8_t>(pixel);
                   });
    default:
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("an image becomes float32, float16 or uint8, not {}", to_string(dtype)));
  }
}

Tensor image_tensor(const Image& image, const Type& type, const std::string& name,
                    const ImageOptions& options) {
  ImageShape wanted = image_shape(type, name, options);
  const Shape& shape = *type.shape;
  if (shape.size() == 4 && shape[0].is_known() && shape[0].value() != 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("input '{}' is {}: one image is a batch of 1", name, to_string(type)));
  }
  if (wanted.height < 0) wanted.height = image.height;
  if (wanted.width < 0) wanted.width = image.width;
  Dims dims(shape.size(), 1);
  dims[wanted.channel] = wanted.channels;
  dims[wanted.row] = wanted.height;
  dims[wanted.column] = wanted.width;
  Tensor tensor = Tensor::allocate(type.dtype, dims);
  try {
    store_image(resize(image, wanted.width, wanted.height), wanted, type.dtype, options,
                tensor.raw());
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("input '{}' is {}: {}; pass a .npy file", name,
                                      to_string(type), e.what()));
  }
  return tensor;
}

}  // namespace xrt
