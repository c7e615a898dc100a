// SPDX-License-Identifier: Apache-2.0
// Any bytes given as a picture are its pixels or an xrt::Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "data/decode.h"
#include "xrt/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const xrt::Image image = xrt::decode_image({reinterpret_cast<const char*>(data), size});
    const auto pixels = static_cast<std::size_t>(image.width) * image.height;
    if (image.width < 1 || image.height < 1 || image.pixels.size() != pixels * 3) std::abort();
  } catch (const xrt::Error&) {
    return 0;
  }
  return 0;
}
