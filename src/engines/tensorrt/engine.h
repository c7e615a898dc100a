// SPDX-License-Identifier: Apache-2.0
// NVIDIA TensorRT and TensorRT-RTX as an engine: nodes become layers of a strongly typed network,
// the vendor's builder makes a plan of it for one GPU. Inference only.
//
// Engine options: shapes ("N=1:8:32,H=224": ranges of the graph's symbols), refit ("1": constants
// may be replaced later), tf32 ("1": products of float32 in TF32), optimization_level ("0" to "5"),
// compute_capabilities ("89,120", TensorRT-RTX). Environment: XRT_TENSORRT_PLUGINS, libraries of
// the user's plugins, separated by ':'.
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

  std::string name() const override { return "tensorrt"; }
  // Library, GPUs and driver: a plan fits no other combination.
  std::string version() const override { return version_; }
  std::vector<std::string> devices() const override { return devices_; }
  bool dynamic_shapes() const override { return true; }
  std::string location() const override;

  Support supports(const SupportQuery& query) const override;
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override;
  std::shared_ptr<const Executable> load(const Tensor& blob, const Function& function,
                                         const CompileOptions& options) const override;
  std::shared_ptr<const Executable> refit(const Executable& executable, const Function& function,
                                          const CompileOptions& options) const override;
  std::vector<std::string> ops() const override;
  OpTraits traits(const std::string& op) const override;
  std::optional<std::vector<std::string>> option_names() const override;

 private:
  struct Setup;
  Setup prepare(const Function& function, const CompileOptions& options) const;

  std::shared_ptr<const Driver> driver_;
  std::string no_gpu_;
  std::string version_;
  std::vector<std::string> devices_;
};

}  // namespace xrt::tensorrt
