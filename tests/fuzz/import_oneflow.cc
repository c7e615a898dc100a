// SPDX-License-Identifier: Apache-2.0
// Any text given as a OneFlow job either becomes a graph or is an xrt::Error.
#include <cstddef>
#include <cstdint>

#include "frontends/oneflow/variables.h"
#include "xrt/error.h"
#include "xrt/oneflow.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    xrt::import_oneflow_job(text, {});
  } catch (const xrt::Error&) {
  }
  try {
    xrt::oneflow::parse_meta(text);
  } catch (const xrt::Error&) {
  }
  return 0;
}
