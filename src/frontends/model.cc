// SPDX-License-Identifier: Apache-2.0
#include "xrt/model.h"

#include <system_error>

#include "frontends/model_files.h"
#include "xrt/error.h"
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

Graph import_model(const std::filesystem::path& path, std::vector<ExternalFile>& external,
                   const ImportBounds& bounds) {
  if (!is_oneflow_model(path)) return import_onnx(path, external, bounds);
  // Its text holds a job's nodes as they are: nothing multiplies.
  Graph graph = import_oneflow(path, external);
  if (graph.node_count() > static_cast<std::size_t>(bounds.max_nodes)) {
    throw Error(ErrorCode::kResource,
                "'" + path.string() + "' has " + std::to_string(graph.node_count()) +
                    " nodes; max_nodes is " + std::to_string(bounds.max_nodes));
  }
  return graph;
}

}  // namespace xrt
