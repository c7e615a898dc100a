// SPDX-License-Identifier: Apache-2.0
#include "xrt/quantize.h"

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/samples.h"
#include "cli/text.h"
#include "exec/native_evaluator.h"
#include "passes/pass_manager.h"
#include "program/option_checks.h"
#include "xrt/graph_runner.h"
#include "xrt/model.h"
#include "xrt/onnx.h"

namespace xrt::cli {
namespace {

constexpr std::size_t kJudged = 8;  // samples that --accuracy measures

constexpr const char* kFooter =
    R"(Writes an ONNX model with QuantizeLinear and DequantizeLinear around Conv, Gemm and MatMul; every
engine computes those in its own int8.

  xrt quantize resnet50.onnx -o resnet50_int8.onnx --calibrate pictures --mean .485 .456 .406 --std .229 .224 .225
  xrt compare resnet50_int8.onnx -e native -e openvino)";

struct Options {
  std::string model, output;
  double accuracy = 0;  // decibels; 0: none asked for
  CalibrationOptions calibration;
};

int execute(const Options& options) {
  Graph graph = import_model(options.model);
  check_node_names(graph, "--keep-float", options.calibration.skip);
  run_passes(graph, {.evaluate = native_evaluator(), .dump_dir = {}});
  std::vector<Port> inputs;
  for (const ValueId id : graph.inputs()) {
    Type type = graph.type(id);
    if (!type.has_rank()) {
      throw UsageError(fmt::format("input '{}' is {}: calibration needs tensors of known rank",
                                   graph.value(id).name, to_string(type)));
    }
    // One sample after the other; other open dimensions are as the samples have them.
    if (type.rank() > 0 && !(*type.shape)[0].is_known()) (*type.shape)[0] = Dim(1);
    inputs.push_back({graph.value(id).name, type, false});
  }
  QuantizeOptions how = quantize_options(options.calibration);
  ValueRanges ranges;
  std::size_t count = 0;
  std::string reached;
  if (options.accuracy > 0) {
    std::vector<std::vector<Tensor>> samples;
    for_each_sample(options.calibration, inputs, [&](const std::vector<Tensor>& sample) {
      samples.emplace_back();
      for (const Tensor& t : sample) samples.back().push_back(t.clone());
    });
    count = samples.size();
    AccuracySearch found =
        reach_accuracy(graph, samples, kJudged, options.accuracy, how, program_runner());
    how.skip.insert(found.kept.begin(), found.kept.end());
    ranges = std::move(found.ranges);
    reached = fmt::format("{:.1f} dB", found.decibels);
    if (!found.kept.empty()) {
      reached += fmt::format("; kept in floating point: {}", fmt::join(found.kept, ", "));
    }
    reached += "\n";
  } else {
    Calibrator calibrator(graph, how, program_runner());
    for_each_sample(options.calibration, inputs,
                    [&](const std::vector<Tensor>& sample) { calibrator.add(sample); });
    count = calibrator.samples();
    ranges = calibrator.ranges();
  }
  const QuantizeSummary done = quantize(graph, ranges, how);
  export_onnx_file(graph, options.output);
  fmt::print("{}: {} of {} Conv, Gemm and MatMul nodes in int8, {} values with a scale, {}\n",
             options.output, done.sums, done.sums + done.kept, done.values,
             plural(count, "sample"));
  fmt::print("{}", reached);
  return kOk;
}

}  // namespace

void add_quantize(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("quantize", "Quantise a model to int8 by samples");
  sub->footer(kFooter);
  sub->add_option("model", options->model, "an ONNX file, or a folder that OneFlow saved")
      ->required()
      ->type_name("MODEL");
  sub->add_option("-o,--output", options->output, "the ONNX file to write")->required();
  sub->add_option("--accuracy", options->accuracy,
                  "signal over noise that the outputs must have on the samples, in decibels: nodes "
                  "that cost most stay in floating point, as few as will do")
      ->type_name("DB")
      ->check(CLI::PositiveNumber);
  add_calibration_options(*sub, options->calibration);
  sub->get_option("--calibrate")->required();
  sub->callback([options, &chosen] { chosen = [options] { return execute(*options); }; });
}

}  // namespace xrt::cli
