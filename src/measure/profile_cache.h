// SPDX-License-Identifier: Apache-2.0
// What was measured once need not be measured again: decisions of placement, kept for the process
// and on disk: entries of the disk cache (cache_entry.h) by the rules of all others, in the
// program's cache folder, else in a small one of the user's (default_decision_dir()). A decision
// for an engine that was made in this process is not written.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "placement/decision.h"
#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/options.h"

namespace xrt {

// Where decisions of programs with these options are kept on disk; empty: nowhere.
std::filesystem::path profile_folder(const ProgramOptions& options);

// Under what a decision is kept: the graph with its shapes and constants, the engines to choose
// from, every option that placement reads, the thread budget and the machine.
XRT_API std::string profile_key(const Graph& graph, const ProgramOptions& options);

// Nothing where it was never measured, or where an engine of the decision has changed its version
// since or is gone. `placement` of what is found says "measured earlier".
XRT_API std::optional<Decision> find_profile(const std::string& key, const ProgramOptions& options);
// True if the disk folder or this process holds any profile: else a key is not worth computing.
bool profiles_exist(const ProgramOptions& options);
// Drops what the process remembers; what is on disk stays.
XRT_API void forget_profiles();
XRT_API void keep_profile(const std::string& key, const ProgramOptions& options,
                          const Decision& decision);

}  // namespace xrt
