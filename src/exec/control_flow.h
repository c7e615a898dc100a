// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan run by the runtime itself, so that their bodies can run on several engines.
//
// A node goes whole to the first engine of the program's list where that engine takes it whole.
// Where one does not, and an engine before the first that does would take some of the nodes in the
// bodies, the runtime drives the node and each body is a program of its own (exec/body.h). A
// loop whose body would run on one engine anyway stays there: nothing would be won.
//
// In explanations such a node runs on the engine "runtime", and the nodes of its bodies follow it,
// named "loop/body/node". By these names `node_engines` places them, too; {loop, "runtime"} asks
// for the runtime.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/profiler.h"
#include "registry/engine_names.h"
#include "xrt/engine.h"
#include "xrt/explanation.h"
#include "xrt/options.h"
#include "xrt/registry.h"

namespace xrt {

// If, Loop or Scan of the standard.
bool is_control_flow(const Node& node);

// The node's bodies, detached (partition/fold.h), by name of the attribute; their inputs have the
// types that they have in the first iteration as far as that is known. Unknown where the node's
// inputs are.
std::vector<std::pair<std::string, Graph>> detached_bodies(const Graph& graph, NodeId id);

// The overrides for nodes inside the given body, by the names that they have there.
std::map<std::string, std::string> overrides_within(
    const std::map<std::string, std::string>& overrides, const std::string& node,
    const std::string& attribute);

class ControlFlow : public Executable {
 public:
  void run(RunContext* context, std::span<const Data> inputs, std::span<Data> outputs,
           const RunOptions& options) const override;
  // The same; launches inside the bodies are recorded by `profiler`.
  virtual void run(std::span<const Data> inputs, std::span<Data> outputs,
                   Profiler& profiler) const = 0;
  // Appends the rows of the bodies.
  virtual void explain(Explanation& to) const = 0;
};

// Compiles functions of one control-flow node each. It belongs to one plan: what it compiles
// depends on the program's options, so it is never shared or cached as a whole (the functions of
// the bodies are).
class RuntimeEngine final : public Engine {
 public:
  // `options` are those for the bodies: the engines by name. `scope` precedes names in traces.
  RuntimeEngine(ProgramOptions options, std::string scope)
      : options_(std::move(options)), scope_(std::move(scope)) {}

  std::string name() const override { return kRuntimeEngine; }
  std::string version() const override;
  bool dynamic_shapes() const override { return true; }
  // A control-flow node whose bodies fit it.
  Support supports(const SupportQuery& query) const override;
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override;

 private:
  ProgramOptions options_;
  std::string scope_;
};

}  // namespace xrt
