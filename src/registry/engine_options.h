// SPDX-License-Identifier: Apache-2.0
// Options that engines have of their own, checked against their tables.
#pragma once

#include <map>
#include <string>

#include "xrt/engine.h"
#include "xrt/export.h"

namespace xrt {

// kInvalidArgument for a name that the engine's table (EngineInfo::options) lacks, with the nearest
// one that it has, and for a value that does not fit the option's kind. Names that are not in the
// table are left to engines that check them (EngineInfo::checks_options).
XRT_API void check_engine_options(const Engine& engine,
                                  const std::map<std::string, std::string>& options);

}  // namespace xrt
