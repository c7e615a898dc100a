// SPDX-License-Identifier: Apache-2.0
// Names of engines that run in a process of their own: "openvino@process" is the engine "openvino"
// in a worker. It is an engine like any other: what is measured, cached and told of it stands under
// that name.
#pragma once

#include <string>
#include <string_view>

namespace xrt {

inline constexpr std::string_view kIsolatedSuffix = "@process";

inline bool is_isolated(std::string_view engine) { return engine.ends_with(kIsolatedSuffix); }

// "openvino" of "openvino@process"; any other name as it is.
inline std::string_view base_engine(std::string_view engine) {
  if (is_isolated(engine)) engine.remove_suffix(kIsolatedSuffix.size());
  return engine;
}

inline std::string isolated_engine(std::string_view engine) {
  return std::string(base_engine(engine)) + std::string(kIsolatedSuffix);
}

}  // namespace xrt
