// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan that the runtime drives (placement/control_flow.h): a kind of launch beside
// those of engines.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "exec/profiler.h"
#include "exec/run_record.h"
#include "xrt/explanation.h"
#include "xrt/graph.h"
#include "xrt/options.h"
#include "xrt/tensor.h"

namespace xrt {

// Shared by all runs; belongs to one executor, as what its bodies compile to depends on the
// options.
class ControlFlow {
 public:
  virtual ~ControlFlow() = default;
  // Inputs and outputs follow the function's. Launches inside the bodies are recorded by
  // `profiler`; `record`, which may be null, gets what their functions read and wrote.
  virtual void run(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
                   RunRecord* record) const = 0;
  // Whether the bodies may have something to record.
  virtual bool has_checked_functions() const = 0;
  // Appends the rows of the bodies.
  virtual void explain(Explanation& to) const = 0;
  // Scratch memory of one run.
  virtual std::size_t workspace_bytes() const = 0;
};

// `function` holds one control-flow node. `options` are those for the bodies: the engines by name.
// `scope` precedes names in traces.
std::shared_ptr<const ControlFlow> make_control_flow(const Graph& function,
                                                     const ProgramOptions& options,
                                                     const std::string& scope);

}  // namespace xrt
