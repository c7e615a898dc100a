// SPDX-License-Identifier: Apache-2.0
// xrt bench: configurations of one model side by side, interleaved so that drift hits all alike.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/options.h"
#include "cli/peers.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "data/npy.h"
#include "measure/difference.h"
#include "xrt/error.h"
#include "xrt/version.h"

namespace xrt::cli {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> engines;
  std::vector<std::string> peers;
  bool with_peers = false;
  PlacementOptions placement;
  InputOptions inputs;
  double seconds = 2.0;
  int rounds = 0;
  int warmup = 3;
  double tolerance = -1;
  std::string json;
};

constexpr const char* kFooter =
    R"(Each --engine is one configuration: an engine, or several in order of priority. All are loaded, then
run in turn, round by round; "auto" measures while it loads. The ratio compares medians with the
first row; the difference is the largest one of any output element, over the range of the first
row's output.

Examples:
  xrt bench model.onnx --engine native --engine openvino,native
  xrt bench model.onnx --engine openvino --peers               onnxruntime and OpenVINO beside it
  xrt bench model.onnx --engine xla,native --seconds 5 --json result.json
  xrt bench model.onnx --engine native --engine xla,native --tolerance 1e-3   exit code 4 if apart

Peers run in a Python that has their packages: XRT_PYTHON, else python3.)";

const std::vector<std::string> kAllPeers = {"onnxruntime", "openvino"};

struct Contender {
  std::string name;
  std::shared_ptr<Program> program;
  std::unique_ptr<Peer> peer;
  double load_seconds = 0;
  std::string placement;
  std::vector<double> seconds;
  std::vector<Data> outputs;  // ours only
  std::optional<double> difference;

  double median() const { return seconds[seconds.size() / 2]; }
  double minimum() const { return seconds.front(); }
};

double run_once(Contender& contender, const std::vector<Data>& inputs) {
  if (contender.peer) return contender.peer->run();
  contender.outputs.clear();
  const auto start = std::chrono::steady_clock::now();
  contender.program->run(inputs, contender.outputs);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::map<std::string, Tensor> tensors(const std::vector<Port>& ports,
                                      const std::vector<Data>& values) {
  std::map<std::string, Tensor> arrays;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (values[i].is_tensor()) arrays[ports[i].name] = values[i].tensor();
  }
  return arrays;
}

void add_peers(const Options& options, const std::vector<Data>& inputs,
               const TemporaryFolder& folder, std::vector<Contender>& contenders) {
  const std::vector<std::string>& names = options.peers.empty() ? kAllPeers : options.peers;
  const std::vector<Port>& ports = contenders.front().program->inputs();
  const std::filesystem::path file = folder.path() / "inputs.npz";
  write_npz(file, tensors(ports, inputs));
  const int threads = options.placement.program.num_threads > 0
                          ? options.placement.program.num_threads
                          : thread_budget();
  for (const std::string& name : names) {
    try {
      const Progress progress(fmt::format("loading the model in {}", name));
      Contender contender;
      contender.name = fmt::format("peer {}", name);
      contender.peer =
          std::make_unique<Peer>(name, std::filesystem::absolute(options.model), file, threads);
      contender.load_seconds = contender.peer->load_seconds();
      contender.placement = fmt::format("version {}", contender.peer->version());
      contenders.push_back(std::move(contender));
    } catch (const Error& error) {
      // A peer that was asked for by name must be there; the default set is what can be had.
      if (!options.peers.empty())
        throw EngineUnavailable(fmt::format("peer {}: {}", name, error.what()));
      tell("note: peer {} is left out: {}\n", name, error.what());
    }
  }
}

void measure(const Options& options, const std::vector<Data>& inputs,
             std::vector<Contender>& contenders) {
  Progress progress("warming up");
  for (Contender& contender : contenders) {
    for (int i = 0; i < std::max(options.warmup, 1); ++i) run_once(contender, inputs);
  }
  constexpr int kMinimumRounds = 5;
  double spent = 0;
  const double budget = options.seconds * static_cast<double>(contenders.size());
  for (int round = 0;; ++round) {
    if (options.rounds > 0 ? round >= options.rounds : round >= kMinimumRounds && spent >= budget) {
      break;
    }
    progress.step(fmt::format("measuring, round {}", round + 1));
    for (Contender& contender : contenders) {
      contender.seconds.push_back(run_once(contender, inputs));
      spent += contender.seconds.back();
    }
  }
  for (Contender& contender : contenders) {
    std::sort(contender.seconds.begin(), contender.seconds.end());
  }
}

void compare_results(std::vector<Contender>& contenders, const TemporaryFolder& folder) {
  const std::vector<Port>& ports = contenders.front().program->outputs();
  const auto expected = tensors(ports, contenders.front().outputs);
  for (std::size_t i = 1; i < contenders.size(); ++i) {
    std::map<std::string, Tensor> actual;
    if (contenders[i].peer) {
      const std::filesystem::path file = folder.path() / fmt::format("outputs-{}.npz", i);
      contenders[i].peer->write_outputs(file);
      actual = read_npz(file);
    } else {
      actual = tensors(ports, contenders[i].outputs);
    }
    double largest = 0;
    for (const auto& [name, tensor] : expected) {
      const auto found = actual.find(name);
      if (found == actual.end() || tensor.dtype() == DType::kString) continue;
      const Difference difference = compare(found->second, tensor, 0, 0);
      if (found->second.dims() != tensor.dims() || found->second.dtype() != tensor.dtype()) {
        throw Error(ErrorCode::kInternal,
                    fmt::format("{}, output '{}': {}", contenders[i].name, name, difference.text));
      }
      largest = std::max(largest, difference.max_of_range);
    }
    contenders[i].difference = largest;
  }
}

void print_table(const std::vector<Contender>& contenders) {
  std::vector<std::vector<std::string>> rows = {
      {"configuration", "median", "minimum", "ratio", "load", "difference", "placement"}};
  for (const Contender& contender : contenders) {
    rows.push_back({contender.name, time_text(contender.median()), time_text(contender.minimum()),
                    fmt::format("{:.3f}", contender.median() / contenders.front().median()),
                    time_text(contender.load_seconds),
                    contender.difference ? fmt::format("{:.2g}", *contender.difference) : "-",
                    contender.placement});
  }
  fmt::print("{}", table(rows, {1, 2, 3, 4, 5}));
}

void write_json(const Options& options, const std::vector<Contender>& contenders) {
  nlohmann::ordered_json json = {
      {"model", options.model},
      {"version", version()},
      {"threads", options.placement.program.num_threads > 0 ? options.placement.program.num_threads
                                                            : thread_budget()},
      {"rounds", contenders.front().seconds.size()},
      {"configurations", nlohmann::json::array()}};
  for (const Contender& contender : contenders) {
    nlohmann::ordered_json row = {{"name", contender.name},
                                  {"peer", contender.peer != nullptr},
                                  {"median_ms", contender.median() * 1e3},
                                  {"minimum_ms", contender.minimum() * 1e3},
                                  {"ratio", contender.median() / contenders.front().median()},
                                  {"load_ms", contender.load_seconds * 1e3},
                                  {"placement", contender.placement}};
    row["difference"] = contender.difference ? nlohmann::json(*contender.difference) : nullptr;
    json["configurations"].push_back(row);
  }
  const std::string text =
      json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (options.json == "-") {
    fmt::print("{}", text);
  } else {
    write_output_file(options.json, text);
  }
}

int execute(const Options& options) {
  if (!options.json.empty() && options.json != "-") check_output_file(options.json, options.model);
  const std::vector<std::string> engines =
      options.engines.empty() ? std::vector<std::string>{"auto"} : options.engines;
  std::vector<Contender> contenders;
  for (const std::string& engine : engines) {
    ProgramOptions program = program_options(options.placement, split_engines(engine));
    // Measuring beside the runs would be timed with them.
    const bool is_auto = program.engines.front() == "auto";
    if (is_auto && with_environment(program).auto_mode.empty()) program.auto_mode = "full";
    program.check_results = false;
    const Loaded loaded = load_program(options.model, program);
    Contender contender;
    contender.name = engine;
    contender.program = loaded.program;
    contender.load_seconds = loaded.seconds;
    contenders.push_back(std::move(contender));
  }
  std::vector<std::string> notes;
  const std::vector<Data> inputs =
      make_inputs(contenders.front().program->inputs(), options.inputs, notes);
  for (const std::string& note : notes) tell("note: {}\n", note);
  const TemporaryFolder folder("bench");  // for what peers read and write
  if (options.with_peers || !options.peers.empty()) {
    add_peers(options, inputs, folder, contenders);
  }
  measure(options, inputs, contenders);
  for (Contender& contender : contenders) {
    if (contender.program) contender.placement = placement_summary(contender.program->explain());
  }
  compare_results(contenders, folder);
  if (options.json != "-") {
    fmt::print("{}, {}, {}\n\n", std::filesystem::path(options.model).filename().string(),
               plural(contenders.front().seconds.size(), "round"),
               plural(static_cast<std::size_t>(options.placement.program.num_threads > 0
                                                   ? options.placement.program.num_threads
                                                   : thread_budget()),
                      "thread"));
    print_table(contenders);
  }
  if (!options.json.empty()) write_json(options, contenders);
  if (options.tolerance >= 0) {
    for (const Contender& contender : contenders) {
      if (contender.difference && !(*contender.difference <= options.tolerance)) {
        tell("xrt: {} differs from {} by {:.3g} of the output's range\n", contender.name,
             contenders.front().name, *contender.difference);
        return kMismatch;
      }
    }
  }
  return kOk;
}

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("bench", "Time a model on engines, and on other runtimes");
  sub->footer(kFooter);
  sub->add_option("model", options->model, "an ONNX file, or a folder that OneFlow saved")
      ->required()
      ->type_name("MODEL");
  sub->add_option("-e,--engine", options->engines, "a configuration to time (repeatable)")
      ->type_name("A,B,...")
      ->allow_extra_args(false);
  sub->add_flag("--peers", options->with_peers,
                "also time onnxruntime and OpenVINO through Python, where installed");
  sub->add_option("--peer", options->peers, "only this peer; it must be there (repeatable)")
      ->check(CLI::IsMember(kAllPeers))
      ->allow_extra_args(false);
  sub->add_option("--seconds", options->seconds, "time to spend per configuration")
      ->check(above_zero())
      ->capture_default_str();
  sub->add_option("--rounds", options->rounds, "runs per configuration, instead of --seconds")
      ->check(above_zero());
  sub->add_option("--warmup", options->warmup, "runs before measuring")
      ->check(from_zero())
      ->capture_default_str();
  sub->add_option("--tolerance", options->tolerance,
                  "exit code 4 if a difference exceeds this share of the output's range")
      ->check(from_zero());
  sub->add_option("--json", options->json, "write the figures to a file, - for standard output")
      ->type_name("FILE");
  add_input_options(*sub, options->inputs);
  add_placement_options(*sub, options->placement);
  sub->callback([options, &chosen] { chosen = [options] { return execute(*options); }; });
}

}  // namespace xrt::cli
