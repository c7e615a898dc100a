// SPDX-License-Identifier: Apache-2.0
// A complete small engine on reference kernels: Add, MatMul and Relu, and Momentum as an op that
// updates variables. Copy this folder to begin one of your own; docs/guides/engine.md walks through
// it. It needs xrt/engine.h alone, so that the same files build in the tree and outside of it.
#include "xrt/engine.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "executable.h"
#include "lowering.h"

namespace xrt::template_engine {
namespace {

class TemplateEngine final : public Engine {
 public:
  const EngineInfo& info() const override { return info_; }
  std::vector<std::string> ops() const override { return LoweringRegistry::get().ops(); }

  Support supports(const SupportQuery& query) const override {
    const NodeView node = query.graph.node(query.node);
    const std::string op = node.qualified_op();
    const Lowering* lowering = LoweringRegistry::get().find(op);
    if (lowering == nullptr) return Support::no("there is no lowering of " + op);
    if (query.device != "cpu") return Support::no("it does not run on '" + query.device + "'");
    if (query.phase == Phase::kTraining && !lowering->training) {
      return Support::no("its lowering of " + op + " is not for training");
    }
    for (const ValueId id : values_of(node)) {
      if (!id.valid()) return Support::no("an input or output is left out");
      if (query.graph.type(id).is_static()) continue;
      return Support::no("it needs tensors of static shape, '" +
                         std::string(query.graph.value_name(id)) + "' is " +
                         to_string(query.graph.type(id)));
    }
    return lowering->supports(query.graph, node);
  }

  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& /*options*/) const override {
    return std::make_shared<TemplateExecutable>(function);
  }

  std::shared_ptr<const Executable> load(const TensorView& blob, const Function& function,
                                         const CompileOptions& options) const override {
    const std::string_view bytes(blob.data<const char>(), blob.bytes());
    if (bytes != TemplateExecutable::kMark) {
      throw Error(ErrorCode::kInvalidModel, "these bytes are none of the template engine's");
    }
    return compile(function, options);
  }

 private:
  EngineInfo info_ = {.name = "template", .version = "1", .in_place = true};
};

}  // namespace
}  // namespace xrt::template_engine

XRT_ENGINE(xrt::template_engine::TemplateEngine)
