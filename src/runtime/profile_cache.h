// SPDX-License-Identifier: Apache-2.0
// What was measured once need not be measured again: decisions of placement, kept for the process
// and, with a cache folder, for the next one.
#pragma once

#include <optional>
#include <string>

#include "runtime/decision.h"
#include "xrt/graph.h"
#include "xrt/program.h"

namespace xrt {

// Under what a decision is kept: the graph with its shapes and constants, the engines to choose
// from, every option that placement reads, the thread budget and the machine.
std::string profile_key(const Graph& graph, const ProgramOptions& options);

// Nothing where it was never measured, or where an engine of the decision has changed its version
// since or is gone. `placement` of what is found says "measured earlier".
std::optional<Decision> find_profile(const std::string& key, const ProgramOptions& options);
// True if a disk folder or this process may hold profiles at all: else a key is not worth
// computing.
bool profiles_exist(const ProgramOptions& options);
void keep_profile(const std::string& key, const ProgramOptions& options, const Decision& decision);

}  // namespace xrt
