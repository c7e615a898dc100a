// SPDX-License-Identifier: Apache-2.0
// A model of any format that is read from files.
#pragma once

#include <filesystem>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// An ONNX file (xrt/onnx.h), or a folder that OneFlow saved or its model.mlir (xrt/oneflow.h).
XRT_API Graph import_model(const std::filesystem::path& path);

}  // namespace xrt
