// SPDX-License-Identifier: Apache-2.0
// xrt inspect: what a model is, which engine runs what, and why.
#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "report/html.h"

namespace xrt::cli {
namespace {

struct Options {
  std::string model;
  std::string engine = "auto";
  PlacementOptions placement;
  InputOptions inputs;
  int runs = 0;
  std::string html;
  bool nodes = false, json = false, graph = false;
};

constexpr const char* kFooter = R"(Examples:
  xrt inspect model.onnx                               what runs where, and why not elsewhere
  xrt inspect model.onnx -e openvino,native --html page.html --runs 20
  xrt inspect model.onnx -e xla --nodes                one line per node
  xrt inspect model.onnx --graph                       the graph after passes, as text
  xrt inspect model.onnx --dump-dir dump               every pass and every function

The page needs no network: the graph drawn with its clusters coloured by engine, for each node why
the other engines refused it, and what each launch costs. With --runs its times are measured. A
model with dynamic inputs is shown as it is placed for any size; with --dim or --input, as it is placed
for those.)";

void print_ports(const char* title, const std::vector<Port>& ports) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(ports.size());
  for (const Port& port : ports) {
    rows.push_back({port.name, to_string(port.type), port.has_default ? "has a default" : ""});
  }
  fmt::print("{}\n{}", title, table(rows));
}

void print_launches(const Explanation& explanation) {
  std::vector<std::vector<std::string>> rows = {
      {"launch", "engine", "nodes", "in", "out", "workspace", "compile", "mean"}};
  const auto size_text = [](std::size_t bytes) {
    return bytes == 0 ? std::string("-") : bytes_text(static_cast<double>(bytes));
  };
  for (const Explanation::LaunchRow& launch : explanation.launches) {
    rows.push_back({launch.function, launch.engine, std::to_string(launch.nodes),
                    size_text(launch.input_bytes), size_text(launch.output_bytes),
                    size_text(launch.workspace_bytes),
                    launch.from_cache ? "cached" : time_text(launch.compile_ms / 1e3),
                    launch.runs > 0 ? time_text(launch.mean_us / 1e6) : "-"});
  }
  fmt::print("launches\n{}", table(rows, {2, 3, 4, 5, 6, 7}));
}

// One line per op: how many nodes, and how many on each engine.
void print_ops(const Explanation& explanation) {
  std::map<std::string, std::map<std::string, std::size_t>> counts;
  for (const Explanation::NodeRow& node : explanation.nodes) ++counts[node.op][node.engine];
  std::vector<std::string> head = {"op", "nodes"};
  for (const auto& [engine, count] : explanation.nodes_per_engine) head.push_back(engine);
  std::vector<std::vector<std::string>> rows = {head};
  std::vector<std::size_t> right = {1};
  for (const auto& [op, engines] : counts) {
    std::size_t total = 0;
    std::vector<std::string> row = {op, ""};
    for (const auto& [engine, all] : explanation.nodes_per_engine) {
      const auto found = engines.find(engine);
      row.push_back(found == engines.end() ? "-" : std::to_string(found->second));
      total += found == engines.end() ? 0 : found->second;
    }
    row[1] = std::to_string(total);
    rows.push_back(row);
  }
  for (std::size_t i = 2; i < head.size(); ++i) right.push_back(i);
  fmt::print("ops\n{}", table(rows, right));
}

// A reason without what differs from node to node: quoted names, and types ("float32[1,3]").
std::string kind_of(const std::string& reason) {
  static const RE2 particulars("'[^']*'|\\b[a-z]+[0-9]*[a-z0-9_]*\\[[^\\]]*\\]");
  std::string general = reason;
  RE2::GlobalReplace(&general, particulars, "…");
  return general;
}

struct RefusalKind {
  std::size_t nodes = 0;
  std::map<std::string, std::size_t> ops;
  std::set<std::string> reasons;
};

// "Mul 12, Reshape 8, …": the most frequent first.
std::string ops_text(const std::map<std::string, std::size_t>& ops) {
  constexpr std::size_t kShown = 6;
  std::vector<std::pair<std::size_t, std::string>> sorted;
  sorted.reserve(ops.size());
  for (const auto& [op, count] : ops) sorted.emplace_back(count, op);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(sorted.size(), kShown); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", sorted[i].second, sorted[i].first);
  }
  return sorted.size() > kShown ? text + ", …" : text;
}

// One line per engine and kind of reason, the most frequent first.
void print_refusals(const Explanation& explanation) {
  std::map<std::string, std::map<std::string, RefusalKind>> engines;
  for (const Explanation::NodeRow& node : explanation.nodes) {
    for (const auto& [engine, reason] : node.refusals) {
      RefusalKind& kind = engines[engine][kind_of(reason)];
      ++kind.nodes;
      ++kind.ops[node.op];
      kind.reasons.insert(reason);
    }
  }
  for (const auto& [engine, kinds] : engines) {
    std::vector<const std::pair<const std::string, RefusalKind>*> sorted;
    sorted.reserve(kinds.size());
    for (const auto& kind : kinds) sorted.push_back(&kind);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
      return a->second.nodes > b->second.nodes;
    });
    fmt::print("refused by {}\n", engine);
    std::vector<std::vector<std::string>> rows;
    rows.reserve(sorted.size());
    for (const auto* kind : sorted) {
      const std::set<std::string>& reasons = kind->second.reasons;
      rows.push_back({std::to_string(kind->second.nodes), ops_text(kind->second.ops),
                      reasons.size() == 1 ? *reasons.begin() : kind->first});
    }
    fmt::print("{}", table(rows, {0}));
  }
}

void print_nodes(const Explanation& explanation) {
  std::vector<std::vector<std::string>> rows = {{"node", "op", "engine", "launch", "results"}};
  for (const Explanation::NodeRow& node : explanation.nodes) {
    std::string types;
    for (const std::string& type : node.output_types) types += (types.empty() ? "" : ", ") + type;
    rows.push_back({node.name, node.op, node.engine, node.function, types});
  }
  fmt::print("nodes\n{}", table(rows));
}

// What placement had to choose from.
void print_candidates(const Explanation& explanation) {
  if (explanation.candidates.empty()) return;
  const auto us_text = [](double us) { return us > 0 ? time_text(us / 1e6) : std::string("-"); };
  std::vector<std::vector<std::string>> rows = {
      {"", "plan", "precision", "estimated", "measured", "error", "why not"}};
  for (const Explanation::CandidateRow& row : explanation.candidates) {
    rows.push_back({row.chosen ? "*" : "", row.plan, std::string(to_string(row.precision)),
                    us_text(row.estimated_us), us_text(row.measured_us),
                    row.error >= 0 ? fmt::format("{:.2g}", row.error) : "-", row.note});
  }
  fmt::print("placement: {}\n{}", explanation.placement, table(rows, {3, 4, 5}));
}

int execute(const Options& options) {
  if (!options.html.empty()) check_output_file(options.html, options.model);
  const Loaded loaded = load_program(
      options.model, program_options(options.placement, split_engines(options.engine)));
  Program& program = *loaded.program;
  // Dynamic inputs take their sizes from a run.
  const bool sized = !options.inputs.dims.empty() || !options.inputs.inputs.empty();
  const int runs = std::max(options.runs, sized ? 1 : 0);
  if (runs > 0) {
    std::vector<std::string> notes;
    const std::vector<Data> inputs = make_inputs(program.inputs(), options.inputs, notes);
    for (const std::string& note : notes) tell("note: {}\n", note);
    const Progress progress("running");
    for (int i = 0; i < runs; ++i) {
      std::vector<Data> outputs;
      program.run(inputs, outputs);
    }
  }
  const Explanation explanation = program.explain();
  const std::string title = std::filesystem::path(options.model).filename().string();
  if (!options.html.empty()) {
    write_output_file(options.html,
                      report::html(explanation, program.inputs(), program.outputs(), title));
    tell("wrote {}\n", options.html);
  }
  if (!options.placement.program.dump_dir.empty()) {
    tell("wrote passes and functions to {}\n", options.placement.program.dump_dir.string());
  }
  if (options.json) {
    fmt::print("{}\n", explanation.to_json());
    return kOk;
  }
  if (options.graph) {
    fmt::print("{}\n", program.graph_text());
    return kOk;
  }
  fmt::print("{}: {}; loaded in {}\n", title, placement_summary(explanation),
             time_text(loaded.seconds));
  for (const std::string& note : explanation.notes) fmt::print("note: {}\n", note);
  fmt::print("\n");
  print_ports("inputs", program.inputs());
  print_ports("outputs", program.outputs());
  print_launches(explanation);
  if (explanation.arena_bytes > 0) {
    fmt::print("  arena {}\n", bytes_text(static_cast<double>(explanation.arena_bytes)));
  }
  if (options.nodes) {
    print_nodes(explanation);
  } else {
    print_ops(explanation);
  }
  print_candidates(explanation);
  print_refusals(explanation);
  return kOk;
}

}  // namespace

void add_inspect(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("inspect", "Show what a model is and which engine runs what");
  sub->footer(kFooter);
  add_model_options(*sub, options->model, options->engine);
  sub->add_option("--html", options->html, "write one self-contained page with the graph drawn")
      ->type_name("FILE");
  sub->add_flag("--nodes", options->nodes, "list every node");
  sub->add_flag("--graph", options->graph, "print the graph after passes as text, and only that");
  sub->add_flag("--json", options->json, "print everything as JSON instead");
  sub->add_option("--runs", options->runs, "run so often first, so that times are measured")
      ->check(from_zero());
  add_input_options(*sub, options->inputs);
  add_placement_options(*sub, options->placement);
  sub->callback([options, &chosen] { chosen = [options] { return execute(*options); }; });
}

}  // namespace xrt::cli
