// SPDX-License-Identifier: Apache-2.0
// The formats that need no library.
#pragma once

#include <string_view>

#include "data/decode.h"

namespace xrt {

// A larger picture is more likely a damaged header.
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28U;

// Windows bitmaps of 24 or 32 bits per pixel, or of 8 with a palette, uncompressed.
Image decode_bmp(std::string_view bytes);

// Netpbm: P2, P3, P5 and P6 of up to 255 levels.
Image decode_pnm(std::string_view bytes);

}  // namespace xrt
