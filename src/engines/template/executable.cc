// SPDX-License-Identifier: Apache-2.0
#include "executable.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace xrt::template_engine {

// Temporary buffers: one tensor per inner value, and a workspace that all steps share.
class TemplateExecutable::Context final : public RunContext {
 public:
  explicit Context(const TemplateExecutable& executable)
      : values(executable.slots_.size()),
        workspace(
            Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(executable.workspace_)})) {
    for (const std::size_t slot : executable.temporaries_) {
      values[slot] = Tensor::allocate(executable.slots_[slot].dtype, executable.slots_[slot].dims);
    }
    for (const auto& [slot, tensor] : executable.constants_) values[slot] = tensor;
  }
  std::vector<Tensor> values;  // by slot
  Tensor workspace;
};

TemplateExecutable::TemplateExecutable(const Function& function) {
  const Graph& graph = function.graph;
  std::map<ValueId, std::size_t> slot_of_value;
  const auto slot_of = [&](ValueId value) {
    const auto [entry, is_new] = slot_of_value.try_emplace(value, slots_.size());
    const Type& type = graph.type(value);
    if (is_new) slots_.push_back({type.dtype, *type.static_dims()});
    return entry->second;
  };
  for (const ValueId input : graph.inputs()) inputs_.push_back(slot_of(input));
  for (const ValueId constant : graph.constants()) {
    constants_.emplace_back(slot_of(constant), *graph.constant(constant));
  }
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    const Lowering& lowering = *LoweringRegistry::get().find(node.qualified_op());
    Step step;
    step.kernel = lowering.create(graph, node);
    for (const ValueId input : node.inputs) step.from.push_back(slot_of(input));
    for (const ValueId output : node.outputs) {
      step.to.push_back(slot_of(output));
      if (!graph.is_output(output)) temporaries_.push_back(step.to.back());
    }
    if (lowering.workspace_bytes) {
      workspace_ = std::max(workspace_, lowering.workspace_bytes(graph, node));
    }
    steps_.push_back(std::move(step));
  }
  for (const ValueId output : graph.outputs()) outputs_.push_back(slot_of(output));
  aside_.resize(outputs_.size());
  for (const InputOutputAlias& alias : function.aliases) {
    const auto output = static_cast<std::size_t>(alias.output);
    aside_[output] = !can_write_over(graph, graph.inputs()[static_cast<std::size_t>(alias.input)],
                                     graph.outputs()[output]);
  }
}

// The node that computes the output must be the only one that reads the input, so that nobody else
// finds the new value where the old one is wanted, and its lowering must be able to do so.
bool TemplateExecutable::can_write_over(const Graph& graph, ValueId input, ValueId output) {
  const NodeId producer = graph.value(output).producer;
  const Node& node = graph.node(producer);
  const OpTraits& traits = LoweringRegistry::get().find(node.qualified_op())->traits;
  for (const Use& use : graph.uses(input)) {
    const auto& writable = traits.mutable_inputs;
    if (use.node != producer) return false;
    if (std::find(writable.begin(), writable.end(), use.index) == writable.end()) return false;
  }
  return true;
}

std::unique_ptr<RunContext> TemplateExecutable::create_context() const {
  return std::make_unique<Context>(*this);
}

std::size_t TemplateExecutable::workspace_bytes() const {
  std::size_t bytes = workspace_;
  for (const std::size_t slot : temporaries_) {
    bytes += byte_count(slots_[slot].dtype, slots_[slot].dims);
  }
  return bytes;
}

void TemplateExecutable::run(RunContext* context, std::span<const Data> inputs,
                             std::span<Data> outputs, const RunOptions& /*options*/) const {
  auto& own = static_cast<Context&>(*context);
  for (std::size_t i = 0; i < inputs.size(); ++i) own.values[inputs_[i]] = inputs[i].tensor();
  // Results are written where the runtime wants them.
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Slot& slot = slots_[outputs_[i]];
    if (outputs[i].is_none()) outputs[i] = Tensor::allocate(slot.dtype, slot.dims);
    own.values[outputs_[i]] =
        aside_[i] ? Tensor::allocate(slot.dtype, slot.dims) : outputs[i].tensor();
  }
  std::vector<Tensor> from;
  std::vector<Tensor> to;
  for (const Step& step : steps_) {
    from.clear();
    to.clear();
    for (const std::size_t slot : step.from) from.push_back(own.values[slot]);
    for (const std::size_t slot : step.to) to.push_back(own.values[slot]);
    step.kernel(from, to, own.workspace.data<std::byte>());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& result = own.values[outputs_[i]];
    if (aside_[i] && result.bytes() > 0) {
      std::memcpy(outputs[i].tensor().raw(), result.raw(), result.bytes());
    }
  }
  // The caller's memory must not outlive the run.
  for (const std::size_t slot : inputs_) own.values[slot] = Tensor();
  for (const std::size_t slot : outputs_) own.values[slot] = Tensor();
}

}  // namespace xrt::template_engine
