// SPDX-License-Identifier: Apache-2.0
// Any bytes given as an ONNX model either become a graph or an xrt::Error: no crash, no hang, no
// other exception, no memory far beyond the size of the file. What was read can be printed and
// written.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "frontends/onnx/importer.h"
#include "ir/printer.h"
#include "onnx/exporter.h"
#include "wire_mutator.h"
#include "xrt/error.h"
#include "xrt/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const xrt::Graph graph = xrt::import_onnx_bytes({reinterpret_cast<const char*>(data), size});
    xrt::print(graph);
    xrt::export_onnx(graph);
  } catch (const xrt::Error&) {
  }
  return 0;
}
