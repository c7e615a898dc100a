// SPDX-License-Identifier: Apache-2.0
// engine="auto" by estimates: which plan a graph gets at once, from the work of each node and what
// is known about each engine. src/measure compiles and times candidates instead.
#pragma once

#include <string>
#include <vector>

#include "placement/decision.h"
#include "placement/survey.h"
#include "registry/engine_names.h"
#include "xrt/explanation.h"
#include "xrt/export.h"
#include "xrt/options.h"
#include "xrt/registry.h"

namespace xrt {

enum class AutoMode { kFast, kFull, kBackground };

// Whether the runtime chooses the engines: the first of them is "auto".
bool is_auto(const ProgramOptions& options);
// Whether the precision is to be chosen.
bool is_precision_auto(const ProgramOptions& options);
// What the word options.auto_mode means. Where it is empty: kBackground; kFull where the precision
// is to be chosen; kFast for a training graph and on an accelerator.
AutoMode auto_mode(const ProgramOptions& options);
// The engines to choose from, in the order in which they are tried.
std::vector<std::string> auto_candidates(const ProgramOptions& options);

// A node that the user placed brings its engine with it.
void add_engines_of_nodes(const ProgramOptions& options, Decision& decision);

struct EngineEstimate {
  std::string engine;
  double us = 0;  // what the order of candidates goes by
  bool takes_all = false;
  Explanation::CandidateRow row;  // with a note where the engine is out of the question
};

// One entry per candidate, the best first, those out of the question last. An engine that needs at
// least `hopeless` times (1 or more) what another one needs that takes every node is not even
// loaded.
std::vector<EngineEstimate> estimates(Survey& survey, double hopeless);

// Chooses by estimates. Engines that are not there are no candidates, and a row says so.
// Throws kNotFound where no candidate is there.
XRT_API Decision estimate(Survey& survey);

}  // namespace xrt
