// SPDX-License-Identifier: Apache-2.0
#include "program/quantize_model.h"

#include <utility>
#include <vector>

#include "xrt/graph_runner.h"
#include "xrt/onnx.h"

namespace xrt {
namespace {

constexpr std::size_t kJudged = 8;  // samples that an accuracy is measured with

QuantizedModel quantize_by(const CalibrationTable& table, Graph graph,
                           const std::filesystem::path& output, const QuantizeOptions& options) {
  QuantizedModel result;
  result.samples = table.samples;
  result.summary = quantize(graph, ranges_for(table, graph, options), options);
  export_onnx_file(graph, output);
  return result;
}

}  // namespace

QuantizedModel quantize_model(const std::filesystem::path& model,
                              const std::filesystem::path& output, const SampleSource& samples,
                              QuantizeOptions options, double accuracy) {
  Graph graph = graph_to_quantize(model, options);
  const std::vector<Port> inputs = sample_ports(graph);
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

QuantizedModel quantize_model(const std::filesystem::path& model,
                              const std::filesystem::path& output,
                              const std::filesystem::path& table, const QuantizeOptions& options) {
  Graph graph = graph_to_quantize(model, options);
  const CalibrationTable loaded = load_any_table(table, graph, options);
  return quantize_by(loaded, std::move(graph), output, options);
}

QuantizedModel quantize_model(const std::filesystem::path& model,
                              const std::filesystem::path& output, const CalibrationTable& table,
                              const QuantizeOptions& options) {
  return quantize_by(table, graph_to_quantize(model, options), output, options);
}

}  // namespace xrt
