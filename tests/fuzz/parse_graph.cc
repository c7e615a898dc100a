// SPDX-License-Identifier: Apache-2.0
// Any text given as a graph either becomes one or is an xrt::Error; what was read prints to a text
// that reads back to the same text.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"
#include "xrt/graph.h"

namespace {

void check_round_trip(const xrt::Graph& graph) {
  const std::string text = xrt::print(graph, xrt::PrintOptions::exact());
  const std::string again = xrt::print(xrt::parse_graph(text), xrt::PrintOptions::exact());
  if (text != again) {
    std::fprintf(stderr, "printed:\n%s\nand after reading it:\n%s\n", text.c_str(), again.c_str());
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::optional<xrt::Graph> graph;
  try {
    xrt::Graph read = xrt::parse_graph({reinterpret_cast<const char*>(data), size});
    xrt::infer_shapes(read);
    xrt::verify(read);
    graph = std::move(read);
  } catch (const xrt::Error&) {
    return 0;
  }
  check_round_trip(*graph);
  return 0;
}
