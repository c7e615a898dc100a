// SPDX-License-Identifier: Apache-2.0
// Any bytes given as a .npy file are an array or an xrt::Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "data/npy.h"
#include "xrt/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    xrt::parse_npy({reinterpret_cast<const char*>(data), size}, "a file");
  } catch (const xrt::Error&) {
    return 0;
  }
  return 0;
}
