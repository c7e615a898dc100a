// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "ops/quantized.h"
#include "quantize/output_noise.h"
#include "quantize/scheme.h"
#include "quantize/watched_values.h"
#include "quantize/weights.h"
#include "xrt/error.h"
#include "xrt/quantize.h"

namespace xrt {
namespace {

using quantization::OutputNoise;
using quantization::WatchedValues;

constexpr double kNoNoise = std::numeric_limits<double>::infinity();

void add_noise(const std::vector<Tensor>& wanted, const std::vector<Tensor>& found,
               std::vector<OutputNoise>& noise) {
  for (std::size_t o = 0; o < wanted.size(); ++o) {
    if (wanted[o].dtype() != DType::kFloat32) continue;
    if (wanted[o].count() != found[o].count()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "output " + std::to_string(o) +
                      " has another size when the graph is quantised: its accuracy cannot be "
                      "measured");
    }
    noise.at(o).add(wanted[o], found[o]);
  }
}

// Graphs in int8 of one float graph, with some of the nodes in floating point.
class Trials {
 public:
  Trials(const Graph& graph, const std::vector<std::vector<Tensor>>& samples,
         const QuantizeOptions& options, const GraphRunner& runner, const ChannelRanges& channels)
      : graph_(graph), samples_(samples), options_(options), runner_(runner), channels_(channels) {
    for (const NodeId id : quantization::make_scheme(graph, options).nodes) {
      names_.push_back(graph.node(id).name);
    }
  }

  const std::vector<std::string>& names() const { return names_; }
  ValueRanges& ranges() { return ranges_; }

  // Infinity where nothing is left in int8.
  double judge(const std::set<std::string>& kept, const Judge& judge) {
    QuantizeOptions options = options_;
    options.skip.insert(kept.begin(), kept.end());
    const quantization::Scheme scheme = quantization::make_scheme(graph_, options);
    if (scheme.nodes.empty()) return kNoNoise;
    const bool known = std::all_of(scheme.values.begin(), scheme.values.end(), [&](ValueId v) {
      return ranges_.contains(graph_.value(v).name);
    });
    if (!known) {
      Calibrator calibrator(graph_, options, runner_);
      for (const auto& sample : samples_) calibrator.add(sample);
      ranges_.merge(calibrator.ranges());
    }
    Graph graph(graph_);
    quantize(graph, ranges_, options, channels_);
    return judge(graph);
  }

  struct Alone {
    double decibels = 0;
    std::string name;
  };
  // Each node with all others in floating point, the noisiest first.
  std::vector<Alone> by_noise(const Judge& decibels) {
    const std::set<std::string> all(names_.begin(), names_.end());
    std::vector<Alone> noise;
    noise.reserve(names_.size());
    for (const std::string& name : names_) {
      std::set<std::string> others = all;
      others.erase(name);
      noise.push_back({judge(others, decibels), name});
      log_info("'" + name + "' alone in int8: " + std::to_string(noise.back().decibels) + " dB");
    }
    std::stable_sort(noise.begin(), noise.end(),
                     [](const Alone& a, const Alone& b) { return a.decibels < b.decibels; });
    return noise;
  }

 private:
  const Graph& graph_;
  const std::vector<std::vector<Tensor>>& samples_;
  const QuantizeOptions& options_;
  const GraphRunner& runner_;
  const ChannelRanges& channels_;
  std::vector<std::string> names_;  // of nodes that may become int8
  ValueRanges ranges_;
};

// What a node reads and makes, in the float graph.
struct Ends {
  ValueId input, output;
};

Ends ends_of(const Graph& graph, NodeId id, bool is_sum) {
  const Node& node = graph.node(id);
  Ends ends{node.input(0), node.output(0)};
  if (is_sum) ends.output = chain_behind(graph, node).end;
  return ends;
}

}  // namespace

Judge decibel_judge(const Graph& graph, const std::vector<std::vector<Tensor>>& samples,
                    std::size_t judged, const GraphRunner& runner) {
  judged = std::min(judged, samples.size());
  if (judged == 0) {
    throw Error(ErrorCode::kInvalidArgument, "an accuracy takes at least one sample to judge by");
  }
  const bool floats = std::any_of(graph.outputs().begin(), graph.outputs().end(), [&](ValueId v) {
    return graph.type(v).dtype == DType::kFloat32;
  });
  if (!floats) {
    throw Error(ErrorCode::kInvalidArgument,
                "an accuracy in decibels takes an output of float32, and the graph has none");
  }
  std::vector<std::vector<Tensor>> wanted;
  const GraphRun run = runner(Graph(graph));
  for (std::size_t i = 0; i < judged; ++i) wanted.push_back(run(samples[i]));
  return [wanted = std::move(wanted), &samples, runner](const Graph& quantized) {
    const GraphRun trial = runner(Graph(quantized));
    std::vector<OutputNoise> noise(quantized.outputs().size());
    for (std::size_t i = 0; i < wanted.size(); ++i) add_noise(wanted[i], trial(samples[i]), noise);
    double worst = kNoNoise;
    for (const OutputNoise& output : noise) worst = std::min(worst, output.decibels());
    return worst;
  };
}

Clipping choose_clipping(const Graph& graph, const Calibrator& calibrator,
                         std::span<const Clipping> clippings, const Judge& judge,
                         const QuantizeOptions& options, const ChannelRanges& channels) {
  // Decibels. A smaller gain on few samples does not hold for others: the photographs of
  // benchmarks/precision_samples.py reverse one of 0.7.
  constexpr double kGain = 1;
  std::optional<Clipping> best;
  double most = 0;
  for (const Clipping clipping : clippings) {
    Graph quantized(graph);
    quantize(quantized, calibrator.ranges(clipping), options, channels);
    const double reached = judge(quantized);
    log_info("clipping '" + clipping_names()[static_cast<std::size_t>(clipping)] +
             "': " + std::to_string(reached) + " dB");
    if (best && !(reached > most + (clippings.front() == *best ? kGain : 0))) continue;
    best = clipping;
    most = reached;
  }
  return best.value_or(options.clipping);
}

bool gains_by_float_results(const Graph& graph, const ValueRanges& ranges, const Judge& judge,
                            const QuantizeOptions& options, const ChannelRanges& channels) {
  constexpr double kGain = 3;  // decibels
  if (options.round_sums || options.round_results) return false;
  QuantizeOptions floats = options;
  floats.float_results = true;
  const auto values = [&](const QuantizeOptions& own) {
    return quantization::make_scheme(graph, own).values.size();
  };
  if (values(floats) == values(options)) return false;
  const auto reached = [&](const QuantizeOptions& own) {
    Graph quantized(graph);
    quantize(quantized, ranges, own, channels);
    return judge(quantized);
  };
  const double rounded = reached(options), kept = reached(floats);
  log_info("results of convolutions for float ops: " + std::to_string(rounded) +
           " dB where they are rounded, " + std::to_string(kept) + " dB in float32");
  return kept >= rounded + kGain;
}

AccuracySearch reach_accuracy(const Graph& graph, const std::vector<std::vector<Tensor>>& samples,
                              std::size_t judged, const Judge& judge, double wanted,
                              const QuantizeOptions& options, const GraphRunner& runner,
                              const ChannelRanges& channels) {
  if (samples.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "an accuracy takes at least one sample to judge by");
  }
  Trials trials(graph, samples, options, runner, channels);
  AccuracySearch result;
  result.reached = trials.judge({}, judge);
  if (!(result.reached >= wanted)) {
    const Judge decibels = decibel_judge(graph, samples, judged, runner);
    std::vector<std::string> order;
    for (Trials::Alone& node : trials.by_noise(decibels)) order.push_back(std::move(node.name));
    const auto keep = [&](std::size_t count) {
      const auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
      return trials.judge({order.begin(), end}, judge);
    };
    std::size_t low = 0;  // too few
    std::size_t high = std::min<std::size_t>(1, order.size());
    while (high < order.size() && !((result.reached = keep(high)) >= wanted)) {
      low = high;
      high = std::min(2 * high, order.size());
    }
    if (high == order.size()) result.reached = judge(graph);  // all in floating point
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      const double found = keep(middle);
      if (!(found >= wanted)) {
        low = middle;
      } else {
        high = middle;
        result.reached = found;
      }
    }
    result.kept.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(high));
  }
  result.ranges = std::move(trials.ranges());
  return result;
}

std::vector<NodeNoise> rank_nodes(const Graph& graph, const ValueRanges& ranges,
                                  const std::vector<std::vector<Tensor>>& samples,
                                  std::size_t judged, const QuantizeOptions& options,
                                  const GraphRunner& runner, const ChannelRanges& channels) {
  const Judge decibels = decibel_judge(graph, samples, judged, runner);
  judged = std::min(judged, samples.size());
  Trials trials(graph, samples, options, runner, channels);
  trials.ranges() = ranges;

  const quantization::Scheme scheme = quantization::make_scheme(graph, options);
  const std::set<NodeId> sums(scheme.sums.begin(), scheme.sums.end());
  std::map<std::string, std::size_t> places;
  std::vector<ValueId> outputs, quantized_outputs;
  Graph quantized(graph);
  quantize(quantized, ranges, options, channels);
  for (const NodeId id : scheme.nodes) {
    places[graph.node(id).name] = outputs.size();
    outputs.push_back(ends_of(graph, id, sums.contains(id)).output);
    quantized_outputs.push_back(*quantized.find_value(graph.value(outputs.back()).name));
  }
  const WatchedValues exact(graph, outputs, runner), rounded(quantized, quantized_outputs, runner);
  std::vector<OutputNoise> reached(outputs.size());
  for (std::size_t i = 0; i < judged; ++i) {
    add_noise(exact.run(samples[i]), rounded.run(samples[i]), reached);
  }

  const auto range_of = [&](ValueId v) {
    const auto found = ranges.find(graph.value(v).name);
    return found == ranges.end() ? ValueRange{} : found->second;
  };
  std::vector<NodeNoise> rows;
  for (const Trials::Alone& alone : trials.by_noise(decibels)) {
    const std::size_t at = places.at(alone.name);
    const NodeId id = scheme.nodes[at];
    const Node& node = graph.node(id);
    const Ends ends = ends_of(graph, id, sums.contains(id));
    NodeNoise row{node.name,
                  node.qualified_op(),
                  alone.decibels,
                  kNoNoise,
                  reached[at].decibels(),
                  range_of(ends.input),
                  range_of(ends.output)};
    if (sums.contains(id)) {
      const Tensor& weights = *graph.constant(node.input(1));
      const std::size_t axis = quantization::output_axis(node);
      row.weights = quantization::decibels_of(
          weights, axis, quantization::round_weights(weights, axis, {}, row.name));
    }
    rows.push_back(std::move(row));
  }
  for (const std::string& name : quantization::kept_names(graph, options)) {
    const Node& node = graph.node(*graph.find_node(name));
    rows.push_back({name, node.qualified_op(), kNoNoise, kNoNoise, kNoNoise, {}, {}, true});
  }
  return rows;
}

}  // namespace xrt
