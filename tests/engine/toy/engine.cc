// SPDX-License-Identifier: Apache-2.0
// An engine of three ops outside the tree: this file and a CMakeLists.txt are all of it.
#include "xrt/engine.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

// The ops and their kernels: results of `count` elements; `b` is null where the op has one operand.
using Kernel = void (*)(const float* a, const float* b, float* y, std::int64_t count);

const std::map<std::string, Kernel, std::less<>>& kernels() {
  static const std::map<std::string, Kernel, std::less<>> kTable = {
      {"Relu",
       [](const float* a, const float* /*b*/, float* y, std::int64_t count) {
         for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] < 0 ? 0.0F : a[i];
       }},
      {"Neg",
       [](const float* a, const float* /*b*/, float* y, std::int64_t count) {
         for (std::int64_t i = 0; i < count; ++i) y[i] = -a[i];
       }},
      {"Mul",
       [](const float* a, const float* b, float* y, std::int64_t count) {
         for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] * b[i];
       }},
  };
  return kTable;
}

class ToyExecutable final : public xrt::Executable {
 public:
  explicit ToyExecutable(const xrt::Function& function) {
    const xrt::GraphView& graph = function.graph;
    for (const xrt::ValueId id : graph.inputs()) inputs_.push_back(slot(graph, id));
    for (const xrt::ValueId id : graph.constants()) {
      constants_.emplace_back(slot(graph, id), graph.constant(id).share());
    }
    for (const xrt::NodeId id : graph.nodes()) {
      const xrt::NodeView node = graph.node(id);
      Step step = {.kernel = kernels().find(node.op())->second};
      for (const xrt::ValueId input : node.inputs()) step.from.push_back(slot(graph, input));
      step.to = slot(graph, node.output(0));
      steps_.push_back(step);
    }
    for (const xrt::ValueId id : graph.outputs()) outputs_.push_back(slot(graph, id));
  }

  xrt::ExecutableInfo info() const override { return {.threads = 1}; }

  void run(const xrt::RunArgs& args) const override {
    std::vector<std::vector<float>> own(shapes_.size());
    std::vector<float*> values(shapes_.size(), nullptr);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      values[inputs_[i]] = static_cast<float*>(args.input(i).raw());
    }
    for (const auto& [slot, tensor] : constants_) {
      values[slot] = static_cast<float*>(tensor->raw());
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const xrt::TensorView given = args.output(i);
      void* memory = given.defined()
                         ? given.raw()
                         : args.allocate_output(i, xrt::DType::kFloat32, shapes_[outputs_[i]]);
      values[outputs_[i]] = static_cast<float*>(memory);
    }
    for (const Step& step : steps_) {
      const std::int64_t count = elements(step.to);
      if (values[step.to] == nullptr) {
        own[step.to].resize(static_cast<std::size_t>(count));
        values[step.to] = own[step.to].data();
      }
      step.kernel(values[step.from[0]], step.from.size() > 1 ? values[step.from[1]] : nullptr,
                  values[step.to], count);
    }
  }

  // What has to be kept is in the function, which load() gets too.
  std::optional<std::string> serialize() const override { return "toy"; }

 private:
  struct Step {
    Kernel kernel = nullptr;
    std::vector<std::size_t> from = {};
    std::size_t to = 0;
  };

  std::size_t slot(const xrt::GraphView& graph, xrt::ValueId value) {
    const auto [entry, is_new] = slot_of_value_.try_emplace(value.index, shapes_.size());
    if (is_new) shapes_.push_back(graph.type(value).dims());
    return entry->second;
  }
  std::int64_t elements(std::size_t slot) const {
    std::int64_t count = 1;
    for (const std::int64_t dim : shapes_[slot]) count *= dim;
    return count;
  }

  std::map<std::int32_t, std::size_t> slot_of_value_;
  std::vector<std::vector<std::int64_t>> shapes_;  // by slot
  std::vector<std::size_t> inputs_, outputs_;
  std::vector<std::pair<std::size_t, std::shared_ptr<const xrt::TensorView>>> constants_;
  std::vector<Step> steps_;
};

class ToyEngine final : public xrt::Engine {
 public:
  const xrt::EngineInfo& info() const override { return info_; }

  std::vector<std::string> ops() const override {
    std::vector<std::string> names;
    for (const auto& [name, kernel] : kernels()) names.push_back(name);
    return names;
  }

  xrt::Support supports(const xrt::SupportQuery& query) const override {
    const xrt::NodeView node = query.graph.node(query.node);
    if (!node.domain().empty() || kernels().count(node.op()) == 0) {
      return xrt::Support::no("there is no kernel of " + node.qualified_op());
    }
    if (query.device != "cpu") return xrt::Support::no("it runs on the CPU");
    const xrt::TypeView result = query.graph.type(node.output(0));
    for (const xrt::ValueId input : node.inputs()) {
      const xrt::TypeView type = query.graph.type(input);
      if (!type.is_static() || type.dtype() != xrt::DType::kFloat32) {
        return xrt::Support::no("not for " + xrt::to_string(type));
      }
      if (type.dims() != result.dims()) return xrt::Support::no("it does not broadcast");
    }
    return xrt::Support::yes();
  }

  std::shared_ptr<const xrt::Executable> compile(
      const xrt::Function& function, const xrt::CompileOptions& /*options*/) const override {
    return std::make_shared<ToyExecutable>(function);
  }

  std::shared_ptr<const xrt::Executable> load(const xrt::TensorView& /*blob*/,
                                              const xrt::Function& function,
                                              const xrt::CompileOptions& options) const override {
    return compile(function, options);
  }

 private:
  xrt::EngineInfo info_ = {.name = "toy", .version = "1"};
};

}  // namespace

XRT_ENGINE(ToyEngine)
