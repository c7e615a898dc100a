// SPDX-License-Identifier: Apache-2.0
#include "program/quantize_model.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/file.h"
#include "xrt/graph_runner.h"
#include "xrt/onnx.h"

namespace xrt {
namespace {

constexpr std::size_t kJudged = 8;     // samples that decibels are measured with
constexpr std::size_t kCompared = 16;  // and that a clipping is chosen with

using Samples = std::vector<std::vector<Tensor>>;

QuantizedModel quantize_by(const CalibrationTable& table, Graph graph,
                           const std::filesystem::path& output, const QuantizeOptions& options) {
  QuantizedModel result;
  result.samples = table.samples;
  result.summary = quantize(graph, ranges_for(table, graph, options), options);
  export_onnx_file(graph, output);
  return result;
}

// The first `most` samples, or all of them.
Samples kept_samples(const SampleSource& source, const std::vector<Port>& inputs,
                     std::size_t most) {
  Samples all;
  source(inputs, [&](const std::vector<Tensor>& sample) {
    if (all.size() == most) return;
    all.emplace_back();
    for (const Tensor& t : sample) all.back().push_back(t.clone());
  });
  return all;
}

bool has_float_output(const Graph& graph) {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(),
                     [&](ValueId v) { return graph.type(v).dtype == DType::kFloat32; });
}

}  // namespace

std::vector<Clipping> clippings_of(std::string_view text) {
  if (text != "auto") return {clipping_of(text)};
  return {Clipping::kMse, Clipping::kMinMax, Clipping::kMovingAverage};
}

QuantizedModel quantize_model(const std::filesystem::path& model,
                              const std::filesystem::path& output, const SampleSource& samples,
                              const ModelQuantization& how) {
  check_output_file(output, model);
  Graph graph = graph_to_quantize(model, how.values);
  QuantizeOptions options = how.values;
  const std::vector<Port> inputs = sample_ports(graph);
  const GraphRunner runner = program_runner();
  QuantizedModel result;
  ChannelRanges channels;
  std::optional<Calibrator> calibrator;  // of the graph as it is quantised
  if (how.correct_bias || how.smoothing.strength > 0) {
    calibrator.emplace(graph, options, runner, how.clippings);
    ChannelWatcher watcher(graph, options, runner);
    samples(inputs, [&](const std::vector<Tensor>& sample) {
      calibrator->add(sample);
      watcher.add(sample);
    });
    channels = watcher.ranges();
    result.samples = calibrator->samples();
    result.smoothed = smooth(graph, channels, options, how.smoothing);
    const bool changed = result.smoothed.layers + result.smoothed.products > 0;
    if (changed) calibrator.reset();
    if (!how.correct_bias) channels.clear();
  }
  const bool searches = how.decibels > 0 || how.judge;
  if (!calibrator && (!searches || how.clippings.size() > 1)) {
    calibrator.emplace(graph, options, runner, how.clippings);
    samples(inputs, [&](const std::vector<Tensor>& sample) { calibrator->add(sample); });
    result.samples = calibrator->samples();
  }
  if (!how.clippings.empty()) options.clipping = how.clippings.front();
  if (calibrator && has_float_output(graph)) {
    const Samples compared = kept_samples(samples, inputs, kCompared);
    const Judge judge = decibel_judge(graph, compared, kCompared, runner);
    options.float_results = gains_by_float_results(graph, calibrator->ranges(options.clipping),
                                                   judge, options, channels);
    if (how.clippings.size() > 1) {
      options.clipping =
          choose_clipping(graph, *calibrator, how.clippings, judge, options, channels);
    }
  }
  result.clipping = options.clipping;
  result.float_results = options.float_results;

  ValueRanges ranges;
  if (searches) {
    const Samples all = kept_samples(samples, inputs, SIZE_MAX);
    const Judge judge = how.judge ? how.judge : decibel_judge(graph, all, kJudged, runner);
    AccuracySearch found =
        reach_accuracy(graph, all, kJudged, judge, how.judge ? how.wanted : how.decibels, options,
                       runner, channels);
    options.skip.insert(found.kept.begin(), found.kept.end());
    ranges = std::move(found.ranges);
    result.samples = all.size();
    result.reached = found.reached;
    result.kept = std::move(found.kept);
  } else {
    ranges = calibrator->ranges(options.clipping);
  }
  if (how.rank) {
    result.nodes = rank_nodes(graph, ranges, kept_samples(samples, inputs, kJudged), kJudged,
                              options, runner, channels);
  }
  result.summary = quantize(graph, ranges, options, channels);
  export_onnx_file(graph, output);
  return result;
}

QuantizedModel quantize_model(const std::filesystem::path& model,
                              const std::filesystem::path& output,
                              const std::filesystem::path& table, const QuantizeOptions& options) {
  check_output_file(output, model);
  Graph graph = graph_to_quantize(model, options);
  const CalibrationTable loaded = load_any_table(table, graph, options);
  return quantize_by(loaded, std::move(graph), output, options);
}

QuantizedModel quantize_model(const std::filesystem::path& model,
                              const std::filesystem::path& output, const CalibrationTable& table,
                              const QuantizeOptions& options) {
  check_output_file(output, model);
  return quantize_by(table, graph_to_quantize(model, options), output, options);
}

}  // namespace xrt
