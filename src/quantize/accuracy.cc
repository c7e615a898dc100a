// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "quantize/output_noise.h"
#include "quantize/scheme.h"
#include "xrt/error.h"
#include "xrt/quantize.h"

namespace xrt {
namespace {

constexpr double kNoNoise = std::numeric_limits<double>::infinity();

class Search {
 public:
  Search(const Graph& graph, const std::vector<std::vector<Tensor>>& samples, std::size_t judged,
         const QuantizeOptions& options, const GraphRunner& runner)
      : graph_(graph),
        samples_(samples),
        judged_(std::min(judged, samples.size())),
        options_(options),
        runner_(runner) {
    const GraphRun run = runner(Graph(graph));
    for (std::size_t i = 0; i < judged_; ++i) wanted_.push_back(run(samples[i]));
    for (const NodeId id : quantization::make_scheme(graph, options).sums) {
      names_.push_back(graph.node(id).name);
    }
  }

  AccuracySearch run(double decibels) {
    AccuracySearch result;
    result.decibels = judge({});
    if (result.decibels < decibels) {
      const std::vector<std::string> order = by_noise();
      std::size_t low = 0;  // too few
      std::size_t high = 1;
      while (high < order.size() && (result.decibels = keep(order, high)) < decibels) {
        low = high;
        high = std::min(2 * high, order.size());
      }
      if (high == order.size()) result.decibels = kNoNoise;  // all in floating point
      while (high - low > 1) {
        const std::size_t middle = low + (high - low) / 2;
        const double found = keep(order, middle);
        if (found < decibels) {
          low = middle;
        } else {
          high = middle;
          result.decibels = found;
        }
      }
      result.kept.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(high));
    }
    result.ranges = std::move(ranges_);
    return result;
  }

 private:
  double keep(const std::vector<std::string>& order, std::size_t count) {
    return judge({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count)});
  }

  // The noisiest node first.
  std::vector<std::string> by_noise() {
    const std::set<std::string> all(names_.begin(), names_.end());
    std::vector<std::pair<double, std::string>> noise;
    noise.reserve(names_.size());
    for (const std::string& name : names_) {
      std::set<std::string> others = all;
      others.erase(name);
      noise.emplace_back(judge(others), name);
      log_info("'" + name + "' alone in int8: " + std::to_string(noise.back().first) + " dB");
    }
    std::stable_sort(noise.begin(), noise.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> names;
    names.reserve(noise.size());
    for (auto& [unused, name] : noise) names.push_back(std::move(name));
    return names;
  }

  // Decibels with those nodes in floating point.
  double judge(const std::set<std::string>& kept) {
    QuantizeOptions options = options_;
    options.skip.insert(kept.begin(), kept.end());
    const quantization::Scheme scheme = quantization::make_scheme(graph_, options);
    if (scheme.sums.empty()) return kNoNoise;
    const bool known = std::all_of(scheme.values.begin(), scheme.values.end(), [&](ValueId v) {
      return ranges_.contains(graph_.value(v).name);
    });
    if (!known) {
      Calibrator calibrator(graph_, options, runner_);
      for (const auto& sample : samples_) calibrator.add(sample);
      ranges_.merge(calibrator.ranges());
    }
    Graph graph(graph_);
    quantize(graph, ranges_, options);
    const GraphRun run = runner_(std::move(graph));
    std::vector<quantization::OutputNoise> noise(graph_.outputs().size());
    for (std::size_t i = 0; i < judged_; ++i) add(wanted_[i], run(samples_[i]), noise);
    double worst = kNoNoise;
    for (const auto& output : noise) worst = std::min(worst, output.decibels());
    return worst;
  }

  static void add(const std::vector<Tensor>& wanted, const std::vector<Tensor>& found,
                  std::vector<quantization::OutputNoise>& noise) {
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

  const Graph& graph_;
  const std::vector<std::vector<Tensor>>& samples_;
  std::size_t judged_;
  const QuantizeOptions& options_;
  const GraphRunner& runner_;
  std::vector<std::string> names_;           // of nodes that may become int8
  std::vector<std::vector<Tensor>> wanted_;  // outputs in floating point, per judged sample
  ValueRanges ranges_;
};

}  // namespace

AccuracySearch reach_accuracy(const Graph& graph, const std::vector<std::vector<Tensor>>& samples,
                              std::size_t judged, double decibels, const QuantizeOptions& options,
                              const GraphRunner& runner) {
  if (samples.empty() || judged == 0) {
    throw Error(ErrorCode::kInvalidArgument, "an accuracy takes at least one sample to judge by");
  }
  const bool floats = std::any_of(graph.outputs().begin(), graph.outputs().end(), [&](ValueId v) {
    return graph.type(v).dtype == DType::kFloat32;
  });
  if (!floats) {
    throw Error(ErrorCode::kInvalidArgument,
                "an accuracy in decibels takes an output of float32, and the graph has none");
  }
  return Search(graph, samples, judged, options, runner).run(decibels);
}

}  // namespace xrt
