// SPDX-License-Identifier: Apache-2.0
// xrt engines: which engines there are, and which ops each has a lowering for.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "xrt/error.h"
#include "xrt/program.h"

namespace xrt::cli {
namespace {

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

struct Row {
  std::string name, version, error;
  std::vector<std::string> devices;
  bool dynamic_shapes = false;
  std::vector<std::string> ops;
};

std::vector<Row> load_all() {
  const Progress progress("loading engines");
  std::vector<Row> rows;
  for (const std::string& name : engine_names()) {
    Row row{name, {}, {}, {}, false, {}};
    try {
      const std::shared_ptr<const Engine> engine = get_engine(name);
      row.version = engine->version();
      row.devices = engine->devices();
      row.dynamic_shapes = engine->dynamic_shapes();
      row.ops = engine->ops();
    } catch (const Error& error) {
      row.error = error.what();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_engines(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells = {{"engine", "ops", "shapes", "devices", "version"}};
  for (const Row& row : rows) {
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

void print_ops(const std::vector<Row>& rows) {
  std::map<std::string, std::set<std::string>> engines_of;
  std::vector<std::string> head = {"op"};
  for (const Row& row : rows) {
    head.push_back(row.name);
    for (const std::string& op : row.ops) engines_of[op].insert(row.name);
  }
  std::vector<std::vector<std::string>> cells = {head};
  for (const auto& [op, engines] : engines_of) {
    std::vector<std::string> line = {op};
    for (const Row& row : rows) line.emplace_back(engines.contains(row.name) ? row.name : "-");
    cells.push_back(line);
  }
  fmt::print("{}", table(cells));
}

int execute(const Options& options) {
  const std::vector<Row> rows = load_all();
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::json::array();
    for (const Row& row : rows) {
      nlohmann::ordered_json entry = {
          {"name", row.name},       {"available", row.error.empty()},
          {"version", row.version}, {"error", row.error},
          {"devices", row.devices}, {"dynamic_shapes", row.dynamic_shapes}};
      if (options.ops) entry["ops"] = row.ops;
      json.push_back(entry);
    }
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
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
