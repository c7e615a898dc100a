// SPDX-License-Identifier: Apache-2.0
#include "engines/native/engine.h"

#include <oneapi/dnnl/dnnl.h>

#include "engines/native/dnn/register.h"
#include "engines/native/executable.h"
#include "engines/native/kernels/register.h"
#include "engines/native/prepare.h"
#include "xrt/version.h"

namespace xrt::native {

NativeEngine::NativeEngine() {
  dnn::register_kernels(registry_);
  register_kernels(registry_);
}

std::string NativeEngine::version() const {
  const dnnl_version_t* dnn = dnnl_version();
  return std::string(xrt::version()) + "+onednn." + std::to_string(dnn->major) + "." +
         std::to_string(dnn->minor) + "." + std::to_string(dnn->patch);
}

Support NativeEngine::supports(const SupportQuery& query) const {
  if (query.device != "cpu") return Support::no("device '" + query.device + "' is not the CPU");
  return supports_node(query.graph, query.node, registry_);
}

std::shared_ptr<const Executable> NativeEngine::compile(const Function& function,
                                                        const CompileOptions& options) const {
  if (options.device != "cpu") {
    throw Error(ErrorCode::kInvalidArgument,
                "the native engine runs on the device 'cpu', not '" + options.device + "'");
  }
  return std::make_shared<NativeExecutable>(function.graph, registry_, options,
                                            Threads::get(options.num_threads), function.aliases);
}

std::shared_ptr<const Executable> NativeEngine::load(const Tensor& blob, const Function& function,
                                                     const CompileOptions& options) const {
  try {
    return std::make_shared<NativeExecutable>(blob, registry_, options,
                                              Threads::get(options.num_threads), function.aliases);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // nodes that no compilation would have made
    throw Error(ErrorCode::kEngine, std::string("the blob is damaged: ") + error.what());
  }
}

}  // namespace xrt::native

extern "C" XRT_API void xrt_register_engine(xrt::EngineRegistry* registry) {
  registry->add(std::make_shared<xrt::native::NativeEngine>());
}
