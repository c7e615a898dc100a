// SPDX-License-Identifier: Apache-2.0
#include "measure/half_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "exec/executor.h"
#include "ops/op_facts.h"
#include "placement/decision.h"
#include "placement/survey.h"
#include "registry/engine_names.h"

namespace xrt {
namespace {

// What the values of one run over the graph may take.
constexpr std::size_t kMostWatchedBytes = std::size_t{256} << 20;

// Numbers from here on are rounded to infinity.
double limit_of(Precision precision) {
  if (precision == Precision::kF16) return 65520;
  if (precision == Precision::kBF16) return std::ldexp(2 - std::ldexp(1.0, -8), 127);
  return std::numeric_limits<double>::infinity();
}

double magnitude_of(const Data& data) {
  if (!data.is_tensor() || data.tensor().dtype() != DType::kFloat32 || !data.tensor().on_host()) {
    return 0;
  }
  const float* values = data.tensor().data<float>();
  float largest = 0;
  for (std::int64_t i = 0; i < data.tensor().count(); ++i) {
    if (std::isfinite(values[i])) largest = std::max(largest, std::abs(values[i]));
  }
  return largest;
}

bool is_float32(const Graph& graph, ValueId v) {
  return v.valid() && graph.type(v).is_tensor() && graph.type(v).dtype == DType::kFloat32;
}

// The magnitudes of values that nodes make, by runs that give out a part of them each.
std::map<ValueId, double> magnitudes(const Graph& graph, std::span<const Data> inputs,
                                     const ProgramOptions& given) {
  std::vector<ValueId> values;
  for (const NodeId id : graph.topological_order()) {
    for (const ValueId v : graph.node(id).outputs) {
      if (is_float32(graph, v)) values.push_back(v);
    }
  }
  ProgramOptions options;
  options.engines = {kFallbackEngine};
  options.num_threads = given.num_threads;
  options.cache_dir = "";
  std::map<ValueId, double> found;
  for (std::size_t begin = 0; begin < values.size();) {
    Graph part = graph;
    std::vector<ValueId> watched;
    std::size_t bytes = 0;
    for (; begin < values.size() && (watched.empty() || bytes < kMostWatchedBytes); ++begin) {
      const Type& type = graph.type(values[begin]);
      if (const auto dims = type.static_dims()) bytes += byte_count(type.dtype, *dims);
      watched.push_back(values[begin]);
    }
    std::vector<std::size_t> places;  // of `watched`, among the outputs
    for (const ValueId v : watched) {
      const std::vector<ValueId>& own = part.outputs();
      const auto at = std::find(own.begin(), own.end(), v);
      places.push_back(static_cast<std::size_t>(at - own.begin()));
      if (at == own.end()) part.add_output(v);
    }
    Survey survey(part, options);
    std::vector<Data> outputs(part.outputs().size());
    Profiler profiler;
    Executor::build(survey, named(options))->run(inputs, outputs, profiler);
    for (std::size_t i = 0; i < watched.size(); ++i) {
      found[watched[i]] = magnitude_of(outputs[places[i]]);
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    found[graph.inputs()[i]] = magnitude_of(inputs[i]);
  }
  return found;
}

}  // namespace

HalfOverflows find_half_overflows(const Graph& graph, std::span<const Data> inputs,
                                  Precision precision, const ProgramOptions& options) {
  HalfOverflows result;
  const double limit = limit_of(precision);
  if (!std::isfinite(limit)) return result;
  const std::map<ValueId, double> found = magnitudes(graph, inputs, options);
  const auto is_over = [&](ValueId v) {
    const auto at = found.find(v);
    return v.valid() && at != found.end() && at->second >= limit;
  };
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    const Narrowing kind = narrowing(node);
    if (kind == Narrowing::kNo) continue;
    for (const ValueId v : node.outputs) {
      if (!is_over(v)) continue;
      result.rows.push_back({node.name, graph.value(v).name, found.at(v)});
      result.keep.insert(node.name);
    }
    // What follows is in float32 by itself where its operands are.
    if (kind != Narrowing::kFactors) continue;
    for (const ValueId v : node.inputs) {
      if (!is_over(v)) continue;
      result.keep.insert(node.name);
      const NodeId maker = graph.value(v).producer;
      const bool is_told = maker.valid() && narrowing(graph.node(maker)) != Narrowing::kNo;
      if (is_told) continue;
      result.rows.push_back(
          {maker.valid() ? graph.node(maker).name : node.name, graph.value(v).name, found.at(v)});
    }
  }
  return result;
}

std::string to_string(const HalfOverflows& overflows) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, overflows.rows.size()); ++i) {
    const HalfOverflows::Row& row = overflows.rows[i];
    text += fmt::format("{}node '{}': '{}' reaches {:.3g}", i == 0 ? "" : ", ", row.node, row.value,
                        row.magnitude);
  }
  if (overflows.rows.size() > kShown) {
    text += fmt::format(" and {} more", overflows.rows.size() - kShown);
  }
  return text;
}

}  // namespace xrt
