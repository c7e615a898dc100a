// SPDX-License-Identifier: Apache-2.0
// Pictures as tensors.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include "data/decode.h"
#include "xrt/tensor.h"
#include "xrt/type.h"

namespace xrt {

// A PNG, JPEG, BMP or PNM file.
Image read_image(const std::filesystem::path& path);

// Separable triangle filter whose support grows when the image shrinks: Pillow's BILINEAR, bit for
// bit.
Image resize(const Image& image, std::int64_t width, std::int64_t height);

struct ImageOptions {
  std::string layout = "auto";   // "nchw", "nhwc", or by which dimension is 1 or 3
  std::string channels = "rgb";  // "rgb" or "bgr"
  // value = (pixel / divisor - mean) / std, per channel, for floating inputs; integer inputs take
  // the pixel as it is.
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> std{1, 1, 1};
  float divisor = 255;
};

// What an input makes of a picture: which axes of its shape are channels, rows and columns, and
// their sizes; -1 where the input leaves one open.
struct ImageShape {
  std::size_t channel = 0, row = 0, column = 0;
  std::int64_t channels = 3, height = -1, width = -1;
};

// Throws kInvalidArgument, naming the input, for a rank other than 3 and 4, and where the channels
// are neither 1 nor 3 or cannot be found.
ImageShape image_shape(const Type& type, const std::string& name, const ImageOptions& options);

// Writes the pixels of one picture to `to`, which has room for them: float32, float16 or uint8.
// One channel is Pillow's "L" (luma of ITU-R BT.601). kInvalidArgument for another dtype.
void store_image(const Image& image, const ImageShape& shape, DType dtype,
                 const ImageOptions& options, void* to);

// The image as the value of an input of that type (rank 3 or 4; 1 or 3 channels; float32, float16,
// or an 8-bit integer), resized to its height and width where they are numbers.
Tensor image_tensor(const Image& image, const Type& type, const std::string& name,
                    const ImageOptions& options);

}  // namespace xrt
