// SPDX-License-Identifier: Apache-2.0
#include "onnx.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "exec/native_evaluator.h"
#include "gil.h"
#include "ops/own_ops.h"
#include "ops/schema.h"
#include "ops/sizes/deciding_operands.h"
#include "passes/pass_manager.h"
#include "xrt/model.h"
#include "xrt/onnx.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

nb::bytes rewrite(const nb::object& model, bool simplify) {
  std::string bytes;
  std::filesystem::path path;
  const bool in_memory = nb::isinstance<nb::bytes>(model);
  if (in_memory) {
    const auto given = nb::cast<nb::bytes>(model);
    bytes.assign(given.c_str(), given.size());
  } else {
    path = nb::cast<std::filesystem::path>(model);
  }
  std::string result;
  {
    const ReleasedGil release;
    Graph graph = in_memory ? import_onnx_bytes(bytes) : import_model(path);
    if (simplify) run_passes(graph, {.evaluate = native_evaluator(), .dump_dir = {}});
    result = export_onnx(graph);
  }
  return nb::bytes(result.data(), result.size());
}

}  // namespace

void bind_onnx(nb::module_& module) {
  module.def("rewrite_onnx", rewrite, nb::arg("model"), nb::kw_only(), nb::arg("simplify") = false,
             "The ONNX model (bytes, or the path of a file) as OpenXRT understands it, as bytes: "
             "ops of today's opset, functions inlined, types inferred; with simplify also after "
             "the graph passes.");
  module.def(
      "own_ops",
      [] {
        using Row = std::tuple<std::string, std::vector<std::string>, std::vector<std::string>,
                               std::string>;
        std::vector<Row> rows;
        for (const OpInfo& op : all_ops(kOwnDomain)) {
          rows.emplace_back(op.name, op.input_names, op.output_names, op.doc);
        }
        return rows;
      },
      "The ops of the domain xrt: name, inputs, outputs, meaning.");
  module.def(
      "deciding_operands",
      [] {
        using Row = std::tuple<std::string, std::string, std::size_t, bool, std::string>;
        std::vector<Row> rows;
        for (const DecidingOperand& fact : all_deciding_operands()) {
          rows.emplace_back(fact.domain, fact.op, fact.operand, fact.shapes,
                            wanted_of(fact.decides));
        }
        return rows;
      },
      "Operands whose values decide shapes or addresses: domain, op, position, whether the shape "
      "of the result depends on it, what its elements must be.");
}

}  // namespace xrt::python
