// SPDX-License-Identifier: Apache-2.0
// A complete small engine on reference kernels: Add, MatMul and Relu, and Momentum as an op that
// updates variables. Copy this folder to begin one of your own; docs/guides/engine.md walks through
// it. It uses public headers alone, so that the same files build in the tree and outside of it.
#include "xrt/engine.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executable.h"
#include "lowering.h"

namespace xrt::template_engine {
namespace {

bool contains(const auto& list, const auto& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

class TemplateEngine final : public Engine {
 public:
  std::string name() const override { return "template"; }
  std::string version() const override { return "1"; }

  Support supports(const SupportQuery& query) const override {
    const Node& node = query.graph.node(query.node);
    const std::string op = node.qualified_op();
    const Lowering* lowering = LoweringRegistry::get().find(op);
    if (lowering == nullptr) return Support::no("there is no lowering of " + op);
    if (!contains(lowering->devices, query.device)) {
      return Support::no("it does not run on '" + query.device + "'");
    }
    if (query.phase == Phase::kTraining && !lowering->traits.training) {
      return Support::no("its lowering of " + op + " is not for training");
    }
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *values) {
        if (!id.valid()) return Support::no("an input or output is left out");
        if (query.graph.type(id).is_tensor() && query.graph.type(id).is_static()) continue;
        return Support::no("it needs tensors of static shape, '" + query.graph.value(id).name +
                           "' is " + to_string(query.graph.type(id)));
      }
    }
    return lowering->supports(query.graph, node);
  }

  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& /*options*/) const override {
    return std::make_shared<TemplateExecutable>(function);
  }

  std::shared_ptr<const Executable> load(const Tensor& blob, const Function& function,
                                         const CompileOptions& options) const override {
    const std::string_view bytes(static_cast<const char*>(blob.raw()), blob.bytes());
    if (bytes != TemplateExecutable::kMark) {
      throw Error(ErrorCode::kInvalidModel, "these bytes are none of the template engine's");
    }
    return compile(function, options);
  }

  std::vector<std::string> ops() const override { return LoweringRegistry::get().ops(); }
  OpTraits traits(const std::string& op) const override {
    const Lowering* lowering = LoweringRegistry::get().find(op);
    return lowering == nullptr ? OpTraits{} : lowering->traits;
  }
  // It has no options: every key is an error.
  std::optional<std::vector<std::string>> option_names() const override {
    return std::vector<std::string>{};
  }
  bool in_place() const override { return true; }
};

}  // namespace
}  // namespace xrt::template_engine

extern "C" XRT_API void xrt_register_engine(xrt::EngineRegistry* registry) {
  registry->add(std::make_shared<xrt::template_engine::TemplateEngine>());
}
