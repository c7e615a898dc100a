// SPDX-License-Identifier: Apache-2.0
// A complete small engine on reference kernels: Add, MatMul and Relu of float32. Copy this folder
// to begin one of your own; docs/custom-engine.md says what to change.
#include "xrt/engine.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/template/executable.h"
#include "engines/template/lowering.h"

namespace xrt::template_engine {
namespace {

class TemplateEngine final : public Engine {
 public:
  std::string name() const override { return "template"; }
  std::string version() const override { return "1"; }

  Support supports(const SupportQuery& query) const override {
    const Node& node = query.graph.node(query.node);
    const auto found = lowerings().find(node.qualified_op());
    if (found == lowerings().end()) {
      return Support::no("there is no lowering of " + node.qualified_op());
    }
    const Lowering& lowering = found->second;
    if (std::find(lowering.devices.begin(), lowering.devices.end(), query.device) ==
        lowering.devices.end()) {
      return Support::no("it does not run on '" + query.device + "'");
    }
    if (query.phase == Phase::kTraining && !lowering.traits.training) {
      return Support::no("its lowering of " + node.qualified_op() + " is not for training");
    }
    for (const std::int32_t input : query.mutable_inputs) {
      const auto& writable = lowering.traits.mutable_inputs;
      if (std::find(writable.begin(), writable.end(), input) == writable.end()) {
        return Support::no("it cannot write over input " + std::to_string(input));
      }
    }
    if (node.inputs.size() != lowering.inputs) return Support::no("its number of inputs");
    for (const std::vector<ValueId>& values : {node.inputs, node.outputs}) {
      for (const ValueId value : values) {
        const Type& type = query.graph.type(value);
        if (!type.is_tensor() || type.dtype != DType::kFloat32 || !type.is_static()) {
          return Support::no("it computes in float32 of static shape, '" +
                             query.graph.value(value).name + "' is " + to_string(type));
        }
      }
    }
    return lowering.supports ? lowering.supports(query.graph, node) : Support::yes();
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

  std::vector<std::string> ops() const override {
    std::vector<std::string> names;
    for (const auto& [name, lowering] : lowerings()) names.push_back(name);
    return names;
  }
  OpTraits traits(const std::string& op) const override {
    const auto found = lowerings().find(op);
    return found == lowerings().end() ? OpTraits{} : found->second.traits;
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
