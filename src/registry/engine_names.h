// SPDX-License-Identifier: Apache-2.0
// Names that stand for something else than an engine's library.
#pragma once

namespace xrt {

// Takes what no listed engine takes, unless a program is strict.
inline constexpr const char* kFallbackEngine = "native";
// Who drives an If, Loop or Scan whose body runs on several engines, in explanations and overrides.
inline constexpr const char* kRuntimeEngine = "runtime";

}  // namespace xrt
