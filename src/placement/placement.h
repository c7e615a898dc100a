// SPDX-License-Identifier: Apache-2.0
// Applies a decision to a graph: which engine runs which node, gathered into clusters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "partition/partition.h"
#include "placement/decision.h"
#include "placement/survey.h"
#include "xrt/engine.h"

namespace xrt {

struct Placement {
  std::vector<EngineAnswers> answers;  // in order of priority
  Partition partition;
  std::vector<std::string> notes;     // what the runtime decided by itself, for explain()
  std::vector<std::string> warnings;  // of which each is to be logged once per program
};

// What the decision's engines do not take runs on "native" unless options.strict. Control-flow
// nodes that the runtime is to drive (placement/control_flow.h) go to "runtime", whose answers
// stand among those of the engines. Throws kNotFound or kEngine for an engine that cannot be had,
// kUnsupported where no engine takes a node (with `strict`: no named engine).
Placement place(Survey& survey, const Decision& decision);

// Whether a name is one like "loop/body/node", of a node in a body that the graph has; whether the
// body has that node its own program says.
bool is_within_body(const Graph& graph, const std::string& name);

}  // namespace xrt
