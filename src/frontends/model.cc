// SPDX-License-Identifier: Apache-2.0
#include "xrt/model.h"

#include <system_error>

#include "frontends/model_files.h"
#include "xrt/oneflow.h"
#include "xrt/onnx.h"

namespace xrt {

std::filesystem::path model_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? path / "model.mlir" : path;
}

Graph import_model(const std::filesystem::path& path) {
  std::vector<ExternalFile> files;
  return import_model(path, files);
}

Graph import_model(const std::filesystem::path& path, std::vector<ExternalFile>& external) {
  return is_oneflow_model(path) ? import_oneflow(path, external) : import_onnx(path, external);
}

}  // namespace xrt
