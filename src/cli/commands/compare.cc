// SPDX-License-Identifier: Apache-2.0
// xrt compare: the first node at which two engines differ, written out so that it can be rerun.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "data/npy.h"
#include "measure/compare_engines.h"
#include "xrt/model.h"
#include "xrt/onnx.h"

namespace xrt::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model;
  std::vector<std::string> engines;
  PlacementOptions placement;
  InputOptions inputs;
  double tolerance = 1e-3;
  bool every_node = false;
  std::string output;
  bool json = false;
};

constexpr const char* kFooter =
    R"(Both engines run the whole model; if an output differs by more than --tolerance of its range (integers
and strings: at all), every value is compared, and the first node that differs given the same inputs is
written out: piece.onnx, inputs.npz, expected.npz (what the first engine makes of it), actual.npz (the
second one) and rerun.txt, the command that shows the difference again. Where no single node differs, the
piece is the shortest stretch of nodes that does.

Examples:
  xrt compare model.onnx --engine native --engine openvino
  xrt compare model.onnx --engine native --engine xla -i x=input.npy --tolerance 1e-4 -o found

Exit code 4 if they differ.)";

std::map<std::string, Tensor> arrays(const Graph& graph, const std::vector<ValueId>& values,
                                     const std::vector<Data>& data) {
  std::map<std::string, Tensor> result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (data[i].is_tensor()) result[graph.value(values[i]).name] = data[i].tensor();
  }
  return result;
}

std::string rerun_command(const Options& options, const fs::path& folder) {
  std::string command =
      fmt::format("xrt compare {} -i {} --tolerance {}", quoted((folder / "piece.onnx").string()),
                  quoted((folder / "inputs.npz").string()), options.tolerance);
  for (const std::string& engine : options.engines) command += " --engine " + quoted(engine);
  const ProgramOptions& program = options.placement.program;
  for (const auto& [engine, own] : program.engine_options) {
    for (const auto& [key, value] : own) {
      command += " --engine-option " + quoted(fmt::format("{}.{}={}", engine, key, value));
    }
  }
  if (program.precision != ProgramOptions().precision) {
    command += " --precision " + option_text(program, "precision");
  }
  if (program.strict) command += " --strict";
  return command;
}

void write_piece(const Options& options, const EngineDifference& difference,
                 const fs::path& folder) {
  fs::create_directories(folder);
  write_output_file(folder / "piece.onnx", export_onnx(difference.piece));
  const Graph& piece = difference.piece;
  write_npz(folder / "inputs.npz", arrays(piece, piece.inputs(), difference.inputs));
  write_npz(folder / "expected.npz", arrays(piece, piece.outputs(), difference.first));
  write_npz(folder / "actual.npz", arrays(piece, piece.outputs(), difference.second));
  write_output_file(folder / "rerun.txt", rerun_command(options, folder) + "\n");
}

std::string error_text(double error) {
  return std::isfinite(error) ? fmt::format("{:.3g}", error) : "not comparable";
}

int execute(const Options& options) {
  if (options.engines.size() != 2) {
    throw UsageError(fmt::format("--engine is given {} times; two engines are compared",
                                 options.engines.size()));
  }
  CompareOptions compare_options;
  compare_options.first = split_engines(options.engines[0]);
  compare_options.second = split_engines(options.engines[1]);
  for (const auto* names : {&compare_options.first, &compare_options.second}) {
    for (const std::string& name : *names) {
      if (name == "auto") throw UsageError("--engine auto: name the engines to compare");
      check_engine(name);
    }
  }
  if (!options.placement.program.precision) {
    throw UsageError("--precision auto: name the precision to compare in");
  }
  compare_options.tolerance = options.tolerance;
  compare_options.every_node = options.every_node;
  compare_options.program = program_options(options.placement, compare_options.first);
  Progress progress(fmt::format("comparing on {}", options.model));
  compare_options.progress = [&](const std::string& what) { progress.step(what); };

  const Graph graph = import_model(options.model);
  std::vector<Port> ports;
  for (const ValueId v : graph.inputs()) {
    ports.push_back({graph.value(v).name, graph.type(v), graph.input_defaults().contains(v)});
  }
  std::vector<std::string> notes;
  const std::vector<Data> inputs = make_inputs(ports, options.inputs, notes);
  for (const std::string& note : notes) tell("note: {}\n", note);
  const EngineDifference found = compare_engines(graph, inputs, compare_options);

  const bool outputs_differ = !(found.outputs_error <= options.tolerance);
  fs::path folder = options.output;
  if (folder.empty()) folder = fs::path(options.model).stem().string() + "-difference";
  if (found.differs) write_piece(options, found, folder);
  if (options.json) {
    nlohmann::ordered_json json = {{"model", options.model},
                                   {"engines", options.engines},
                                   {"tolerance", options.tolerance},
                                   {"outputs_error", found.outputs_error},
                                   {"differs", outputs_differ || found.differs}};
    if (found.differs) {
      json["nodes"] = found.nodes;
      json["value"] = found.value;
      json["error"] = found.error;
      json["text"] = found.text;
      json["folder"] = folder.string();
    }
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("outputs: largest difference {} of the range\n", error_text(found.outputs_error));
    if (found.differs) {
      fmt::print("first difference: {} '{}'{}\n", found.nodes.size() == 1 ? "node" : "nodes from",
                 found.nodes.front(),
                 found.nodes.size() == 1 ? ""
                                         : fmt::format(" to '{}' ({})", found.nodes.back(),
                                                       plural(found.nodes.size(), "node")));
      fmt::print("  value '{}': {} of the range; {}\n", found.value, error_text(found.error),
                 found.text);
      fmt::print("wrote {}; run again with\n  {}\n", folder.string(),
                 rerun_command(options, folder));
    } else if (outputs_differ) {
      fmt::print("no node and no stretch of nodes differs by itself: small differences add up\n");
    }
  }
  return outputs_differ || found.differs ? kMismatch : kOk;
}

}  // namespace

void add_compare(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("compare", "Find the first node at which two engines differ");
  sub->footer(kFooter);
  sub->add_option("model", options->model, "an ONNX file, or a folder that OneFlow saved")
      ->required()
      ->type_name("MODEL");
  sub->add_option("-e,--engine", options->engines,
                  "given twice: engines in order of priority, separated by commas; the first is "
                  "the one to agree with")
      ->type_name("A,B,...")
      ->allow_extra_args(false)
      ->required();
  add_input_options(*sub, options->inputs);
  sub->add_option("--tolerance", options->tolerance, "largest difference over the range of a value")
      ->check(from_zero())
      ->capture_default_str();
  sub->add_flag("--every-node", options->every_node,
                "look at each node, also where the outputs agree");
  sub->add_option("-o,--output", options->output,
                  "folder for the piece that differs (default: MODEL-difference)")
      ->type_name("DIR");
  sub->add_flag("--json", options->json, "print the result as JSON instead");
  add_placement_options(*sub, options->placement);
  sub->callback([options, &chosen] { chosen = [options] { return execute(*options); }; });
}

}  // namespace xrt::cli
