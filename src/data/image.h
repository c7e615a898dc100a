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

// Separable triangle filter whose support grows when the image shrinks: what Pillow calls BILINEAR.
Image resize(const Image& image, std::int64_t width, std::int64_t height);

struct ImageOptions {
  std::string layout = "auto";   // "nchw", "nhwc", or by which dimension is 1 or 3
  std::string channels = "rgb";  // "rgb" or "bgr"
  // value = (pixel / 255 - mean) / std, per channel, for floating inputs; integer inputs take the
  // pixel as it is.
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> std{1, 1, 1};
};

// The image as the value of an input of that type (rank 3 or 4; 1 or 3 channels; float32, float16,
// or an 8-bit integer), resized to its height and width where they are numbers.
Tensor image_tensor(const Image& image, const Type& type, const std::string& name,
                    const ImageOptions& options);

}  // namespace xrt
