// SPDX-License-Identifier: Apache-2.0
// Import that also tells which files of external data the model's tensors lie in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "xrt/graph.h"

namespace xrt {

struct ExternalFile {
  std::string location;  // as the model says it, relative to the model's folder
  std::shared_ptr<const MappedFile> file;
};

// Beyond them an import throws kResource.
struct ImportBounds {
  // With functions expanded and sub-graphs.
  std::int64_t max_nodes = 10'000'000;
  // What the parsed messages take, and tensors that the file does not hold as they are, besides 24
  // times the file's size; 0: 256 MiB. Messages of a mebibyte are always allowed.
  std::size_t max_memory_bytes = 0;
};

// As import_onnx(path) of xrt/onnx.h.
Graph import_onnx(const std::filesystem::path& path, std::vector<ExternalFile>& external,
                  const ImportBounds& bounds = {});
Graph import_onnx_bytes(std::string_view bytes, const ImportBounds& bounds);

}  // namespace xrt
