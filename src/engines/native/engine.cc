// SPDX-License-Identifier: Apache-2.0
#include "engines/native/engine.h"

#include <oneapi/dnnl/dnnl.h>

#include "device/processor.h"
#include "engine/handles.h"
#include "engines/native/compressed/kernels.h"
#include "engines/native/dnn/register.h"
#include "engines/native/executable.h"
#include "engines/native/kernels/register.h"
#include "engines/native/prepare.h"
#include "xrt/version.h"

namespace xrt::native {

namespace {

std::string library_version() {
  const dnnl_version_t* dnn = dnnl_version();
  return std::string(xrt::version()) + "+onednn." + std::to_string(dnn->major) + "." +
         std::to_string(dnn->minor) + "." + std::to_string(dnn->patch);
}

EngineInfo make_info() {
  EngineInfo info;
  info.name = "native";
  info.version = library_version();
  info.devices = {{"cpu", {Precision::kF32}}};
  // oneDNN rounds the factors of float32 products where the processor has AMX alone; elsewhere it
  // ignores the wish, and bfloat16 is what the graph's types say.
  if (processor().has("amx_bf16")) info.devices[0].precisions.push_back(Precision::kBF16);
  info.options = {{"activations", EngineOption::Kind::kText, "float",
                   "float or int8: products with constant weights of 4 and 8 bits round the other "
                   "factor to int8, each block by its own range"}};
  info.shapes = Shapes::kAny;
  // An aliased output is written over its input by the step that makes it, where no later one reads
  // the input; else it is computed aside and copied when all nodes have run.
  info.in_place = true;
  info.self_contained = true;
  info.checks_indices = true;
  info.core_version = core_version();
  return info;
}

}  // namespace

NativeEngine::NativeEngine() : info_(make_info()) {
  dnn::register_kernels(registry_);
  register_kernels(registry_);
  register_compressed_kernels(registry_);
}

Support NativeEngine::supports(const SupportQuery& query) const {
  if (query.device != "cpu") return Support::no("device '" + query.device + "' is not the CPU");
  const Graph& graph = graph_of(query.graph);
  try {
    return supports_node(graph, query.node, registry_);
  } catch (const Error& error) {
    // The fallback is asked about every node: what it cannot read is wrong with the model.
    if (error.code() != ErrorCode::kInvalidModel && error.code() != ErrorCode::kInvalidArgument) {
      throw;
    }
    const Node& node = graph.node(query.node);
    const std::string place = "node '" + node.name + "' (" + node.qualified_op() + "): ";
    const std::string what = error.what();
    throw Error(ErrorCode::kInvalidModel, what.starts_with("node '") ? what : place + what);
  }
}

std::shared_ptr<const Executable> NativeEngine::compile(const Function& function,
                                                        const CompileOptions& options) const {
  if (options.device != "cpu") {
    throw Error(ErrorCode::kInvalidArgument,
                "the native engine runs on the device 'cpu', not '" + options.device + "'");
  }
  return std::make_shared<NativeExecutable>(graph_of(function.graph), registry_, options,
                                            Threads::get(options.num_threads), function.aliases);
}

std::shared_ptr<const Executable> NativeEngine::load(const TensorView& blob,
                                                     const Function& function,
                                                     const CompileOptions& options) const {
  try {
    return std::make_shared<NativeExecutable>(tensor_of(blob), registry_, options,
                                              Threads::get(options.num_threads), function.aliases);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // nodes that no compilation would have made
    throw Error(ErrorCode::kEngine, std::string("the blob is damaged: ") + error.what());
  }
}

}  // namespace xrt::native

XRT_ENGINE(xrt::native::NativeEngine)
