// SPDX-License-Identifier: Apache-2.0
#include "exec/native_evaluator.h"

#include <memory>

#include "base/log.h"
#include "onnx/exporter.h"
#include "xrt/engine.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

std::vector<Data> evaluate(const Engine& engine, const Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    if (const Support answer = engine.supports({graph, id}); !answer) {
      throw Error(ErrorCode::kUnsupported, answer.reason());
    }
  }
  const Function function{"constants", graph, {}, [&](std::size_t inline_limit) {
                            ExportOptions options;
                            options.inline_limit = inline_limit;
                            return export_onnx(graph, options);
                          }};
  // One thread: these graphs are tiny.
  const auto executable = engine.compile(function, CompileOptions{});
  const auto context = executable->create_context();
  std::vector<Data> outputs(graph.outputs().size());
  executable->run(context.get(), {}, outputs, {});
  return outputs;
}

}  // namespace

Evaluator native_evaluator() {
  std::shared_ptr<const Engine> engine;
  try {
    engine = get_engine("native");
  } catch (const Error& error) {
    log_info(std::string("constants are not folded: ") + error.what());
    return {};
  }
  return [engine](const Graph& graph) { return evaluate(*engine, graph); };
}

}  // namespace xrt
