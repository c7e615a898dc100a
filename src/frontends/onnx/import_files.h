// SPDX-License-Identifier: Apache-2.0
// Import that also tells which files of external data the model's tensors lie in.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "xrt/graph.h"

namespace xrt {

struct ExternalFile {
  std::string location;  // as the model says it, relative to the model's folder
  std::shared_ptr<const MappedFile> file;
};

// As import_onnx(path) of xrt/onnx.h.
Graph import_onnx(const std::filesystem::path& path, std::vector<ExternalFile>& external);

}  // namespace xrt
