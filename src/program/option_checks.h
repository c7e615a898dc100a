// SPDX-License-Identifier: Apache-2.0
// Options that cannot be meant: errors when a program is loaded, before anything else is done.
#pragma once

#include <string>
#include <vector>

#include "xrt/graph.h"
#include "xrt/program.h"

namespace xrt {

// A line in the log for options that say something about a choice that is not made.
void warn_without_effect(const ProgramOptions& options);

// kInvalidArgument where node_engines names a node that the graph as it was imported has not, and
// suggests the nearest; "loop/body/node" counts where there is such a body.
void check_node_names(const Graph& imported, const ProgramOptions& options);

// The same for the names that another option gives.
void check_node_names(const Graph& imported, const std::string& option,
                      const std::vector<std::string>& wanted);

}  // namespace xrt
