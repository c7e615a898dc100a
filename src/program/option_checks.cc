// SPDX-License-Identifier: Apache-2.0
#include "program/option_checks.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/nearest.h"
#include "device/threads.h"
#include "placement/estimates.h"
#include "placement/placement.h"
#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, what); }

}  // namespace

void check_limits(const ProgramOptions& options) {
  if (options.max_specializations < 1) fail("max_specializations must be at least 1");
  if (options.num_threads < 0 || options.num_threads > kMaxThreads) {
    fail("num_threads is " + std::to_string(options.num_threads) + "; a number from 1 to " +
         std::to_string(kMaxThreads) + " is wanted, or 0 for the process's budget");
  }
  if (!std::isfinite(options.auto_budget_s) || options.auto_budget_s < 0) {
    fail("auto_budget_s is " + std::to_string(options.auto_budget_s) +
         "; seconds from 0 on are wanted");
  }
  if (!std::isfinite(options.tolerance) || options.tolerance < 0) {
    fail("tolerance is " + std::to_string(options.tolerance) +
         "; a share of an output's range from 0 on is wanted");
  }
  if (options.max_batch_size < 0) {
    fail("max_batch_size is " + std::to_string(options.max_batch_size) +
         "; a number from 1 on is wanted, or 0 for none");
  }
  const auto most = options.cluster_maximum_nodes;
  if (most >= 0 && options.cluster_minimum_nodes > most) {
    fail("cluster_minimum_nodes is " + std::to_string(options.cluster_minimum_nodes) +
         ", which is above cluster_maximum_nodes, " + std::to_string(most));
  }
}

void warn_without_effect(const ProgramOptions& options) {
  const ProgramOptions defaults;
  const bool measures_precision = options.precision == "auto";
  if (!measures_precision && options.tolerance != defaults.tolerance) {
    log_warning("option 'tolerance' has no effect: 'precision' is '" + options.precision +
                "', not 'auto'");
  }
  if (measures_precision || is_auto(options)) return;
  const char* const cause = "' has no effect: the engines are named, none is 'auto'";
  if (!options.auto_mode.empty()) log_warning(std::string("option 'auto_mode") + cause);
  if (options.auto_budget_s != defaults.auto_budget_s) {
    log_warning(std::string("option 'auto_budget_s") + cause);
  }
}

void check_node_names(const Graph& imported, const ProgramOptions& options) {
  std::vector<std::string> names;
  for (const auto& [name, engine] : options.node_engines) names.push_back(name);
  check_node_names(imported, "node_engines", names);
}

void check_node_names(const Graph& imported, const std::string& option,
                      const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) {
    if (imported.find_node(name) || is_within_body(imported, name)) continue;
    std::vector<std::string> names;
    for (const NodeId id : imported.nodes()) names.push_back(imported.node(id).name);
    std::string hint = suggestion(name, names);
    constexpr std::size_t kReadable = 300;  // all names of a large graph help nobody
    if (hint.size() > kReadable) hint = "; `xrt inspect` shows all";
    fail(option + ": the graph has no node '" + name + "'" + hint);
  }
}

}  // namespace xrt
