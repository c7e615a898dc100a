// SPDX-License-Identifier: Apache-2.0
// Engines by name.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/engine.h"
#include "xrt/export.h"

namespace xrt {

struct EngineReport {
  std::string name;
  bool available = false;  // loaded, and really ran one op
  // Not available, but it compiled one op for a device that this machine does not have.
  bool builds = false;
  std::string version, location, error, install_hint;
  std::vector<std::string> devices;
  std::size_t op_count = 0;
};
// Every engine known by name or found on XRT_ENGINE_PATH, each probed by running one op.
XRT_API std::vector<EngineReport> probe_engines();
// The engine of that name, loaded on first use; kNotFound or kEngine with the cause otherwise.
XRT_API std::shared_ptr<const Engine> get_engine(std::string_view name);
// Names that get_engine may know: built in ones first, then those found on XRT_ENGINE_PATH.
XRT_API std::vector<std::string> engine_names();
// The engine that takes what no listed engine takes, unless a program is strict.
XRT_API std::string fallback_engine();
// Adds an engine made in this process (an engine of Python, a test). A duplicate throws.
XRT_API void register_engine(std::shared_ptr<const Engine> engine);

}  // namespace xrt
