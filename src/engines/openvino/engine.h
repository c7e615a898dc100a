// SPDX-License-Identifier: Apache-2.0
// OpenVINO's CPU plugin as an engine. What it runs is converted by OpenVINO's ONNX frontend, which
// reads our graph in memory (decoder.h), and by our own lowerings (lowerings.h).
#pragma once

#include <memory>
#include <mutex>
#include <openvino/runtime/core.hpp>
#include <string>
#include <vector>

#include "engines/openvino/support.h"
#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::openvino {

class OpenVinoEngine : public Engine {
 public:
  OpenVinoEngine();

  const EngineInfo& info() const override { return info_; }
  std::vector<std::string> ops() const override;
  Support supports(const SupportQuery& query) const override;
  std::vector<Support> supports_all(const SupportQuery& query) const override;
  // Engine options are properties of OpenVINO's CPU plugin by their OpenVINO names, e.g.
  // {"INFERENCE_PRECISION_HINT", "bf16"}.
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override;
  std::shared_ptr<const Executable> load(const TensorView& view, const Function& function,
                                         const CompileOptions& options) const override;

 private:
  struct State {
    std::shared_ptr<ov::Core> core;
    std::unique_ptr<SupportOracle> oracle;
  };
  // Made on first use: it loads the plugin.
  State& state() const;

  mutable std::once_flag once_;
  mutable State state_;
  EngineInfo info_;
};

}  // namespace xrt::openvino
