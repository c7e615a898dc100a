// SPDX-License-Identifier: Apache-2.0
// A plan that a GPU of this machine has taken.
#pragma once

#include <NvInfer.h>

#include <cstddef>
#include <filesystem>
#include <memory>

#include "engines/tensorrt/plan.h"

namespace xrt::tensorrt {

class GpuPlan : public EnginePlan {
 public:
  // `outputs`: how many the function has. `runtime_cache`: the file for what TensorRT-RTX compiles
  // on the GPU, or empty. Throws kEngine with the library's reason.
  GpuPlan(Tensor bytes, std::size_t outputs, const std::filesystem::path& runtime_cache);
  ~GpuPlan() override;

  std::unique_ptr<Execution> make_execution() const override;
  const Tensor& bytes() const override { return bytes_; }
  std::size_t workspace_bytes() const override;
  nvinfer1::ICudaEngine& engine() const;

 private:
  struct Engine;
  Tensor bytes_;
  std::size_t outputs_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace xrt::tensorrt
