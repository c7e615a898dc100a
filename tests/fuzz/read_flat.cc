// SPDX-License-Identifier: Apache-2.0
// A block of the caches' own form with a changed word gives a graph or an xrt::Error, whatever was
// changed. An input is eight bytes that say what to change, and a graph's text that is written to a
// block.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "ir/flat.h"
#include "ir/parser.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"
#include "xrt/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint32_t place = 0, change = 0;
  if (size < sizeof(place) + sizeof(change)) return 0;
  std::memcpy(&place, data, sizeof(place));
  std::memcpy(&change, data + sizeof(place), sizeof(change));
  const std::string_view text(reinterpret_cast<const char*>(data) + 8, size - 8);
  try {
    const xrt::Graph graph = xrt::parse_graph(text);
    xrt::FlatWriter writer;
    writer.graph(graph);
    std::string block;
    for (const std::string_view piece : writer.finish()) block += piece;
    xrt::Tensor bytes =
        xrt::Tensor::allocate(xrt::DType::kUInt8, {static_cast<std::int64_t>(block.size())});
    std::memcpy(bytes.raw(), block.data(), block.size());
    if (block.size() >= sizeof(change)) {
      std::uint32_t word = 0;
      std::uint8_t* at = bytes.data<std::uint8_t>() + place % (block.size() - sizeof(word) + 1);
      std::memcpy(&word, at, sizeof(word));
      word ^= change;
      std::memcpy(at, &word, sizeof(word));
    }
    xrt::FlatReader reader(bytes);
    xrt::Graph read = reader.graph();
    xrt::infer_shapes(read);
  } catch (const xrt::Error&) {
    return 0;
  }
  return 0;
}
