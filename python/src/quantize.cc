// SPDX-License-Identifier: Apache-2.0
// Quantisation of graphs that frontends written in Python made; openxrt/_int8.py is its user.
#include "quantize.h"

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/samples.h"
#include "graph.h"
#include "program/calibration.h"
#include "program/quantize_model.h"
#include "quantize/scheme.h"
#include "values/convert.h"
#include "xrt/error.h"
#include "xrt/program.h"
#include "xrt/quantize.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// Name of a value, the op that makes it ("" for an input), and its range; in topological order.
using RangeRow = std::tuple<std::string, std::string, float, float>;

// The values of a graph that need a range: name and op.
std::vector<std::pair<std::string, std::string>> wanted_values(const Graph& graph,
                                                               const QuantizeOptions& options) {
  const quantization::Scheme scheme = quantization::make_scheme(graph, options);
  const std::set<ValueId> wanted(scheme.values.begin(), scheme.values.end());
  std::vector<std::pair<std::string, std::string>> rows;
  for (const ValueId id : graph.inputs()) {
    if (wanted.contains(id)) rows.emplace_back(graph.value(id).name, "");
  }
  for (const NodeId node : graph.topological_order()) {
    for (const ValueId id : graph.node(node).outputs) {
      if (wanted.contains(id)) rows.emplace_back(graph.value(id).name, graph.node(node).op);
    }
  }
  return rows;
}

// By name. Frontends name some values after the shapes that a graph was traced with, or after how
// often it was: rows of another graph fit where the same ops make as many values in the same order.
ValueRanges by_name(const std::vector<RangeRow>& rows, const Graph& graph,
                    const QuantizeOptions& options) {
  const auto wanted = wanted_values(graph, options);
  ValueRanges named;
  for (const auto& [name, op, low, high] : rows) named[name] = {low, high};
  const bool all = std::all_of(wanted.begin(), wanted.end(),
                               [&](const auto& row) { return named.contains(row.first); });
  if (all) return named;
  const bool same = std::equal(
      rows.begin(), rows.end(), wanted.begin(), wanted.end(),
      [](const RangeRow& row, const auto& value) { return std::get<1>(row) == value.second; });
  if (!same) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the ranges are of another graph than '{}': {} for {} values that need "
                            "one; calibrate this one",
                            graph.name(), rows.size(), wanted.size()));
  }
  ValueRanges placed;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    placed[wanted[i].first] = {std::get<2>(rows[i]), std::get<3>(rows[i])};
  }
  return placed;
}

const Graph& graph_of(nb::handle object) {
  const Graph* graph = as_graph(object);
  if (graph == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("an openxrt.Graph is wanted, not {}",
                                                         nb::type_name(object.type()).c_str()));
  }
  return *graph;
}

std::vector<RangeRow> calibrate_graph(const nb::object& object, const nb::list& samples,
                                      const std::string& clipping, double percentile,
                                      std::set<std::string> keep_float, bool round_sums,
                                      const std::optional<std::string>& cache_dir) {
  const Graph& graph = graph_of(object);
  std::vector<std::vector<Tensor>> values;
  for (const nb::handle sample : samples) {
    std::vector<Tensor>& row = values.emplace_back();
    for (const nb::handle entry : sample) {
      const std::size_t i = row.size();
      if (i >= graph.inputs().size()) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("calibration sample {}: more values than the {} inputs",
                                values.size(), graph.inputs().size()));
      }
      const ValueId input = graph.inputs()[i];
      const std::string label =
          fmt::format("calibration sample {}: input '{}'", values.size(), graph.value(input).name);
      const Data data = to_data(entry, graph.type(input), label, Access::kRead);
      if (!data.is_tensor()) {
        throw Error(ErrorCode::kInvalidArgument, label + " must be a tensor");
      }
      row.push_back(data.tensor());
    }
  }
  const QuantizeOptions options{clipping_of(clipping), percentile, std::move(keep_float),
                                round_sums};
  ValueRanges ranges;
  {
    const nb::gil_scoped_release release;
    ranges = calibrate(graph, values, options,
                       cache_dir ? std::filesystem::path(*cache_dir) : default_cache_dir());
  }
  std::vector<RangeRow> rows;
  for (const auto& [name, op] : wanted_values(graph, options)) {
    const ValueRange& range = ranges.at(name);
    rows.emplace_back(name, op, range.low, range.high);
  }
  return rows;
}

std::tuple<nb::object, std::size_t, std::size_t> quantize_graph(const nb::object& object,
                                                                const std::vector<RangeRow>& rows,
                                                                std::set<std::string> keep_float,
                                                                bool round_sums) {
  Graph graph = graph_of(object);
  QuantizeOptions options;
  options.skip = std::move(keep_float);
  options.round_sums = round_sums;
  QuantizeSummary done;
  {
    const nb::gil_scoped_release release;
    done = quantize(graph, by_name(rows, graph, options), options);
  }
  return {graph_object(std::move(graph)), done.sums, done.kept};
}

nb::dict quantize_model_file(const std::filesystem::path& model,
                             const std::filesystem::path& output,
                             const std::filesystem::path& samples, const std::string& clipping,
                             std::set<std::string> keep_float, bool round_sums, double accuracy) {
  QuantizeOptions options;
  options.clipping = clipping_of(clipping);
  options.skip = std::move(keep_float);
  options.round_sums = round_sums;
  QuantizedModel done;
  {
    const nb::gil_scoped_release release;
    done = quantize_model(
        model, output,
        [&](const auto& inputs, const auto& use) {
          for_each_sample({samples, {}}, inputs, use);
        },
        std::move(options), accuracy);
  }
  nb::dict result;
  result["sums"] = done.summary.sums;
  result["kept"] = done.summary.kept;
  result["values"] = done.summary.values;
  result["samples"] = done.samples;
  result["decibels"] = done.decibels;
  result["kept_for_accuracy"] = done.kept;
  return result;
}

}  // namespace

void bind_quantize(nb::module_& module) {
  module.def(
      "calibrate_graph", calibrate_graph, nb::arg("graph"), nb::arg("samples"), nb::kw_only(),
      nb::arg("clipping") = "minmax", nb::arg("percentile") = 99.99,
      nb::arg("keep_float") = std::set<std::string>(), nb::arg("round_sums") = false,
      nb::arg("cache_dir").none() = nb::none(),
      "Runs the graph on samples, each a list with one array per input, and returns the "
      "ranges of the values that int8 needs: (name, op, low, high) in topological order. The "
      "graph was simplified "
      "(finish(simplify=True)). Results are kept in cache_dir, $XRT_CACHE_DIR by default.");
  module.def("quantize_graph", quantize_graph, nb::arg("graph"), nb::arg("ranges"), nb::kw_only(),
             nb::arg("keep_float") = std::set<std::string>(), nb::arg("round_sums") = false,
             "A copy of the graph with QuantizeLinear and DequantizeLinear; how many sums of "
             "products became int8, and how many stayed in floating point.");
  module.def("quantize_model", quantize_model_file, nb::arg("model"), nb::arg("output"),
             nb::arg("samples"), nb::kw_only(), nb::arg("clipping") = "minmax",
             nb::arg("keep_float") = std::set<std::string>(), nb::arg("round_sums") = false,
             nb::arg("accuracy") = 0.0,
             "Writes a model's file in int8, calibrated with a folder of samples; the counts of "
             "nodes and samples. openxrt.quantize.quantize() is its user.");
}

}  // namespace xrt::python
