// SPDX-License-Identifier: Apache-2.0
// Graph to ONNX.
//
//   std::string bytes = export_onnx(graph);
//   export_onnx_file(graph, "model.onnx", {.inline_limit = 1024});  // weights in model.onnx.data
//
// The model declares the oldest opset from 19 on at which all its nodes mean what they mean at the
// pinned one, so that older consumers read it. ONNX's checker accepts the model where
// every graph output has a known rank.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

struct ExportOptions {
  // Tensors of more bytes are not in the model but external data.
  std::size_t inline_limit = std::numeric_limits<std::size_t>::max();
};

// A serialised ModelProto. External data refers to the tensors' memory (kMemoryLocation of
// xrt/engine.h): it is valid while the graph's tensors live. Throws kUnsupported beyond 2 GB.
XRT_API std::string export_onnx(const Graph& graph, const ExportOptions& options = {});

// Writes the model, and external data to a file beside it named `<file name>.data`.
XRT_API void export_onnx_file(const Graph& graph, const std::filesystem::path& path,
                              const ExportOptions& options = {});

}  // namespace xrt
