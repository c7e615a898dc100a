// SPDX-License-Identifier: Apache-2.0
#include "executable.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

namespace xrt::template_engine {
namespace {

// Memory of its own, aligned to 64 bytes.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : memory_(::operator new(std::max<std::size_t>(bytes, 1), kAlignment)) {}
  void* get() const { return memory_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(void* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<void, Free> memory_;
};

}  // namespace

std::size_t TemplateExecutable::Slot::bytes() const {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return static_cast<std::size_t>(count * bit_width(dtype) / 8);
}

// Temporary buffers: one per inner value, and a workspace that all steps share.
class TemplateExecutable::Context final : public RunContext {
 public:
  explicit Context(const TemplateExecutable& executable) : workspace(executable.workspace_) {
    for (const Slot& slot : executable.slots_) values.push_back({nullptr, slot.dims});
    for (const std::size_t slot : executable.temporaries_) {
      values[slot].memory = own(executable.slots_[slot].bytes());
    }
    for (std::size_t i = 0; i < executable.outputs_.size(); ++i) {
      const Slot& slot = executable.slots_[executable.outputs_[i]];
      aside.push_back(executable.aside_[i] ? own(slot.bytes()) : nullptr);
    }
    for (const auto& [slot, tensor] : executable.constants_) values[slot].memory = tensor->raw();
  }
  std::vector<Operand> values;  // by slot
  std::vector<void*> aside;     // by output: where it is computed, null where it is returned
  Buffer workspace;

 private:
  void* own(std::size_t bytes) { return buffers_.emplace_back(bytes).get(); }
  std::vector<Buffer> buffers_;
};

TemplateExecutable::TemplateExecutable(const Function& function) {
  const GraphView& graph = function.graph;
  std::map<ValueId, std::size_t> slot_of_value;
  const auto slot_of = [&](ValueId value) {
    const auto [entry, is_new] = slot_of_value.try_emplace(value, slots_.size());
    const TypeView type = graph.type(value);
    if (is_new) slots_.push_back({type.dtype(), type.dims()});
    return entry->second;
  };
  for (const ValueId input : graph.inputs()) inputs_.push_back(slot_of(input));
  for (const ValueId constant : graph.constants()) {
    constants_.emplace_back(slot_of(constant), graph.constant(constant).share());
  }
  for (const NodeId id : graph.nodes()) {
    const NodeView node = graph.node(id);
    const Lowering& lowering = *LoweringRegistry::get().find(node.qualified_op());
    Step step;
    step.kernel = lowering.create(graph, node);
    for (const ValueId input : node.inputs()) step.from.push_back(slot_of(input));
    for (const ValueId output : node.outputs()) {
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
// finds the new value where the old one is wanted, and its kernel must be able to do so.
bool TemplateExecutable::can_write_over(const GraphView& graph, ValueId input, ValueId output) {
  const NodeId producer = graph.producer(output);
  const std::string op = graph.node(producer).qualified_op();
  const std::vector<std::int32_t>& writable = LoweringRegistry::get().find(op)->mutable_inputs;
  for (const Use& use : graph.uses(input)) {
    if (use.node != producer) return false;
    if (std::find(writable.begin(), writable.end(), use.index) == writable.end()) return false;
  }
  return true;
}

std::unique_ptr<RunContext> TemplateExecutable::create_context() const {
  return std::make_unique<Context>(*this);
}

std::size_t TemplateExecutable::scratch_bytes() const {
  std::size_t bytes = workspace_;
  for (const std::size_t slot : temporaries_) bytes += slots_[slot].bytes();
  return bytes;
}

void TemplateExecutable::run(const RunArgs& args) const {
  auto& own = static_cast<Context&>(*args.context());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    own.values[inputs_[i]].memory = args.input(i).raw();
  }
  // Results are written where the runtime wants them.
  std::vector<void*> targets;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Slot& slot = slots_[outputs_[i]];
    const TensorView given = args.output(i);
    targets.push_back(given.defined() ? given.raw()
                                      : args.allocate_output(i, slot.dtype, slot.dims));
    own.values[outputs_[i]].memory = aside_[i] ? own.aside[i] : targets[i];
  }
  std::vector<Operand> from;
  std::vector<Operand> to;
  for (const Step& step : steps_) {
    from.clear();
    to.clear();
    for (const std::size_t slot : step.from) from.push_back(own.values[slot]);
    for (const std::size_t slot : step.to) to.push_back(own.values[slot]);
    step.kernel(from, to, static_cast<std::byte*>(own.workspace.get()));
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const std::size_t bytes = slots_[outputs_[i]].bytes();
    if (aside_[i] && bytes > 0) std::memcpy(targets[i], own.aside[i], bytes);
  }
}

}  // namespace xrt::template_engine
