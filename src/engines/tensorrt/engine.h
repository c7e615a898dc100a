// SPDX-License-Identifier: Apache-2.0
// NVIDIA TensorRT and TensorRT-RTX as an engine: nodes become layers of a strongly typed network,
// the vendor's builder makes a plan of it for one GPU. Inference only.
// Environment: XRT_TENSORRT_PLUGINS, libraries of the user's plugins, separated by ':'.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/tensorrt/driver.h"
#include "xrt/engine.h"

namespace xrt::tensorrt {

class TensorRtEngine : public Engine {
 public:
  // Throws kEngine if library and headers do not fit each other. Without a driver, for the reason
  // `no_gpu`, plans can be built (by TensorRT-RTX, with the option compute_capabilities) and kept,
  // not run.
  explicit TensorRtEngine(std::shared_ptr<const Driver> driver, std::string no_gpu = {});

  // Version: library, GPUs and driver; a plan fits no other combination.
  const EngineInfo& info() const override { return info_; }
  std::vector<std::string> ops() const override;

  Support supports(const SupportQuery& query) const override;
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override;
  std::shared_ptr<const Executable> load(const TensorView& view, const Function& function,
                                         const CompileOptions& options) const override;

 private:
  struct Setup;
  Setup prepare(const Function& function, const CompileOptions& options) const;

  std::shared_ptr<const Driver> driver_;
  std::string no_gpu_;
  EngineInfo info_;
};

}  // namespace xrt::tensorrt
