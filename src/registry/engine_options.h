// SPDX-License-Identifier: Apache-2.0
// Options that engines have of their own, checked against their tables.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "xrt/engine.h"
#include "xrt/export.h"
#include "xrt/precision.h"

namespace xrt {

// kInvalidArgument for a name that the engine's table (EngineInfo::options) lacks, with the nearest
// one that it has, and for a value that does not fit the option's kind. Names that are not in the
// table are left to engines that check them (EngineInfo::checks_options). What own_precision()
// reads is no concern of the engine's.
XRT_API void check_engine_options(const Engine& engine,
                                  const std::map<std::string, std::string>& options);

// The option of every engine that goes before the program's precision for its functions.
inline constexpr const char* kPrecisionOption = "precision";

// What it says among the options of one engine; nothing where it is not there, or where the engine
// has an option of that name itself. kInvalidArgument for a word that is no precision.
XRT_API std::optional<Precision> own_precision(const Engine& engine,
                                               const std::map<std::string, std::string>& options);

}  // namespace xrt
