// SPDX-License-Identifier: Apache-2.0
#include "compile.h"

#include <fmt/format.h>

#include "base/file.h"
#include "constants.h"
#include "exec/native_evaluator.h"
#include "ir/parser.h"
#include "ops/shape_inference.h"
#include "passes/pass_manager.h"
#include "precision.h"
#include "quantize/sink_dequantize.h"
#include "xrt/error.h"
#include "xrt/model.h"

namespace xrt::lite {

Graph load_model(const std::filesystem::path& path) {
  if (path.extension() == ".onnx" || std::filesystem::is_directory(path)) return import_model(path);
  return parse_graph(read_file(path));
}

Graph prepare(Graph graph, const std::map<std::string, std::int64_t>& dims,
              std::vector<std::string>& notes) {
  std::map<std::string, std::int64_t> used;
  for (const ValueId id : graph.inputs()) {
    const Value& v = graph.value(id);
    if (!v.type.is_tensor() || !v.type.has_rank()) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("input '{}' has type {}: lite needs tensors of known rank", v.name,
                              to_string(v.type)));
    }
    Dims fixed;
    for (std::size_t axis = 0; axis < v.type.shape->size(); ++axis) {
      const Dim& d = (*v.type.shape)[axis];
      std::int64_t size = d.is_known() ? d.value() : 1;
      if (!d.is_known()) {
        const std::string symbol = d.is_symbol() ? d.symbol() : fmt::format("{}.{}", v.name, axis);
        const auto given = dims.find(symbol);
        if (given != dims.end()) size = given->second;
        if (used.try_emplace(symbol, size).second && given == dims.end()) {
          notes.push_back(fmt::format("dimension '{}' of input '{}' is taken as 1 (--dim {}=SIZE)",
                                      symbol, v.name, symbol));
        }
      }
      if (size < 1) {
        throw Error(ErrorCode::kUnsupported, fmt::format("input '{}' is empty", v.name));
      }
      fixed.push_back(size);
    }
    graph.set_type(id, Type::tensor(v.type.dtype, fixed));
  }
  for (const auto& [symbol, size] : dims) {
    if (!used.contains(symbol)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("--dim {}: no input has a dimension of that name", symbol));
    }
  }
  infer_shapes(graph, /*reset=*/true);
  const PassOptions passes = {.evaluate = native_evaluator(), .dump_dir = {}};
  run_passes(graph, passes);
  if (fill_constants(graph)) run_passes(graph, passes);
  return graph;
}

Module compile(Graph graph, const CompileOptions& options, std::vector<std::string>& notes) {
  std::vector<const Target*> targets;
  for (const std::string& name : options.targets) {
    const Target* target = find_target(name);
    if (target == nullptr) {
      std::string known;
      for (const std::string& n : target_names()) known += (known.empty() ? "" : ", ") + n;
      throw Error(ErrorCode::kNotFound,
                  fmt::format("no target is named '{}'; there are: {}", name, known));
    }
    targets.push_back(target);
  }
  if (targets.empty() || targets.size() > XRT_MAX_TARGETS) {
    throw Error(ErrorCode::kInvalidArgument, "one to eight targets must be named");
  }
  Graph ready = prepare(std::move(graph), options.dims, notes);
  if (options.precision == Precision::kInt8) quantize_by_samples(ready, options, notes);
  if (sink_dequantize(ready)) run_passes(ready, {.evaluate = native_evaluator(), .dump_dir = {}});
  LGraph lowered = lower(ready);
  fuse(lowered);
  assign_layout(lowered);
  Module module = emit(lowered, targets, options.precision);
  plan_memory(module);
  for (ModuleFunction& f : module.functions) {
    if (f.code.empty())
      f.code = module.targets[static_cast<std::size_t>(f.target)]->code(module, f);
  }
  return module;
}

}  // namespace xrt::lite
