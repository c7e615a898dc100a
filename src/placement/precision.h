// SPDX-License-Identifier: Apache-2.0
// Lower precision for float32 arithmetic, by the options of the engines that have it.
#pragma once

#include <string>
#include <vector>

#include "xrt/options.h"

namespace xrt {

// "f32", "bf16", "f16" or "auto" (checked). Throws kInvalidArgument for another word.
void check_precision(const ProgramOptions& options);

// The precisions below float32 that this machine's CPU computes in faster than in float32.
std::vector<std::string> fast_precisions();

// Whether the engine has a way to compute float32 graphs in `precision`.
bool offers_precision(const std::string& engine, const std::string& precision);

// The options with each engine told of `precision` in its own words. What the user wrote himself
// stays. Engines without such a thing compute in float32.
ProgramOptions with_precision(const ProgramOptions& options, const std::string& precision);

}  // namespace xrt
