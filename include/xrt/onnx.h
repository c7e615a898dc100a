// SPDX-License-Identifier: Apache-2.0
// ONNX models to Graph and back.
//
//   xrt::Graph graph = xrt::import_onnx("model.onnx");
//   std::string bytes = xrt::export_onnx(graph);
//   xrt::export_onnx_file(graph, "model.onnx", {.inline_limit = 1024});  // weights in *.data
//
// Import:
// - Standard opsets 1 to 28 are brought to the pinned one; model-local functions are inlined,
//   Constant nodes become constants, types are inferred and the result is verified.
// - Weights are not copied: raw data stays in the parsed message, external data is mapped. External
//   data must lie inside the model's folder, also after following links.
// - Ops of other domains are kept as they are.
// - Errors: kInvalidModel and kUnsupported name the node or value, kNotFound and kIo the file;
//   kResource where a bound is reached.
//
// Export: the model declares the oldest opset from 19 on at which all its nodes mean what they mean
// at the pinned one, so that older consumers read it. ONNX's checker accepts the model where every
// graph output has a known rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

XRT_API Graph import_onnx(const std::filesystem::path& path);
// A serialised ModelProto. External data is refused: there is no folder it could lie in.
XRT_API Graph import_onnx_bytes(std::string_view bytes);

struct ExportOptions {
  // Tensors of more bytes are not in the model but external data.
  std::size_t inline_limit = std::numeric_limits<std::size_t>::max();
  // export_onnx only: where external data is said to be.
  std::string location = kMemoryLocation;
};

// The version of each domain that an export of the graph declares.
XRT_API std::map<std::string, std::int64_t> exported_opsets(const Graph& graph);

// A serialised ModelProto. The offset of external data is the address of the tensor's memory
// (kMemoryLocation of xrt/graph.h): it is valid while the graph's tensors live. Throws kUnsupported
// beyond 2 GB.
XRT_API std::string export_onnx(const Graph& graph, const ExportOptions& options = {});

// Writes the model, and external data to a file beside it named `<file name>.data`.
XRT_API void export_onnx_file(const Graph& graph, const std::filesystem::path& path,
                              const ExportOptions& options = {});

}  // namespace xrt
