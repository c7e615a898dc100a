// SPDX-License-Identifier: Apache-2.0
// Which engines a program may use, and what each of them says about every node.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "partition/partition.h"
#include "xrt/engine.h"
#include "xrt/program.h"

namespace xrt {

struct Placement {
  std::vector<std::shared_ptr<const Engine>> engines;  // in order of priority
  std::vector<EngineAnswers> answers;                  // as engines
  Partition partition;
  std::vector<std::string> notes;  // what the runtime decided by itself, for explain()
};

// Throws kNotFound or kEngine for a named engine that cannot be had, kUnsupported where no engine
// takes a node (with `strict`: no named engine). Control-flow nodes that the runtime is to drive
// (runtime/control_flow.h) go to a RuntimeEngine among the engines; `scope` is for that one.
Placement place(const Graph& graph, const ProgramOptions& options, const std::string& scope = {});

}  // namespace xrt
