// SPDX-License-Identifier: Apache-2.0
// What the library finds on this machine, as data and as JSON: engines, processor, threads, cache.
// The command, the C API and tools print these.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/registry.h"

namespace xrt::report {

// An engine that was found: loaded, not run.
struct EngineRow {
  std::string name, version;
  std::string error;  // why it cannot be loaded; the rest is empty then
  std::vector<std::string> devices;
  bool dynamic_shapes = false;
  std::vector<std::string> ops;  // those that it has a lowering for
};
XRT_API std::vector<EngineRow> list_engines();

// `indent` as of nlohmann's dump(): -1 for one line.
XRT_API std::string to_json(const std::vector<EngineRow>& engines, bool with_ops, int indent = -1);

struct Machine {
  std::string processor;  // the first processor's model
  std::string features;   // the instruction sets that engines choose by
  int threads = 0;        // thread_budget()
  std::filesystem::path cache_dir;
  std::vector<EngineReport> engines;
};
// Runs one op on each of these engines, by default on all, see probe_engines().
XRT_API Machine probe_machine(const std::vector<std::string>& engines = {});
XRT_API std::string to_json(const Machine& machine, int indent = -1);

// The entries of a cache folder.
XRT_API std::string cache_json(const std::filesystem::path& dir, int indent = -1);

}  // namespace xrt::report
