// SPDX-License-Identifier: Apache-2.0
// How a program is loaded and placed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xrt/export.h"

namespace xrt {

struct ProgramOptions {
  // In order of priority; {"auto"} lets the runtime choose. What no listed engine takes runs on
  // "native" unless `strict`.
  std::vector<std::string> engines = {"auto"};
  bool strict = false;  // only the listed engines may run nodes; a refusal is an error
  std::string device = "cpu";
  int num_threads =
      0;  // 0: the process's budget, thread_budget(), which is also the most it can be
  std::int64_t cluster_minimum_nodes = 1;   // smaller clusters go to the next engine; -1: no limit
  std::int64_t cluster_maximum_nodes = -1;  // -1: no limit
  std::map<std::string, std::string> node_engines = {};  // node name → engine: overrides placement
  // Input name and output name that share memory: the output is written into the input's buffer.
  std::vector<std::pair<std::string, std::string>> aliases = {};
  // Nothing: $XRT_CACHE_DIR, else no disk cache. "" likewise turns it off.
  std::optional<std::filesystem::path> cache_dir = std::nullopt;
  std::map<std::string, std::map<std::string, std::string>> engine_options = {};  // per engine
  std::filesystem::path dump_dir = {};  // not empty: graph before/after each pass and each function
  int max_specializations = 16;         // compiled plans kept for distinct input shapes
  // How {"auto"} decides; {"auto", "a", "b"} decides among engines a and b (and "native" for what
  // they refuse). "fast": by estimates, at once. "full": by measuring, before the program is
  // ready (where input shapes are symbolic, before the first run of new shapes returns).
  // "background": as fast, then measured beside the runs; a better plan is swapped in. Empty:
  // $XRT_AUTO, else "fast".
  std::string auto_mode = {};
  // Measuring starts nothing new after so many seconds, summed over all input shapes.
  double auto_budget_s = 10;
  // What engines that can do so compute float32 in: "f32", "bf16", "f16"; or "auto": measured, the
  // fastest whose outputs stay within `tolerance` of float32 (over the range of each output).
  std::string precision = "f32";
  double tolerance = 0.01;
  // Where an engine fails to compile what it claimed: an error that names nodes, engine and cause;
  // true: those nodes go to the next engine that takes them, and explain() says so.
  bool fallback = false;
  bool training = false;       // engines are asked and compile for Phase::kTraining
  bool force_compile = false;  // compile anew whatever the caches hold; results are cached
  // The largest first dimension of inputs to build for, for engines that build for a range of
  // sizes; a larger batch is built for when it comes, and says so once. 0: as declared.
  std::int64_t max_batch_size = 0;
  // Scratch memory that one run of a function may use, in bytes; an engine that needs more has
  // failed to compile. 0: no limit.
  std::size_t max_workspace_bytes = 0;
};

// Every name that set_option() knows, sorted; docs/reference/options.md describes them.
XRT_API std::vector<std::string> option_names();
// Sets an option by its name, as Python and the XRT_<NAME> variables of the environment spell it.
// Names that OneFlow-XRT knew and that have no meaning here are accepted with a line in the log
// that says what replaces them. kInvalidArgument for an unknown name (with the nearest known one)
// or a value that does not fit.
XRT_API void set_option(ProgramOptions& options, std::string_view name, std::string_view value);
// `options` with what XRT_<NAME> variables say about those that have their default. Programs do
// this when they are loaded.
XRT_API ProgramOptions with_environment(ProgramOptions options);

}  // namespace xrt
