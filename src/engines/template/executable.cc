// SPDX-License-Identifier: Apache-2.0
#include "engines/template/executable.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace xrt::template_engine {

// Temporary buffers: one tensor per inner value, and scratch memory that all steps share.
class TemplateExecutable::Context final : public RunContext {
 public:
  explicit Context(const TemplateExecutable& executable)
      : values(executable.slots_.size()),
        scratch(
            Tensor::allocate(DType::kFloat32, {static_cast<std::int64_t>(executable.scratch_)})) {
    for (const std::size_t slot : executable.temporaries_) {
      values[slot] = Tensor::allocate(DType::kFloat32, executable.slots_[slot]);
    }
    for (const auto& [slot, tensor] : executable.constants_) values[slot] = tensor;
  }
  std::vector<Tensor> values;
  Tensor scratch;
};

TemplateExecutable::TemplateExecutable(const Function& function) {
  const Graph& graph = function.graph;
  std::map<std::int32_t, std::size_t> slot_of_value;
  const auto slot_of = [&](ValueId value) {
    const auto [entry, is_new] = slot_of_value.try_emplace(value.index, slots_.size());
    if (is_new) slots_.push_back(*graph.type(value).static_dims());
    return entry->second;
  };
  for (const ValueId input : graph.inputs()) inputs_.push_back(slot_of(input));
  for (const ValueId constant : graph.constants()) {
    constants_.emplace_back(slot_of(constant), *graph.constant(constant));
  }
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    const Lowering& lowering = lowerings().at(node.qualified_op());
    Step step;
    step.kernel = lowering.create(graph, node);
    for (const ValueId input : node.inputs) step.from.push_back(slot_of(input));
    step.to = slot_of(node.outputs[0]);
    if (!graph.is_output(node.outputs[0])) temporaries_.push_back(step.to);
    if (lowering.scratch) scratch_ = std::max(scratch_, lowering.scratch(graph, node));
    steps_.push_back(std::move(step));
  }
  for (const ValueId output : graph.outputs()) outputs_.push_back(slot_of(output));
}

std::unique_ptr<RunContext> TemplateExecutable::create_context() const {
  return std::make_unique<Context>(*this);
}

std::size_t TemplateExecutable::workspace_bytes() const {
  std::size_t bytes = scratch_ * sizeof(float);
  for (const std::size_t slot : temporaries_) bytes += byte_count(DType::kFloat32, slots_[slot]);
  return bytes;
}

void TemplateExecutable::run(RunContext* context, std::span<const Data> inputs,
                             std::span<Data> outputs, const RunOptions& /*options*/) const {
  auto& own = static_cast<Context&>(*context);
  for (std::size_t i = 0; i < inputs.size(); ++i) own.values[inputs_[i]] = inputs[i].tensor();
  // Results are written where the runtime wants them. An output that is aliased to an input lies in
  // that input's memory: a step that reads the old value later must not find the new one, so the
  // new one is written aside and copied when all steps are done.
  std::vector<std::pair<Tensor, Tensor>> aside;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_none()) {
      outputs[i] = Tensor::allocate(DType::kFloat32, slots_[outputs_[i]]);
    }
    Tensor& target = outputs[i].tensor();
    const bool is_input = std::any_of(inputs.begin(), inputs.end(), [&](const Data& input) {
      return input.tensor().raw() == target.raw();
    });
    own.values[outputs_[i]] =
        is_input ? Tensor::allocate(DType::kFloat32, slots_[outputs_[i]]) : target;
    if (is_input) aside.emplace_back(own.values[outputs_[i]], target);
  }
  std::vector<Tensor> operands;
  for (const Step& step : steps_) {
    operands.clear();
    for (const std::size_t slot : step.from) operands.push_back(own.values[slot]);
    step.kernel(operands, own.values[step.to], own.scratch.data<float>());
  }
  for (auto& [from, to] : aside) {
    if (from.bytes() > 0) std::memcpy(to.raw(), from.raw(), from.bytes());
  }
  // The caller's memory must not outlive the run.
  for (const std::size_t slot : inputs_) own.values[slot] = Tensor();
  for (const std::size_t slot : outputs_) own.values[slot] = Tensor();
}

}  // namespace xrt::template_engine
