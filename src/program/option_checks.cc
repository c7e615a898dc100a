// SPDX-License-Identifier: Apache-2.0
#include "program/option_checks.h"

#include <string>
#include <vector>

#include "base/log.h"
#include "base/nearest.h"
#include "placement/estimates.h"
#include "placement/placement.h"
#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, what); }

}  // namespace

void warn_without_effect(const ProgramOptions& options) {
  const ProgramOptions defaults;
  if (!is_precision_auto(options) && options.tolerance != defaults.tolerance) {
    log_warning("option 'tolerance' has no effect: 'precision' is '" +
                option_text(options, "precision") + "', not 'auto'");
  }
  if (is_precision_auto(options) || is_auto(options)) return;
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
