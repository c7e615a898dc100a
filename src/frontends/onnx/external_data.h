// SPDX-License-Identifier: Apache-2.0
// Tensors of a model that lie in files beside it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/file.h"
#include "onnx/proto.h"
#include "xrt/tensor.h"

namespace xrt {

// Maps each file once; tensors keep their file mapped.
class ExternalData {
 public:
  explicit ExternalData(const std::filesystem::path& folder);

  // Throws kInvalidModel where the location leaves the folder (".." or a link) or the range lies
  // outside of the file, kNotFound where the file is missing.
  Tensor load(const onnx::TensorProto& proto, DType dtype, const Dims& dims,
              const std::string& what);

  // Those mapped so far, by location.
  const std::map<std::string, std::shared_ptr<const MappedFile>>& files() const { return files_; }

 private:
  std::shared_ptr<const MappedFile> file(const std::string& location, const std::string& what);

  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
  std::size_t copied_ = 0;  // bytes
};

}  // namespace xrt
