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
#include "evaluation/calibration_samples.h"
#include "evaluation/top_1_bound.h"
#include "gil.h"
#include "graph.h"
#include "labelled_set.h"
#include "options.h"
#include "program/calibration.h"
#include "program/int8_form.h"
#include "program/quantize_model.h"
#include "program/quantize_weights_model.h"
#include "report/noise.h"
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
  const ReleasedGil release;
  return calibrate(graph, values, options,
                   cache_dir ? std::filesystem::path(*cache_dir) : default_cache_dir());
}

// `activations` "auto": as the engines of a program with these options take them; asymmetric where
// none are named.
void set_form(QuantizeOptions& options, const std::string& activations, const nb::dict& given) {
  std::optional<Activations> wanted;
  if (activations != "auto") wanted = activations_of(activations);
  if (given.empty()) {
    options.activations = wanted.value_or(Activations::kAsymmetric);
    return;
  }
  ProgramOptions program;
  set_options(program, given);
  const ReleasedGil release;
  int8_form_for(program, wanted).set(options);
}

std::vector<OpRule> rules_of(const std::vector<std::string>& texts) {
  std::vector<OpRule> rules;
  rules.reserve(texts.size());
  for (const std::string& text : texts) rules.push_back(op_rule_of(text));
  return rules;
}

std::tuple<nb::object, std::size_t, std::size_t> quantize_graph(
    const nb::object& object, const CalibrationTable& table, std::set<std::string> keep_float,
    bool round_sums, const std::string& activations, const nb::dict& program) {
  Graph graph = graph_of(object);
  QuantizeOptions options;
  options.skip = std::move(keep_float);
  options.round_sums = round_sums;
  set_form(options, activations, program);
  QuantizeSummary done;
  {
    const ReleasedGil release;
    done = quantize(graph, ranges_for(table, graph, options, TableMatch::kStructure), options);
  }
  return {graph_object(std::move(graph)), done.sums, done.kept};
}

ModelQuantization model_quantization(const nb::dict& how) {
  ModelQuantization result;
  QuantizeOptions& values = result.values;
  result.clippings = clippings_of(nb::cast<std::string>(how["clipping"]));
  values.percentile = nb::cast<double>(how["percentile"]);
  values.skip = nb::cast<std::set<std::string>>(how["keep_float"]);
  values.round_sums = nb::cast<bool>(how["round_sums"]);
  values.rules = rules_of(nb::cast<std::vector<std::string>>(how["rules"]));
  set_form(values, nb::cast<std::string>(how["activations"]), nb::cast<nb::dict>(how["program"]));
  result.smoothing.strength = nb::cast<double>(how["smooth"]);
  result.smoothing.layers = nb::cast<bool>(how["equalize"]);
  result.correct_bias = nb::cast<bool>(how["correct_bias"]);
  result.decibels = nb::cast<double>(how["decibels"]);
  result.rank = nb::cast<bool>(how["rank"]);
  return result;
}

nb::dict row_of(const NodeNoise& node) {
  nb::dict row;
  row["name"] = node.name;
  row["op"] = node.op;
  row["kept"] = node.kept;
  row["alone_db"] = node.alone;
  row["weights_db"] = node.weights;
  row["reached_db"] = node.reached;
  row["input"] = nb::make_tuple(node.input.low, node.input.high);
  row["output"] = nb::make_tuple(node.output.low, node.output.high);
  return row;
}

nb::dict quantize_model_file(const std::filesystem::path& model,
                             const std::filesystem::path& output,
                             const std::optional<std::filesystem::path>& samples,
                             const nb::object& data, std::size_t calibrate_samples,
                             const std::optional<double>& top_1_loss, const nb::dict& how) {
  ModelQuantization options = model_quantization(how);
  ProgramOptions program;
  set_options(program, nb::cast<nb::dict>(how["program"]));
  const PyLabelledSet* labelled = data.is_none() ? nullptr : &nb::cast<const PyLabelledSet&>(data);
  const SampleSource source =
      samples ? [&](const auto& inputs,
                    const auto& use) { for_each_sample({*samples, {}}, inputs, use); }
              : calibration_samples(labelled->set(), labelled->batches(), calibrate_samples);
  QuantizedModel done;
  Top1Bound bound;
  {
    const ReleasedGil release;
    if (top_1_loss) {
      bound = bound_top_1(model, labelled->set(), labelled->batches(), *top_1_loss, program);
      options.judge = bound.judge;
      options.wanted = bound.wanted;
    }
    done = quantize_model(model, output, source, options);
  }
  nb::dict result;
  result["sums"] = done.summary.sums;
  result["kept"] = done.summary.kept;
  result["values"] = done.summary.values;
  result["samples"] = done.samples;
  result["notes"] = notes_of(done.summary);
  result["clipping"] = clipping_names()[static_cast<std::size_t>(done.clipping)];
  result["float_results"] = done.float_results;
  result["reached"] = done.reached;
  result["plain"] = bound.plain;
  result["kept_for_accuracy"] = done.kept;
  nb::list nodes;
  for (const NodeNoise& node : done.nodes) nodes.append(row_of(node));
  result["nodes"] = nodes;
  const std::string name = model.filename().string();
  result["html"] = done.nodes.empty() ? "" : report::noise_html(done.nodes, name);
  result["json"] = done.nodes.empty() ? "" : report::noise_json(done.nodes, name, 2);
  return result;
}

// `table`: a CalibrationTable, or the path of a file that load_any_table() reads.
template <typename Table>
nb::dict quantize_by_table(const std::filesystem::path& model, const std::filesystem::path& output,
                           const Table& table, const nb::dict& how) {
  const ModelQuantization options = model_quantization(how);
  QuantizedModel done;
  {
    const ReleasedGil release;
    done = quantize_model(model, output, table, options.values);
  }
  nb::dict result;
  result["sums"] = done.summary.sums;
  result["kept"] = done.summary.kept;
  result["values"] = done.summary.values;
  result["samples"] = done.samples;
  result["notes"] = notes_of(done.summary);
  result["kept_for_accuracy"] = done.kept;
  return result;
}

nb::dict quantize_weights_file(const std::filesystem::path& model,
                               const std::filesystem::path& output, int bits, std::int64_t block,
                               bool symmetric, bool search, std::set<std::string> keep_float) {
  const WeightOptions options{bits, block, symmetric, search, std::move(keep_float)};
  WeightSummary done;
  {
    const ReleasedGil release;
    done = quantize_model_weights(model, output, options);
  }
  nb::dict result;
  result["products"] = done.products;
  result["tables"] = done.tables;
  result["kept"] = done.kept;
  result["bytes_before"] = done.bytes_before;
  result["bytes_after"] = done.bytes_after;
  result["decibels"] = done.decibels;
  result["note"] = too_small_note(done.too_small);
  return result;
}

nb::dict quantize_dynamic_file(const std::filesystem::path& model,
                               const std::filesystem::path& output,
                               std::set<std::string> keep_float) {
  const DynamicOptions options{std::move(keep_float)};
  DynamicSummary done;
  {
    const ReleasedGil release;
    done = quantize_model_dynamic(model, output, options);
  }
  nb::dict result;
  result["products"] = done.products;
  result["kept"] = done.kept;
  result["note"] = too_small_note(done.too_small);
  return result;
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
             nb::arg("activations") = "auto", nb::arg("program") = nb::dict(),
             "A copy of the graph with QuantizeLinear and DequantizeLinear; how many sums of "
             "products became int8, and how many stayed in floating point.");
  module.def("quantize_model", quantize_model_file, nb::arg("model"), nb::arg("output"),
             nb::kw_only(), nb::arg("samples").none(), nb::arg("data").none(),
             nb::arg("calibrate_samples"), nb::arg("top_1_loss").none(), nb::arg("how"),
             "Writes a model's file in int8, calibrated with a folder of samples or the first of a "
             "LabelledSet; the counts of nodes and samples. openxrt.quantize.quantize() is its "
             "user.");
  module.def("quantize_by_table", quantize_by_table<CalibrationTable>, nb::arg("model"),
             nb::arg("output"), nb::arg("table"), nb::kw_only(), nb::arg("how"),
             "Writes a model's file in int8 by a calibration table, or by a file that holds the "
             "ranges; the counts of nodes.");
  module.def("quantize_by_table", quantize_by_table<std::filesystem::path>, nb::arg("model"),
             nb::arg("output"), nb::arg("table"), nb::kw_only(), nb::arg("how"));
  module.def("quantize_weights", quantize_weights_file, nb::arg("model"), nb::arg("output"),
             nb::kw_only(), nb::arg("bits"), nb::arg("block"), nb::arg("symmetric"),
             nb::arg("search") = true, nb::arg("keep_float") = std::set<std::string>(),
             "Writes a model's file with weights of 4 or 8 bits; the counts of nodes and bytes. "
             "openxrt.quantize.quantize() is its user.");
  module.def("quantize_dynamic", quantize_dynamic_file, nb::arg("model"), nb::arg("output"),
             nb::kw_only(), nb::arg("keep_float") = std::set<std::string>(),
             "Writes a model's file with products in int8 whose ranges each run finds; the counts "
             "of nodes. openxrt.quantize.quantize() is its user.");
  module.def(
      "trainable_quantised",
      [](const std::filesystem::path& model) {
        return graph_object(trainable_quantised_model(model));
      },
      nb::arg("model"),
      "The graph of a quantised model's file with float32 weights behind their rounding, to train "
      "on. openxrt.quantize.trainable() is its user.");
  module.def(
      "export_trained",
      [](const nb::object& graph, const std::filesystem::path& output) {
        export_trained_model(graph_of(graph), output);
      },
      nb::arg("graph"), nb::arg("output"),
      "Writes such a graph as an ONNX file with int8 weights. openxrt.quantize.export_trained() is "
      "its user.");
}

}  // namespace xrt::python
