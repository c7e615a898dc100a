// SPDX-License-Identifier: Apache-2.0
#include "exec/native_evaluator.h"

#include <memory>

#include "base/log.h"
#include "base/work_scope.h"
#include "engine/host.h"
#include "registry/engine_names.h"
#include "xrt/engine.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

std::vector<Data> evaluate(const Engine& engine, const Graph& graph, std::size_t most) {
  for (const NodeId id : graph.nodes()) {
    if (const Support answer = engine.supports({view_of(graph), id}); !answer) {
      throw Error(ErrorCode::kUnsupported, answer.reason());
    }
  }
  const WorkScope scope(std::make_shared<MemoryAccount>(), most);
  // One thread: these graphs are tiny.
  const auto executable = engine.compile(function_of("constants", graph), CompileOptions{});
  const auto context = executable->create_context();
  std::vector<Data> outputs(graph.outputs().size());
  RunData data{{}, outputs};
  executable->run(run_args(data, context.get()));
  return outputs;
}

}  // namespace

Evaluator native_evaluator(std::size_t max_memory_bytes) {
  std::shared_ptr<const Engine> engine;
  try {
    engine = get_engine(kFallbackEngine);
  } catch (const Error& error) {
    log_info(std::string("constants are not folded: ") + error.what());
    return {};
  }
  const std::size_t most = max_memory_bytes > 0 ? max_memory_bytes : kMostBytes;
  return [engine, most](const Graph& graph) { return evaluate(*engine, graph, most); };
}

}  // namespace xrt
