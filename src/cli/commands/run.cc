// SPDX-License-Identifier: Apache-2.0
// xrt run: load, run once or more, show the results.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "data/npy.h"
#include "measure/difference.h"

namespace xrt::cli {
namespace {

struct Options {
  std::string model;
  std::string engine = "auto";
  PlacementOptions placement;
  InputOptions inputs;
  int runs = 1;
  int top = 0;
  double timeout = 0;
  std::string output, expect, profile;
  double rtol = 1e-3, atol = 1e-5;
  bool json = false;
};

constexpr const char* kFooter = R"(Examples:
  xrt run model.onnx                                   random inputs, seed 0
  xrt run model.onnx -i x=input.npy -o out.npz         from and to NumPy files
  xrt run resnet50.onnx -i x=cat.jpg --mean 0.485 0.456 0.406 --std 0.229 0.224 0.225 --top 5
  xrt run bert.onnx --dim batch=1 --dim sequence=128 --engine openvino,native
  xrt run model.onnx -i in.npz --expect out.npz        exit code 4 if the results differ

Images are resized to the input's height and width (triangle filter), scaled to 0..1, then
(value - mean) / std per channel; a uint8 input takes the pixels as they are.)";

// A sequence within a sequence, or a map in one, has items of items.
void add_tensors(const std::string& name, const Data& data, std::map<std::string, Tensor>& arrays) {
  if (data.is_tensor()) arrays[name] = data.tensor();
  if (!data.is_sequence()) return;
  for (std::size_t k = 0; k < data.items().size(); ++k) {
    add_tensors(fmt::format("{}[{}]", name, k), data.items()[k], arrays);
  }
}

std::map<std::string, Tensor> tensors_by_name(const std::vector<Port>& ports,
                                              const std::vector<Data>& outputs) {
  std::map<std::string, Tensor> arrays;
  for (std::size_t i = 0; i < ports.size(); ++i) add_tensors(ports[i].name, outputs[i], arrays);
  return arrays;
}

void write_outputs(const std::string& path, const std::map<std::string, Tensor>& arrays) {
  if (path.ends_with(".npy")) {
    if (arrays.size() != 1) {
      throw UsageError(fmt::format("--output {}: the program has {} outputs; write a .npz", path,
                                   arrays.size()));
    }
    write_output_file(path, format_npy(arrays.begin()->second));
  } else {
    write_npz(path, arrays);
  }
}

// True if all arrays of the file agree with the results.
bool matches(const Options& options, const std::map<std::string, Tensor>& results) {
  WantedDTypes wanted;
  for (const auto& [name, tensor] : results) wanted[name] = tensor.dtype();
  std::map<std::string, Tensor> expected;
  if (options.expect.ends_with(".npy")) {
    if (results.size() != 1)
      throw UsageError("--expect: the program has several outputs; pass a .npz");
    const auto& [name, tensor] = *results.begin();
    expected[name] = parse_npy(read_file(options.expect), options.expect, tensor.dtype());
  } else {
    expected = read_npz(options.expect, wanted);
  }
  bool all = true;
  for (const auto& [name, tensor] : expected) {
    const auto result = results.find(name);
    if (result == results.end()) {
      throw UsageError(
          fmt::format("--expect {}: the program has no output '{}'", options.expect, name));
    }
    const Difference difference = compare(result->second, tensor, options.rtol, options.atol);
    tell("{}: {}\n", name, difference.text);
    all = all && difference.within;
  }
  return all;
}

int execute(const Options& options) {
  if (!options.output.empty() && !options.output.ends_with(".npy") &&
      !options.output.ends_with(".npz")) {
    throw UsageError(fmt::format("--output {}: the name must end in .npy or .npz", options.output));
  }
  for (const std::string& file : {options.output, options.profile}) {
    if (!file.empty()) check_output_file(file, options.model);
  }
  const Loaded loaded = load_program(
      options.model, program_options(options.placement, split_engines(options.engine)));
  Program& program = *loaded.program;
  std::vector<std::string> notes;
  const std::vector<Data> inputs = make_inputs(program.inputs(), options.inputs, notes);
  for (const std::string& note : notes) tell("note: {}\n", note);

  program.enable_profile(!options.profile.empty());
  std::vector<Data> outputs;
  std::vector<double> seconds;
  {
    Progress progress("running");
    for (int i = 0; i < options.runs; ++i) {
      outputs.clear();
      const auto start = std::chrono::steady_clock::now();
      program.run(inputs, outputs, {.timeout_s = options.timeout});
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      progress.step(fmt::format("run {} of {}", i + 2, options.runs));
    }
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const Explanation explanation = program.explain();

  const auto arrays = tensors_by_name(program.outputs(), outputs);
  if (!options.output.empty()) write_outputs(options.output, arrays);
  if (!options.profile.empty()) write_output_file(options.profile, program.trace_json());
  if (options.json) {
    nlohmann::ordered_json json = {{"model", options.model},
                                   {"nodes_per_engine", explanation.nodes_per_engine},
                                   {"launches", explanation.launches.size()},
                                   {"notes", explanation.notes},
                                   {"load_ms", loaded.seconds * 1e3},
                                   {"runs", options.runs},
                                   {"median_ms", median * 1e3},
                                   {"minimum_ms", seconds.front() * 1e3},
                                   {"outputs", nlohmann::json::array()}};
    for (const auto& [name, tensor] : arrays) {
      json["outputs"].push_back(
          {{"name", name}, {"dtype", to_string(tensor.dtype())}, {"shape", tensor.dims()}});
    }
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      print_data(program.outputs()[i].name, outputs[i], options.top, 0);
    }
    fmt::print("\n{}\n", placement_summary(explanation));
    for (const std::string& note : explanation.notes) fmt::print("note: {}\n", note);
    fmt::print("load {}, ", time_text(loaded.seconds));
    if (options.runs == 1) {
      fmt::print("run {}\n", time_text(median));
    } else {
      fmt::print("{} runs: median {}, minimum {}\n", options.runs, time_text(median),
                 time_text(seconds.front()));
    }
  }
  if (!options.expect.empty() && !matches(options, arrays)) return kMismatch;
  return kOk;
}

}  // namespace

void add_run(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("run", "Run a model once, or several times");
  sub->footer(kFooter);
  add_model_options(*sub, options->model, options->engine);
  add_input_options(*sub, options->inputs);
  sub->add_option("-o,--output", options->output, "write the outputs to a .npz (or .npy) file")
      ->type_name("FILE");
  sub->add_option("--runs", options->runs, "how often to run")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  sub->add_option("--timeout", options->timeout, "seconds after which a run is given up; 0: none")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--top", options->top, "print the K largest elements with their indices")
      ->check(from_zero())
      ->type_name("K");
  sub->add_option("--expect", options->expect,
                  "compare the outputs with a .npz (or .npy) file; exit code 4 if they differ")
      ->type_name("FILE");
  sub->add_option("--rtol", options->rtol, "for --expect: relative tolerance")
      ->check(from_zero())
      ->capture_default_str();
  sub->add_option("--atol", options->atol, "for --expect: absolute tolerance")
      ->check(from_zero())
      ->capture_default_str();
  sub->add_option("--profile", options->profile, "write a trace for Chrome or Perfetto")
      ->type_name("FILE");
  sub->add_flag("--json", options->json, "print a summary as JSON instead");
  add_placement_options(*sub, options->placement);
  sub->callback([options, &chosen] { chosen = [options] { return execute(*options); }; });
}

}  // namespace xrt::cli
