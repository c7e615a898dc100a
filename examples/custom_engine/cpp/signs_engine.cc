// SPDX-License-Identifier: Apache-2.0
// A complete small engine: Abs, Neg and Relu of float32, one at a time or in any graph of them.
//
// compile() lists the function's nodes in topological order and gives each value a slot; run()
// walks the list. It shows what every engine needs: an honest supports(), outputs written in place
// where memory is given, no state in the executable, errors as xrt::Error.
#include <xrt/engine.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using xrt::Data;
using xrt::DType;
using xrt::Tensor;

enum class Op { kAbs, kNeg, kRelu };

const std::map<std::string, Op>& op_table() {
  static const std::map<std::string, Op> table = {
      {"Abs", Op::kAbs}, {"Neg", Op::kNeg}, {"Relu", Op::kRelu}};
  return table;
}

float apply(Op op, float x) {
  switch (op) {
    case Op::kAbs:
      return std::abs(x);
    case Op::kNeg:
      return -x;
    case Op::kRelu:
      return x > 0 ? x : 0;
  }
  return x;
}

struct Step {
  Op op;
  std::size_t from, to;  // slots
};

class SignsExecutable final : public xrt::Executable {
 public:
  explicit SignsExecutable(const xrt::Graph& graph) {
    std::map<xrt::ValueId, std::size_t> slots;
    const auto slot_of = [&](xrt::ValueId value) {
      return slots.try_emplace(value, slots.size()).first->second;
    };
    for (const xrt::ValueId input : graph.inputs()) inputs_.push_back(slot_of(input));
    for (const xrt::ValueId constant : graph.constants()) {
      constants_.emplace_back(slot_of(constant), *graph.constant(constant));
    }
    for (const xrt::NodeId id : graph.topological_order()) {
      const xrt::Node& node = graph.node(id);
      steps_.push_back({op_table().at(node.op), slot_of(node.inputs[0]), slot_of(node.outputs[0])});
    }
    for (const xrt::ValueId output : graph.outputs()) outputs_.push_back(slot_of(output));
    slot_count_ = slots.size();
  }

  void run(xrt::RunContext* /*context*/, std::span<const Data> inputs, std::span<Data> outputs,
           const xrt::RunOptions& /*options*/) const override {
    std::vector<Tensor> values(slot_count_);
    for (std::size_t i = 0; i < inputs_.size(); ++i) values[inputs_[i]] = inputs[i].tensor();
    for (const auto& [slot, tensor] : constants_) values[slot] = tensor;
    for (const Step& step : steps_) {
      const Tensor& from = values[step.from];
      Tensor to = Tensor::allocate(DType::kFloat32, from.dims());
      std::transform(from.data<float>(), from.data<float>() + from.count(), to.data<float>(),
                     [&](float x) { return apply(step.op, x); });
      values[step.to] = std::move(to);
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Tensor& result = values[outputs_[i]];
      if (outputs[i].is_none()) {
        // What is handed through must not be memory that somebody else owns.
        outputs[i] = result.clone();
      } else {
        std::copy_n(result.data<float>(), result.count(), outputs[i].tensor().data<float>());
      }
    }
  }

 private:
  std::vector<std::size_t> inputs_, outputs_;
  std::vector<std::pair<std::size_t, Tensor>> constants_;
  std::vector<Step> steps_;
  std::size_t slot_count_ = 0;
};

class SignsEngine final : public xrt::Engine {
 public:
  std::string name() const override { return "signs"; }
  std::string version() const override { return "1.0"; }
  bool dynamic_shapes() const override { return true; }

  xrt::Support supports(const xrt::SupportQuery& query) const override {
    const xrt::Node& node = query.graph.node(query.node);
    if (!op_table().contains(node.qualified_op())) {
      return xrt::Support::no("it knows Abs, Neg and Relu only");
    }
    const xrt::Type& type = query.graph.type(node.inputs[0]);
    if (!type.is_tensor() || type.dtype != DType::kFloat32) {
      return xrt::Support::no("it computes in float32, the input is " + to_string(type));
    }
    if (query.phase != xrt::Phase::kInference) return xrt::Support::no("it has no gradients");
    return xrt::Support::yes();
  }

  std::shared_ptr<const xrt::Executable> compile(
      const xrt::Function& function, const xrt::CompileOptions& /*options*/) const override {
    return std::make_shared<SignsExecutable>(function.graph);
  }

  std::vector<std::string> ops() const override {
    std::vector<std::string> names;
    for (const auto& [name, op] : op_table()) names.push_back(name);
    return names;
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void xrt_register_engine(
    xrt::EngineRegistry* registry) {
  registry->add(std::make_shared<SignsEngine>());
}
