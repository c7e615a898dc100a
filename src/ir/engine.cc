// SPDX-License-Identifier: Apache-2.0
// The out-of-line parts of xrt/engine.h: key functions (one vtable for every library) and defaults.
#include "xrt/engine.h"

#include "xrt/engine_blobs.h"
#include "xrt/engine_remarks.h"
#include "xrt/engine_workspace.h"

namespace xrt {

RunContext::~RunContext() = default;
Executable::~Executable() = default;
TellsRemarks::~TellsRemarks() = default;
TellsWorkspace::~TellsWorkspace() = default;
Engine::~Engine() = default;
EngineRegistry::~EngineRegistry() = default;
SelfContainedBlobs::~SelfContainedBlobs() = default;

std::vector<Support> Engine::supports_all(const Graph& graph, const std::string& device,
                                          Phase phase) const {
  std::vector<Support> answers(graph.node_capacity(), Support::no("the node was removed"));
  for (const NodeId id : graph.nodes()) {
    answers[static_cast<std::size_t>(id.index)] = supports({graph, id, device, phase});
  }
  return answers;
}

std::shared_ptr<const Executable> Engine::load(const Tensor& /*blob*/, const Function& function,
                                               const CompileOptions& /*options*/) const {
  throw Error(ErrorCode::kUnsupported,
              "engine '" + name() + "' cannot load function '" + function.name + "' from bytes");
}

std::shared_ptr<const Executable> Engine::refit(const Executable& /*executable*/,
                                                const Function& function,
                                                const CompileOptions& /*options*/) const {
  throw Error(
      ErrorCode::kUnsupported,
      "engine '" + name() + "' cannot change the weights of function '" + function.name + "'");
}

}  // namespace xrt
