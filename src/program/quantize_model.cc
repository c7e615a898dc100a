// SPDX-License-Identifier: Apache-2.0
#include "program/quantize_model.h"

#include <fmt/format.h>

#include <utility>

#include "exec/native_evaluator.h"
#include "passes/pass_manager.h"
#include "program/option_checks.h"
#include "xrt/error.h"
#include "xrt/graph_runner.h"
#include "xrt/model.h"
#include "xrt/onnx.h"

namespace xrt {
namespace {

constexpr std::size_t kJudged = 8;  // samples that an accuracy is measured with

}  // namespace

QuantizedModel quantize_model(const std::filesystem::path& model,
                              const std::filesystem::path& output, const SampleSource& samples,
                              QuantizeOptions options, double accuracy) {
  Graph graph = import_model(model);
  check_node_names(graph, "keep_float", {options.skip.begin(), options.skip.end()});
  run_passes(graph, {.evaluate = native_evaluator(), .dump_dir = {}});
  std::vector<Port> inputs;
  for (const ValueId id : graph.inputs()) {
    Type type = graph.type(id);
    if (!type.has_rank()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("input '{}' is {}: calibration needs tensors of known rank",
                              graph.value(id).name, to_string(type)));
    }
    if (type.rank() > 0 && !(*type.shape)[0].is_known()) (*type.shape)[0] = Dim(1);
    inputs.push_back({graph.value(id).name, type, false});
  }
  QuantizedModel result;
  ValueRanges ranges;
  if (accuracy > 0) {
    std::vector<std::vector<Tensor>> all;
    samples(inputs, [&](const std::vector<Tensor>& sample) {
      all.emplace_back();
      for (const Tensor& t : sample) all.back().push_back(t.clone());
    });
    AccuracySearch found = reach_accuracy(graph, all, kJudged, accuracy, options, program_runner());
    options.skip.insert(found.kept.begin(), found.kept.end());
    ranges = std::move(found.ranges);
    result.samples = all.size();
    result.decibels = found.decibels;
    result.kept = std::move(found.kept);
  } else {
    Calibrator calibrator(graph, options, program_runner());
    samples(inputs, [&](const std::vector<Tensor>& sample) { calibrator.add(sample); });
    result.samples = calibrator.samples();
    ranges = calibrator.ranges();
  }
  result.summary = quantize(graph, ranges, options);
  export_onnx_file(graph, output);
  return result;
}

}  // namespace xrt
