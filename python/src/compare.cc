// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gil.h"
#include "measure/compare_engines.h"
#include "measure/workload.h"
#include "options.h"
#include "values/convert.h"
#include "xrt/error.h"
#include "xrt/model.h"
#include "xrt/onnx.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

nb::dict by_name(const Graph& graph, const std::vector<ValueId>& values,
                 const std::vector<Data>& data) {
  nb::dict result;
  for (std::size_t i = 0; i < data.size(); ++i) {
    result[nb::str(graph.value(values[i]).name.c_str())] = to_python(data[i]);
  }
  return result;
}

std::vector<Data> inputs_of(const Graph& graph, const nb::object& given) {
  if (given.is_none()) {
    auto synthetic = synthetic_workload(graph, {});
    if (synthetic) return std::move(synthetic->runs.front());
    throw Error(ErrorCode::kInvalidArgument,
                "the shapes of the inputs are not all fixed in the model: pass inputs={name: "
                "array}");
  }
  const auto named = nb::cast<nb::dict>(given);
  std::vector<Data> inputs;
  std::size_t used = 0;
  for (const ValueId v : graph.inputs()) {
    const std::string& name = graph.value(v).name;
    const nb::str key(name.c_str());
    if (named.contains(key)) {
      ++used;
      inputs.push_back(
          to_data(named[key], graph.type(v), fmt::format("input '{}'", name), Access::kRead));
    } else if (graph.input_defaults().contains(v)) {
      inputs.emplace_back();
    } else {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("input '{}' ({}) was not given", name, to_string(graph.type(v))));
    }
  }
  if (used != nb::len(named)) {
    throw Error(ErrorCode::kInvalidArgument, "inputs names something that the model does not have");
  }
  return inputs;
}

nb::dict compare(const nb::object& model, const nb::object& inputs, std::vector<std::string> first,
                 std::vector<std::string> second, double tolerance, bool every_node,
                 const nb::dict& program_options) {
  CompareOptions options;
  options.first = std::move(first);
  options.second = std::move(second);
  options.tolerance = tolerance;
  options.every_node = every_node;
  set_options(options.program, program_options);
  const bool in_memory = nb::isinstance<nb::bytes>(model);
  std::string bytes;
  std::filesystem::path path;
  if (in_memory) {
    const auto given = nb::cast<nb::bytes>(model);
    bytes.assign(given.c_str(), given.size());
  } else {
    path = nb::cast<std::filesystem::path>(model);
  }
  const Graph graph = [&] {
    const ReleasedGil release;
    return in_memory ? import_onnx_bytes(bytes) : import_model(path);
  }();
  const std::vector<Data> values = inputs_of(graph, inputs);
  EngineDifference found;
  std::string piece;
  {
    const ReleasedGil release;
    found = compare_engines(graph, values, options);
    if (found.differs) piece = export_onnx(found.piece);
  }
  nb::dict result;
  result["differs"] = found.differs || !(found.outputs_error <= tolerance);
  result["outputs_error"] = found.outputs_error;
  result["nodes"] = found.nodes;
  result["value"] = found.value;
  result["error"] = found.error;
  result["text"] = found.text;
  result["piece"] = nb::bytes(piece.data(), piece.size());
  const std::vector<ValueId> none;
  result["inputs"] =
      by_name(found.piece, found.differs ? found.piece.inputs() : none, found.inputs);
  result["expected"] =
      by_name(found.piece, found.differs ? found.piece.outputs() : none, found.first);
  result["actual"] =
      by_name(found.piece, found.differs ? found.piece.outputs() : none, found.second);
  return result;
}

}  // namespace

void bind_compare(nb::module_& module) {
  module.def("compare", compare, nb::arg("model"), nb::arg("inputs").none(), nb::kw_only(),
             nb::arg("first"), nb::arg("second"), nb::arg("tolerance"), nb::arg("every_node"),
             nb::arg("options"));
}

}  // namespace xrt::python
