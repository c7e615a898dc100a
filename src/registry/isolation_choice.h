// SPDX-License-Identifier: Apache-2.0
// Which engines of a program run in a process of their own: what `isolation` means.
#pragma once

#include <string>

#include "xrt/export.h"
#include "xrt/options.h"

namespace xrt {

// The name of the engine that runs in the place of this one in such a program: "openvino@process"
// for "openvino" where `isolation` names it, or says "process" and it is not the fallback; else the
// name as it is.
std::string placed_engine(const ProgramOptions& options, const std::string& engine);

// The options with those names in the place of the others: of engines, of engines of nodes, and of
// engines with options. kInvalidArgument where `isolation` names an engine that does not exist.
XRT_API ProgramOptions with_isolation(ProgramOptions options);

}  // namespace xrt
