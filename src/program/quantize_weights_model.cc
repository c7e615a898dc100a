// SPDX-License-Identifier: Apache-2.0
#include "program/quantize_weights_model.h"

#include <set>
#include <string>

#include "base/file.h"
#include "exec/native_evaluator.h"
#include "passes/pass_manager.h"
#include "program/option_checks.h"
#include "xrt/model.h"
#include "xrt/onnx.h"
#include "xrt/quantize_training.h"

namespace xrt {
namespace {

Graph prepared(const std::filesystem::path& model, const std::set<std::string>& skip) {
  Graph graph = import_model(model);
  check_node_names(graph, "keep_float", {skip.begin(), skip.end()});
  run_passes(graph, {.evaluate = native_evaluator(), .dump_dir = {}});
  return graph;
}

}  // namespace

WeightSummary quantize_model_weights(const std::filesystem::path& model,
                                     const std::filesystem::path& output,
                                     const WeightOptions& options) {
  check_output_file(output, model);
  Graph graph = prepared(model, options.skip);
  const WeightSummary done = quantize_weights(graph, options);
  export_onnx_file(graph, output);
  return done;
}

DynamicSummary quantize_model_dynamic(const std::filesystem::path& model,
                                      const std::filesystem::path& output,
                                      const DynamicOptions& options) {
  check_output_file(output, model);
  Graph graph = prepared(model, options.skip);
  const DynamicSummary done = quantize_dynamic(graph, options);
  export_onnx_file(graph, output);
  return done;
}

Graph trainable_quantised_model(const std::filesystem::path& model) {
  Graph graph = prepared(model, {});
  open_quantised_weights(graph);
  return graph;
}

void export_trained_model(Graph graph, const std::filesystem::path& output) {
  run_passes(graph, {.evaluate = native_evaluator(), .dump_dir = {}});
  close_quantised_weights(graph);
  export_onnx_file(graph, output);
}

}  // namespace xrt
