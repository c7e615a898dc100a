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
#include "values/convert.h"
#include "xrt/calibration.h"
#include "xrt/error.h"
#include "xrt/program.h"
#include "xrt/quantize.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

const Graph& graph_of(nb::handle object) {
  const Graph* graph = as_graph(object);
  if (graph == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("an openxrt.Graph is wanted, not {}",
                                                         nb::type_name(object.type()).c_str()));
  }
  return *graph;
}

QuantizeOptions options_of(const std::string& clipping, double percentile, double average_factor,
                           std::set<std::string> keep_float, bool round_sums) {
  QuantizeOptions options;
  options.clipping = clipping_of(clipping);
  options.percentile = percentile;
  options.average_factor = average_factor;
  options.skip = std::move(keep_float);
  options.round_sums = round_sums;
  return options;
}

CalibrationTable calibrate_graph(const nb::object& object, const nb::list& samples,
                                 const std::string& clipping, double percentile,
                                 double average_factor, std::set<std::string> keep_float,
                                 bool round_sums, const std::optional<std::string>& cache_dir) {
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
  const QuantizeOptions options =
      options_of(clipping, percentile, average_factor, std::move(keep_float), round_sums);
  const nb::gil_scoped_release release;
  return calibrate(graph, values, options,
                   cache_dir ? std::filesystem::path(*cache_dir) : default_cache_dir());
}

std::tuple<nb::object, std::size_t, std::size_t> quantize_graph(const nb::object& object,
                                                                const CalibrationTable& table,
                                                                std::set<std::string> keep_float,
                                                                bool round_sums) {
  Graph graph = graph_of(object);
  QuantizeOptions options;
  options.skip = std::move(keep_float);
  options.round_sums = round_sums;
  QuantizeSummary done;
  {
    const nb::gil_scoped_release release;
    done = quantize(graph, ranges_for(table, graph, options, TableMatch::kStructure), options);
  }
  return {graph_object(std::move(graph)), done.sums, done.kept};
}

nb::dict counts_of(const QuantizedModel& done) {
  nb::dict result;
  result["sums"] = done.summary.sums;
  result["kept"] = done.summary.kept;
  result["values"] = done.summary.values;
  result["samples"] = done.samples;
  result["decibels"] = done.decibels;
  result["kept_for_accuracy"] = done.kept;
  return result;
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
  return counts_of(done);
}

nb::dict quantize_by_table(const std::filesystem::path& model, const std::filesystem::path& output,
                           const CalibrationTable& table, std::set<std::string> keep_float,
                           bool round_sums) {
  QuantizeOptions options;
  options.skip = std::move(keep_float);
  options.round_sums = round_sums;
  QuantizedModel done;
  {
    const nb::gil_scoped_release release;
    done = quantize_model(model, output, table, options);
  }
  return counts_of(done);
}

}  // namespace

void bind_quantize(nb::module_& module) {
  module.def(
      "calibrate_graph", calibrate_graph, nb::arg("graph"), nb::arg("samples"), nb::kw_only(),
      nb::arg("clipping") = "minmax", nb::arg("percentile") = QuantizeOptions().percentile,
      nb::arg("average_factor") = QuantizeOptions().average_factor,
      nb::arg("keep_float") = std::set<std::string>(), nb::arg("round_sums") = false,
      nb::arg("cache_dir").none() = nb::none(),
      "Runs the graph on samples, each a list with one array per input, and returns the "
      "table of the ranges that int8 needs. The graph was simplified (finish(simplify=True)). "
      "Results are kept in cache_dir, $XRT_CACHE_DIR by default.");
  module.def("quantize_graph", quantize_graph, nb::arg("graph"), nb::arg("table"), nb::kw_only(),
             nb::arg("keep_float") = std::set<std::string>(), nb::arg("round_sums") = false,
             "A copy of the graph with QuantizeLinear and DequantizeLinear; how many sums of "
             "products became int8, and how many stayed in floating point.");
  module.def("quantize_model", quantize_model_file, nb::arg("model"), nb::arg("output"),
             nb::arg("samples"), nb::kw_only(), nb::arg("clipping") = "minmax",
             nb::arg("keep_float") = std::set<std::string>(), nb::arg("round_sums") = false,
             nb::arg("accuracy") = 0.0,
             "Writes a model's file in int8, calibrated with a folder of samples; the counts of "
             "nodes and samples. openxrt.quantize.quantize() is its user.");
  module.def("quantize_by_table", quantize_by_table, nb::arg("model"), nb::arg("output"),
             nb::arg("table"), nb::kw_only(), nb::arg("keep_float") = std::set<std::string>(),
             nb::arg("round_sums") = false,
             "Writes a model's file in int8 by a calibration table; the counts of nodes.");
}

}  // namespace xrt::python
