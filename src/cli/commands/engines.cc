// SPDX-License-Identifier: Apache-2.0
// xrt engines: which engines there are, and which ops each has a lowering for.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "report/machine.h"

namespace xrt::cli {
namespace {

using report::EngineRow;

struct Options {
  bool ops = false;
  bool json = false;
};

constexpr const char* kFooter =
    R"(A lowering does not mean that every use of an op is supported: engines decide per node, by dtypes,
shapes and attributes. xrt inspect MODEL says so for the nodes of a model.

Examples:
  xrt engines
  xrt engines --ops | grep Conv)";

void print_engines(const std::vector<EngineRow>& rows) {
  std::vector<std::vector<std::string>> cells = {{"engine", "ops", "shapes", "devices", "version"}};
  for (const EngineRow& row : rows) {
    if (!row.error.empty()) {
      cells.push_back({row.name, "-", "-", "-", "not available: xrt doctor says why"});
      continue;
    }
    std::string devices;
    for (const std::string& device : row.devices) devices += (devices.empty() ? "" : ",") + device;
    cells.push_back({row.name, std::to_string(row.ops.size()),
                     row.dynamic_shapes ? "any" : "static", devices, row.version});
  }
  fmt::print("{}", table(cells, {1}));
}

void print_ops(const std::vector<EngineRow>& rows) {
  std::map<std::string, std::set<std::string>> engines_of;
  std::vector<std::string> head = {"op"};
  for (const EngineRow& row : rows) {
    head.push_back(row.name);
    for (const std::string& op : row.ops) engines_of[op].insert(row.name);
  }
  std::vector<std::vector<std::string>> cells = {head};
  for (const auto& [op, engines] : engines_of) {
    std::vector<std::string> line = {op};
    for (const EngineRow& row : rows)
      line.emplace_back(engines.contains(row.name) ? row.name : "-");
    cells.push_back(line);
  }
  fmt::print("{}", table(cells));
}

int execute(const Options& options) {
  std::vector<EngineRow> rows;
  {
    const Progress progress("loading engines");
    rows = report::list_engines();
  }
  if (options.json) {
    fmt::print("{}\n", to_json(rows, options.ops, 2));
  } else if (options.ops) {
    print_ops(rows);
  } else {
    print_engines(rows);
  }
  return kOk;
}

}  // namespace

void add_engines(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("engines", "List the engines and their ops");
  sub->footer(kFooter);
  sub->add_flag("--ops", options->ops,
                "list every op with the engines that have a lowering for it");
  sub->add_flag("--json", options->json, "print JSON instead");
  sub->callback([options, &chosen] { chosen = [options] { return execute(*options); }; });
}

}  // namespace xrt::cli
