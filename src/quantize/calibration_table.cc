// SPDX-License-Identifier: Apache-2.0
// What a table is of, whether it fits a graph, and two tables beside each other.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/listed.h"
#include "device/threads.h"
#include "ir/pattern.h"
#include "quantize/calibration_values.h"
#include "quantize/scheme.h"
#include "xrt/calibration.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::size_t kMostNamed = 3;  // values that a message lists

std::string observer_of(const QuantizeOptions& options) {
  const std::string& name = clipping_names()[static_cast<std::size_t>(options.clipping)];
  switch (options.clipping) {
    case Clipping::kPercentile:
      return fmt::format("{} {}", name, options.percentile);
    case Clipping::kMovingAverage:
      return fmt::format("{} {}", name, options.average_factor);
    default:
      return name;
  }
}

std::string called(const CalibrationTable& table) {
  return table.model.empty() ? "a graph without a name" : "'" + table.model + "'";
}

[[noreturn]] void refuse_table(const CalibrationTable& table, const Graph& graph,
                               const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the calibration table is of {} ({} values), not of this graph, '{}': "
                          "{}; calibrate this one",
                          called(table), table.values.size(), graph.name(), why));
}

bool same_ops(const std::vector<CalibratedValue>& a, const std::vector<CalibratedValue>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const CalibratedValue& x, const CalibratedValue& y) { return x.op == y.op; });
}

ValueRange united(const ValueRange& a, const ValueRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

std::map<std::string, ValueRange> by_name(const CalibrationTable& table) {
  std::map<std::string, ValueRange> named;
  for (const CalibratedValue& value : table.values) named[value.name] = value.range;
  return named;
}

}  // namespace

namespace quantization {

std::vector<CalibratedValue> values_to_calibrate(const Graph& graph,
                                                 const QuantizeOptions& options) {
  const Scheme scheme = make_scheme(graph, options);
  const std::set<ValueId> wanted(scheme.values.begin(), scheme.values.end());
  std::vector<CalibratedValue> rows;
  for (const ValueId id : graph.inputs()) {
    if (wanted.contains(id)) rows.push_back({graph.value(id).name, "", {}});
  }
  for (const NodeId node : graph.topological_order()) {
    for (const ValueId id : graph.node(node).outputs) {
      if (wanted.contains(id)) rows.push_back({graph.value(id).name, graph.node(node).op, {}});
    }
  }
  return rows;
}

GraphDigests digests_of(const Graph& graph) {
  static constexpr std::array<std::string_view, 4> kSums = {"Conv", "ConvTranspose", "Gemm",
                                                            "MatMul"};
  Hasher structure, weights;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (std::none_of(kSums.begin(), kSums.end(),
                     [&](std::string_view op) { return is_op(node, op); })) {
      continue;
    }
    structure.add(node.op);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor* t = node.inputs[i].valid() ? graph.constant(node.inputs[i]) : nullptr;
      if (t == nullptr) continue;
      structure.add(static_cast<std::int64_t>(i)).add(to_string(t->dtype()));
      structure.add(to_string(t->dims()));
      const Digest content = hash_large(t->raw(), t->bytes(), thread_budget());
      weights.add_bytes(&content, sizeof(content));
    }
  }
  return {structure.digest().hex(), weights.digest().hex()};
}

}  // namespace quantization

CalibrationTable make_table(const Graph& graph, const Calibrator& calibrator,
                            const QuantizeOptions& options) {
  const ValueRanges ranges = calibrator.ranges();
  CalibrationTable table;
  table.model = graph.name();
  const quantization::GraphDigests digests = quantization::digests_of(graph);
  table.structure = digests.structure;
  table.weights = digests.weights;
  table.observer = observer_of(options);
  table.samples = calibrator.samples();
  table.values = quantization::values_to_calibrate(graph, options);
  for (CalibratedValue& value : table.values) value.range = ranges.at(value.name);
  return table;
}

ValueRanges ranges_for(const CalibrationTable& table, const Graph& graph,
                       const QuantizeOptions& options, TableMatch match) {
  const quantization::GraphDigests digests = quantization::digests_of(graph);
  if (digests.structure != table.structure) {
    refuse_table(table, graph, "its convolutions and products are others");
  }
  if (match == TableMatch::kModel && digests.weights != table.weights) {
    refuse_table(table, graph, "its weights are others");
  }
  ValueRanges ranges = by_name(table);
  const std::vector<CalibratedValue> wanted = quantization::values_to_calibrate(graph, options);
  std::vector<std::string> missing;
  for (const CalibratedValue& value : wanted) {
    if (!ranges.contains(value.name)) missing.push_back("'" + value.name + "'");
  }
  if (missing.empty()) return ranges;
  if (!same_ops(table.values, wanted)) {
    refuse_table(table, graph, "it has no range for " + listed(missing, kMostNamed));
  }
  ranges.clear();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ranges[wanted[i].name] = table.values[i].range;
  }
  return ranges;
}

CalibrationTable merged(const CalibrationTable& a, const CalibrationTable& b) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the calibration tables of {} and {} cannot be merged: {}", called(a),
                            called(b), why));
  };
  if (a.structure != b.structure || a.weights != b.weights) refuse("they are of different models");
  if (a.observer != b.observer) {
    refuse(fmt::format("the ranges of one were found by {}, those of the other by {}", a.observer,
                       b.observer));
  }
  // Values without the same name are of the same ops in the same order: see ranges_for().
  const std::map<std::string, ValueRange> others = by_name(b);
  const bool all = a.values.size() == b.values.size() &&
                   std::all_of(a.values.begin(), a.values.end(), [&](const CalibratedValue& value) {
                     return others.contains(value.name);
                   });
  if (!all && !same_ops(a.values, b.values)) refuse("they have different values");
  CalibrationTable result = a;
  result.samples += b.samples;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    CalibratedValue& value = result.values[i];
    value.range = united(value.range, all ? others.at(value.name) : b.values[i].range);
  }
  return result;
}

std::vector<RangeDifference> difference(const CalibrationTable& a, const CalibrationTable& b) {
  const std::map<std::string, ValueRange> first = by_name(a), second = by_name(b);
  std::vector<RangeDifference> rows;
  for (const CalibratedValue& value : a.values) {
    const auto other = second.find(value.name);
    if (other == second.end()) {
      rows.push_back({value.name, value.range, std::nullopt, 1});
      continue;
    }
    const ValueRange& x = value.range;
    const ValueRange& y = other->second;
    if (x.low == y.low && x.high == y.high) continue;
    const double width = std::max(double{x.high} - x.low, double{y.high} - y.low);
    const double moved =
        std::max(std::abs(double{x.low} - y.low), std::abs(double{x.high} - y.high));
    rows.push_back({value.name, x, y, width > 0 ? moved / width : 1});
  }
  for (const CalibratedValue& value : b.values) {
    if (!first.contains(value.name)) rows.push_back({value.name, std::nullopt, value.range, 1});
  }
  std::stable_sort(
      rows.begin(), rows.end(),
      [](const RangeDifference& x, const RangeDifference& y) { return x.change > y.change; });
  return rows;
}

}  // namespace xrt
