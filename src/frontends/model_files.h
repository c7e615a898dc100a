// SPDX-License-Identifier: Apache-2.0
// Import that also tells which files beside the model its tensors lie in.
#pragma once

#include <filesystem>
#include <vector>

#include "frontends/onnx/import_files.h"
#include "xrt/graph.h"

namespace xrt {

// The file that makes the model what it is: the path itself, or the model.mlir of a folder. The
// locations of external files are relative to its folder.
std::filesystem::path model_file(const std::filesystem::path& path);

// As import_model(path) of xrt/model.h, import_oneflow(path) of xrt/oneflow.h.
Graph import_model(const std::filesystem::path& path, std::vector<ExternalFile>& external,
                   const ImportBounds& bounds = {});
Graph import_oneflow(const std::filesystem::path& path, std::vector<ExternalFile>& external);

}  // namespace xrt
