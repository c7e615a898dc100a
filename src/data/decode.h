// SPDX-License-Identifier: Apache-2.0
// Encoded pictures as pixels.
//
//   const Image image = decode_image(bytes);  // PNG, JPEG, BMP or PNM, told apart by their first
//   bytes
//
// Bytes that are damaged, cut short or of another format, and pictures of more than 2^28 pixels,
// are errors; nothing outside the bytes is read.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace xrt {

// 8-bit RGB, row-major, three bytes a pixel.
struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels;
};

// Grey and palette pictures become RGB; transparency is laid over black; 16 bits become 8. Throws
// kInvalidArgument for damaged bytes, kUnsupported for a format, or a kind of it, that is not read.
Image decode_image(std::string_view bytes);

}  // namespace xrt
