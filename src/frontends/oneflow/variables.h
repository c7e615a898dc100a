// SPDX-License-Identifier: Apache-2.0
// The variables of a folder that OneFlow saved: <name>/meta says dtype and shape, <name>/out holds
// the elements.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/import_files.h"
#include "xrt/export.h"
#include "xrt/tensor.h"
#include "xrt/type.h"

namespace xrt::oneflow {

// What a `meta` file says: protobuf's text form of OneFlow's VariableMetaInfo. kInvalidModel with
// the line otherwise.
XRT_API Type parse_meta(std::string_view text);

class VariableFiles {
 public:
  // kNotFound where the folder is missing.
  explicit VariableFiles(const std::filesystem::path& folder);

  // Mapped, not copied. Throws kNotFound where a file is missing, kInvalidModel where the name
  // leaves the folder, the meta file says another type, or the elements are fewer or more.
  Tensor load(const std::string& name, const Type& type);

  // The mapped files of elements so far.
  std::vector<ExternalFile> take_files() { return std::move(files_); }

 private:
  std::filesystem::path folder_;  // canonical
  std::vector<ExternalFile> files_;
};

}  // namespace xrt::oneflow
