// SPDX-License-Identifier: Apache-2.0
// XLA as an engine: nodes are lowered to StableHLO, compiled and run by a PJRT plugin.
//
// Engine options: every key that begins with "xla_" is passed on as a flag of XLA's compiler, e.g.
// {"xla_cpu_prefer_vector_width", "512"}. Of other keys there are stablehlo_dir and tf32.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/xla/executable.h"
#include "engines/xla/lowering.h"
#include "engines/xla/pjrt_api.h"
#include "xrt/engine.h"

namespace xrt::xla {

class XlaEngine : public Engine {
 public:
  // Throws kNotFound or kEngine if no plugin can be used.
  XlaEngine();

  // Devices: "cpu" where there is a CPU plugin; "cuda" and "cuda:N" where there are a CUDA plugin
  // and GPUs.
  const EngineInfo& info() const override { return info_; }
  std::vector<std::string> ops() const override { return lowerings().ops(); }

  Support supports(const SupportQuery& query) const override;
  std::vector<Support> supports_all(const SupportQuery& query) const override;
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override;
  std::shared_ptr<const Executable> load(const TensorView& view, const Function& function,
                                         const CompileOptions& options) const override;

 private:
  EngineInfo info_;
};

// The module of a function; throws kUnsupported naming the node that cannot be lowered.
Module lower_function(const Function& function, Products products = {});
// Whether this node can be lowered; independent of any plugin.
Support can_lower(const Graph& graph, NodeId id);

}  // namespace xrt::xla
