// SPDX-License-Identifier: Apache-2.0
// ONNX models to Graph.
//
//   Graph graph = import_onnx("model.onnx");
//
// - Standard opsets 7 to 28 are brought to the pinned one (upgrade.h); model-local functions are
//   inlined, Constant nodes become constants, types are inferred and the result is verified.
// - Weights are not copied: raw data stays in the parsed message, external data is mapped. External
//   data must lie inside the model's folder, also after following links.
// - Ops of other domains are kept as they are.
// - Whatever is wrong with the model is an xrt::Error: kInvalidModel or kUnsupported naming the
// node
//   or value, kNotFound or kIo naming the file, kResource where a bound is reached.
#pragma once

#include <filesystem>
#include <string_view>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

XRT_API Graph import_onnx(const std::filesystem::path& path);
// A serialised ModelProto. External data is refused: there is no folder it could lie in.
XRT_API Graph import_onnx_bytes(std::string_view bytes);

}  // namespace xrt
