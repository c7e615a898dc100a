// SPDX-License-Identifier: Apache-2.0
#include "engines/native/executable.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <numeric>
#include <unordered_set>

#include "base/arena.h"
#include "base/interrupt.h"
#include "base/work_scope.h"
#include "engine/handles.h"
#include "engines/native/kernels/common/text.h"
#include "engines/native/prepare.h"
#include "engines/native/updates.h"

namespace xrt::native {

namespace {

void copy_values(const Tensor& source, Tensor& target) {
  if (source.dtype() != target.dtype() || source.dims() != target.dims()) {
    throw Error(ErrorCode::kInvalidArgument,
                "an output is " + std::string(to_string(source.dtype())) +
                    to_string(std::span<const std::int64_t>(source.dims())) +
                    ", but by the model, or the memory given for it, " +
                    std::string(to_string(target.dtype())) +
                    to_string(std::span<const std::int64_t>(target.dims())));
  }
  if (source.dtype() == DType::kString) {
    assign_elements<std::string>(source.strings(), source.count(), target.strings());
  } else if (source.bytes() > 0) {
    std::memmove(target.raw(), source.raw(), source.bytes());
  }
}

constexpr std::string_view kBlobFormat = "native 3";

bool holds_text(const Type& type) {
  return type.dtype == DType::kString || (type.element != nullptr && holds_text(*type.element));
}

std::string step_label(const Node& node) {
  return "node '" + node.name + "' (" + node.qualified_op() + ")";
}

}  // namespace

Data clone_data(const Data& data) {
  if (data.is_tensor()) {
    Data copy = data.tensor().clone();
    settle_characters(copy);
    return copy;
  }
  if (!data.is_sequence()) return {};
  std::vector<Data> items;
  for (const Data& item : data.items()) items.push_back(clone_data(item));
  return Data::sequence(data.sequence_dtype(), std::move(items));
}

NativeExecutable::NativeExecutable(const Graph& graph, const KernelRegistry& registry,
                                   const CompileOptions& options,
                                   std::shared_ptr<const Threads> threads,
                                   std::span<const InputOutputAlias> aliases)
    : threads_(std::move(threads)), side_by_side_(threads_->count() == 1 || options.streams > 1) {
  Graph own(graph);
  remarks_ = prepare_graph(own, registry, options, aliases);
  build(own, registry, options, aliases);
  describe_for_blob(own, aliases);
}

NativeExecutable::NativeExecutable(const Tensor& blob, const KernelRegistry& registry,
                                   const CompileOptions& options,
                                   std::shared_ptr<const Threads> threads,
                                   std::span<const InputOutputAlias> aliases)
    : threads_(std::move(threads)), side_by_side_(threads_->count() == 1 || options.streams > 1) {
  FlatReader reader(blob);
  if (reader.text() != kBlobFormat) {
    throw Error(ErrorCode::kEngine, "the blob is none of this engine's");
  }
  for (std::size_t n = reader.count(); n-- > 0;) remarks_.push_back(reader.text());
  const Graph graph = reader.graph();
  std::vector<StoredWeights> stored;
  for (std::size_t n = reader.count(); n-- > 0;) stored.emplace_back(reader);
  reader.end();
  if (stored.size() != graph.node_count()) {
    throw Error(ErrorCode::kEngine, "the blob has weights for another number of nodes");
  }
  build(graph, registry, options, aliases, std::move(stored));
}

void NativeExecutable::make_kernels(const Graph& graph, const KernelRegistry& registry,
                                    const CompileOptions& options,
                                    std::span<const InputOutputAlias> aliases,
                                    std::vector<StoredWeights>& stored) {
  const std::vector<NodeId> order = update_order(graph, updates_of(graph, aliases));
  steps_.resize(order.size());
  const auto make = [&](std::size_t s) {
    const KernelCreateContext create(graph, order[s], registry, options, threads_,
                                     stored.empty() ? nullptr : &stored[s]);
    std::string reason;
    const KernelDef* def = registry.find(create, &reason);
    if (def == nullptr) {
      throw Error(ErrorCode::kUnsupported, step_label(create.node()) + ": " + reason);
    }
    Step& step = steps_[s];
    step.label = step_label(create.node());
    try {
      step.kernel = def->create(create);
    } catch (const Error& error) {
      throw Error(error.code(), step.label + ": " + error.what());
    } catch (const std::out_of_range&) {
      throw Error(ErrorCode::kInvalidModel,
                  step.label + ": an attribute has fewer elements than the op reads");
    }
    const std::vector<ValueId>& inputs = create.node().inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      step.inputs.push_back(step.kernel->reads_input(i) ? inputs[i].index : -1);
    }
    step.own_inputs = inputs.size();
    // What the bodies read from this graph follows, body by body.
    for (const Graph* body : Graph::subgraphs(create.node())) {
      for (const Capture& capture : body->captures()) step.inputs.push_back(capture.outer.index);
    }
    for (const ValueId v : create.node().outputs) {
      step.outputs.push_back(v.index);
      step.writes_text = step.writes_text || (v.valid() && holds_text(graph.type(v)));
    }
  };
  // Libraries generate code for a kernel when it is made: that takes longer than all the rest. Each
  // thread takes the next kernel; of several errors the first in the order of steps is told.
  std::vector<std::exception_ptr> errors(order.size());
  std::atomic<std::size_t> next{0};
  threads_->parallel_for(
      std::min<std::int64_t>(threads_->count(), static_cast<std::int64_t>(order.size())), 1,
      [&](std::int64_t begin, std::int64_t end) {
        for (; begin < end; ++begin) {
          for (std::size_t s; (s = next.fetch_add(1)) < order.size();) {
            try {
              make(s);
            } catch (...) {  // rethrown below
              errors[s] = std::current_exception();
            }
          }
        }
      });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  for (const Step& step : steps_) uses_arena_ = uses_arena_ || step.kernel->traits().uses_arena;
}

// Constants of which kernels keep only what they packed are written as shapes: what was packed
// follows, in the order of steps.
void NativeExecutable::describe_for_blob(const Graph& graph,
                                         std::span<const InputOutputAlias> aliases) {
  std::vector<bool> is_hollow(graph.value_capacity());
  for (const ValueId v : graph.constants()) is_hollow[static_cast<std::size_t>(v.index)] = true;
  const auto keep = [&](std::int32_t slot) {
    if (slot >= 0) is_hollow[static_cast<std::size_t>(slot)] = false;
  };
  const std::vector<NodeId> order = update_order(graph, updates_of(graph, aliases));
  for (std::size_t s = 0; s < order.size(); ++s) {
    for (const std::int32_t slot : steps_[s].inputs) keep(slot);
    if (steps_[s].kernel->saves_weights()) continue;
    for (const ValueId v : graph.node(order[s]).inputs) keep(v.index);
  }
  for (const ValueId v : graph.outputs()) keep(v.index);
  blob_ = std::make_unique<FlatWriter>();
  blob_->text(kBlobFormat).number(static_cast<std::int64_t>(remarks_.size()));
  for (const std::string& remark : remarks_) blob_->text(remark);
  blob_->graph(graph, is_hollow);
  blob_->number(static_cast<std::int64_t>(steps_.size()));
  for (const Step& step : steps_) step.kernel->save(*blob_);
}

std::optional<std::string> NativeExecutable::serialize() const {
  if (blob_ == nullptr) return std::nullopt;
  const std::lock_guard lock(blob_mutex_);
  const FlatWriter::Pieces pieces = blob_->finish();
  std::string blob;
  std::size_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += piece.size();
  blob.reserve(bytes);
  for (const std::string_view piece : pieces) blob += piece;
  return blob;
}

void NativeExecutable::build(const Graph& graph, const KernelRegistry& registry,
                             const CompileOptions& options,
                             std::span<const InputOutputAlias> aliases,
                             std::vector<StoredWeights> stored) {
  // A value's slot is its id.
  slots_.resize(graph.value_capacity());
  for (const ValueId id : graph.inputs()) {
    slots_[id.index].kind = SlotKind::kInput;
    slots_[id.index].lender = id.index;
    input_slots_.push_back(id.index);
  }
  for (const Capture& capture : graph.captures()) {
    slots_[capture.inner.index].kind = SlotKind::kInput;
    slots_[capture.inner.index].lender = capture.inner.index;
    input_slots_.push_back(capture.inner.index);
  }
  make_kernels(graph, registry, options, aliases, stored);
  // Kernels hold what they need of their constants; a constant that no step reads is not kept.
  for (const Step& step : steps_) {
    for (const std::int32_t slot : step.inputs) keep_constant(graph, slot);
  }
  for (const ValueId id : graph.outputs()) keep_constant(graph, id.index);

  std::vector<bool> copied(graph.outputs().size());
  for (const InputOutputAlias& alias : aliases) {
    copied.at(alias.output) = !can_overwrite(graph, graph.inputs().at(alias.input).index,
                                             graph.outputs().at(alias.output).index);
  }
  std::vector<bool> retained(slots_.size());
  for (const Step& step : steps_) {
    if (!step.kernel->traits().retains_inputs) continue;
    for (const std::int32_t slot : step.inputs) {
      if (slot >= 0) retained[slot] = true;
    }
  }
  output_slots_.assign(graph.outputs().size(), -1);
  std::vector<bool> taken(slots_.size());
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId id = graph.outputs()[i];
    if (graph.value(id).origin != Origin::kNode || taken[id.index] || copied[i] ||
        retained[id.index]) {
      copies_.push_back({id.index, static_cast<std::int32_t>(i)});
      continue;
    }
    taken[id.index] = true;
    output_slots_[i] = id.index;
    slots_[id.index].kind = SlotKind::kOutput;
  }
  plan_memory(graph, retained);
  if (StepProfile::wanted()) {
    profile_ = std::make_unique<StepProfile>();
    for (const Step& step : steps_) profile_->name_step(step.label, step.kernel->describe());
  }
}

bool NativeExecutable::can_overwrite(const Graph& graph, std::int32_t input,
                                     std::int32_t output) const {
  std::vector<bool> shares(slots_.size());  // the input's memory
  shares[input] = true;
  bool written = false;
  for (const Step& step : steps_) {
    const KernelTraits& traits = step.kernel->traits();
    const bool writes =
        std::find(step.outputs.begin(), step.outputs.end(), output) != step.outputs.end();
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const std::int32_t slot = step.inputs[i];
      if (slot < 0 || !shares[slot]) continue;
      if (written || traits.retains_inputs) return false;
      const bool safe =
          traits.overwrites ||
          (step.outputs[0] == output && std::find(traits.in_place.begin(), traits.in_place.end(),
                                                  static_cast<int>(i)) != traits.in_place.end());
      if (writes && !safe) return false;
    }
    if (traits.view_of >= 0 && step.outputs[0] >= 0 && shares[step.inputs.at(traits.view_of)]) {
      shares[step.outputs[0]] = true;
    }
    written = written || writes;
  }
  return written && std::none_of(graph.outputs().begin(), graph.outputs().end(),
                                 [&](ValueId v) { return shares[v.index]; });
}

void NativeExecutable::keep_constant(const Graph& graph, std::int32_t slot) {
  if (slot < 0 || slots_[slot].constant.defined()) return;
  if (const Tensor* constant = graph.constant(ValueId{slot})) {
    slots_[slot].kind = SlotKind::kConstant;
    slots_[slot].constant = *constant;
  }
}

void NativeExecutable::plan_memory(const Graph& graph, std::vector<bool> retained) {
  // Views share their root's memory and lifetime; so does an output that overwrites an input.
  std::vector<std::int32_t> parent(slots_.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](std::int32_t slot) {
    while (parent[slot] != slot) slot = parent[slot] = parent[parent[slot]];
    return slot;
  };
  std::vector<std::int32_t> first(slots_.size(), -1);
  std::vector<std::int32_t> last(slots_.size(), -1);
  const auto end = static_cast<std::int32_t>(steps_.size());

  for (std::int32_t s = 0; s < end; ++s) {
    const Step& step = steps_[s];
    const KernelTraits& traits = step.kernel->traits();
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      const std::int32_t slot = step.outputs[i];
      if (slot < 0) continue;
      SlotPlan& plan = slots_[slot];
      first[slot] = last[slot] = s;
      if (plan.kind == SlotKind::kOutput) continue;
      if (i == 0 && traits.view_of >= 0) {
        const std::int32_t source = step.inputs.at(traits.view_of);
        plan.kind = SlotKind::kView;
        plan.lender = slots_[source].lender;
        parent[slot] = root(source);
        continue;
      }
      const Type& type = graph.type(ValueId{slot});
      if (!traits.allocates || !type.is_static() || type.dtype == DType::kString ||
          type.dtype == DType::kUndefined) {
        plan.kind = SlotKind::kDynamic;
        continue;
      }
      plan.kind = SlotKind::kArena;
      plan.dtype = type.dtype;
      plan.dims = *type.static_dims();
    }
  }
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    SlotPlan& owner = slots_[root(static_cast<std::int32_t>(slot))];
    if (retained[slot] && owner.kind == SlotKind::kArena) owner.kind = SlotKind::kDynamic;
  }
  for (std::int32_t s = 0; s < end; ++s) {
    for (const std::int32_t slot : steps_[s].inputs) {
      if (slot >= 0) last[slot] = last[root(slot)] = s;
    }
  }
  for (const OutputCopy& copy : copies_) last[copy.slot] = last[root(copy.slot)] = end;
  note_last_uses(last);

  // In place: the input's memory dies here and is as large as the output's.
  const auto bytes = [&](std::int32_t slot) {
    return byte_count(slots_[slot].dtype, slots_[slot].dims);
  };
  for (std::int32_t s = 0; s < end; ++s) {
    const Step& step = steps_[s];
    if (step.outputs.empty() || step.outputs[0] < 0) continue;
    const std::int32_t output = step.outputs[0];
    if (slots_[output].kind != SlotKind::kArena) continue;
    const std::vector<int>& in_place = step.kernel->traits().in_place;
    if (in_place.empty()) continue;
    // An operand that is read in another order must not lie in the same memory.
    std::vector<bool> is_in_place(step.inputs.size());
    for (const int i : in_place) {
      if (static_cast<std::size_t>(i) < is_in_place.size()) is_in_place[i] = true;
    }
    std::unordered_set<std::int32_t> read_elsewhere;
    for (std::size_t k = 0; k < step.inputs.size(); ++k) {
      if (step.inputs[k] >= 0 && !is_in_place[k]) read_elsewhere.insert(root(step.inputs[k]));
    }
    for (const int i : in_place) {
      const std::int32_t input = step.inputs.at(i);
      if (input < 0) continue;
      const std::int32_t source = root(input);
      if (slots_[source].kind != SlotKind::kArena || last[source] != s ||
          slots_[source].dtype != slots_[output].dtype || bytes(source) != bytes(output)) {
        continue;
      }
      if (read_elsewhere.contains(source)) continue;
      parent[output] = source;
      last[source] = std::max(last[source], last[output]);
      break;
    }
  }

  std::vector<BufferLife> buffers;
  std::vector<std::int32_t> buffer_of(slots_.size(), -1);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].kind != SlotKind::kArena ||
        root(static_cast<std::int32_t>(slot)) != static_cast<std::int32_t>(slot)) {
      continue;
    }
    buffer_of[slot] = static_cast<std::int32_t>(buffers.size());
    buffers.push_back({bytes(static_cast<std::int32_t>(slot)),
                       static_cast<std::size_t>(first[slot]),
                       static_cast<std::size_t>(last[slot])});
  }
  const ArenaPlan arena = plan_arena(buffers);
  arena_bytes_ = arena.bytes;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].kind == SlotKind::kArena) {
      slots_[slot].offset = arena.offsets[buffer_of[root(static_cast<std::int32_t>(slot))]];
    }
  }
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const SlotPlan& plan = slots_[slot];
    const std::int32_t owner = root(static_cast<std::int32_t>(slot));
    const bool dropped = plan.kind == SlotKind::kDynamic ||
                         (plan.kind == SlotKind::kView && slots_[owner].kind != SlotKind::kArena &&
                          slots_[owner].kind != SlotKind::kConstant);
    if (!dropped) continue;
    dropped_.push_back(static_cast<std::int32_t>(slot));
    if (last[slot] >= 0 && last[slot] < end) {
      steps_[last[slot]].releases.push_back(static_cast<std::int32_t>(slot));
    }
  }
}

void NativeExecutable::note_last_uses(const std::vector<std::int32_t>& last) {
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    Step& step = steps_[s];
    struct Reads {
      int all = 0, own = 0;
    };
    std::unordered_map<std::int32_t, Reads> reads;  // by slot
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      Reads& of = reads[step.inputs[i]];
      ++of.all;
      if (i < step.own_inputs) ++of.own;
    }
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const std::int32_t slot = step.inputs[i];
      // What only one of several bodies reads may be in the list once for each of them.
      const Reads& of = reads[slot];
      const bool once = i < step.own_inputs ? of.all == 1 : of.own == 0;
      const bool is_last = slot >= 0 && last[slot] == static_cast<std::int32_t>(s);
      step.last_uses.push_back(once && is_last ? 1 : 0);
    }
  }
}

std::unique_ptr<RunContext> NativeExecutable::create_context() const {
  auto context = std::make_unique<NativeContext>(slots_, arena_bytes_);
  context->kernel.threads_ = threads_.get();
  context->states.reserve(steps_.size());
  for (const Step& step : steps_) context->states.push_back(step.kernel->make_state());
  return context;
}

ExecutableInfo NativeExecutable::info() const {
  ExecutableInfo info;
  info.workspace_bytes = arena_bytes_;
  info.weight_bytes = weight_bytes();
  // Work that is all small runs in the caller's thread.
  info.threads = uses_arena_ ? threads_->count() : 1;
  info.pool = uses_arena_ && !side_by_side_ ? threads_.get() : nullptr;
  info.remarks = remarks_;
  return info;
}

void NativeExecutable::run_inside(NativeContext& context, const Threads& threads) const {
  context.kernel.threads_ = &threads;
  threads.execute([&] { run_steps(context); });
}

void NativeExecutable::run(const RunArgs& args) const {
  const RunData& data = data_of(args);
  run(args.context(), data.inputs, data.outputs);
}

void NativeExecutable::run(RunContext* context, std::span<const Data> inputs,
                           std::span<Data> outputs) const {
  std::unique_ptr<RunContext> own;
  if (context == nullptr) {
    own = create_context();
    context = own.get();
  }
  auto& native = static_cast<NativeContext&>(*context);
  check_counts(inputs.size(), outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    native.set_input(input_slots_[i], &inputs[i], InputUse::kBorrowed);
  }
  run_prepared(native, outputs, /*copies=*/true);
}

void NativeExecutable::run_body(RunContext& context, std::span<Data> inputs,
                                std::span<const InputUse> uses, std::span<Data> outputs) const {
  auto& native = static_cast<NativeContext&>(context);
  check_counts(inputs.size(), outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    native.set_input(input_slots_[i], &inputs[i], uses[i]);
  }
  run_prepared(native, outputs, /*copies=*/false);
}

void NativeExecutable::check_counts(std::size_t inputs, std::size_t outputs) const {
  if (inputs == input_slots_.size() && outputs == output_slots_.size()) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the function takes " + std::to_string(input_slots_.size()) + " inputs and gives " +
                  std::to_string(output_slots_.size()) + " outputs, not " + std::to_string(inputs) +
                  " and " + std::to_string(outputs));
}

void NativeExecutable::run_prepared(NativeContext& native, std::span<Data> outputs,
                                    bool copies) const {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (output_slots_[i] < 0) continue;
    native.values[output_slots_[i]] = native.targets[output_slots_[i]] = &outputs[i];
  }
  try {
    if (!uses_arena_) {
      run_steps(native);
    } else if (const Threads* outer = Threads::inside();
               outer != nullptr && outer->count() == threads_->count()) {
      run_inside(native, *outer);  // a body runs where the node does that it belongs to
    } else if (side_by_side_) {
      const Threads::Own own(threads_->count());
      run_inside(native, own.threads());
    } else {
      run_inside(native, *threads_);
    }
    for (const OutputCopy& copy : copies_) {
      const Data& source = *native.values[copy.slot];
      Data& target = outputs[copy.output];
      if (target.is_tensor()) {
        copy_values(source.tensor(), target.tensor());
      } else if (!copies && source.is_sequence() && !native.borrowed(copy.slot)) {
        target = source;  // nothing writes to its items
      } else {
        target = clone_data(source);
      }
    }
  } catch (...) {
    for (const std::int32_t slot : dropped_) native.release(slot);
    native.finish();
    throw;
  }
  for (const OutputCopy& copy : copies_) {
    if (slots_[copy.slot].kind == SlotKind::kDynamic || slots_[copy.slot].kind == SlotKind::kView) {
      native.release(copy.slot);
    }
  }
  native.finish();
}

void NativeExecutable::run_steps(NativeContext& native) const {
  if (profile_) {
    profile_->begin_run();
  }
  KernelContext& context = native.kernel;
  const bool is_timed = WorkScope::time_limit() != nullptr;
  const StepInterrupts interrupts;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    context.input_slots_ = step.inputs.data();
    context.input_count_ = step.inputs.size();
    context.last_uses_ = step.last_uses.data();
    context.output_slots_ = step.outputs.data();
    context.output_count_ = step.outputs.size();
    context.state_ = native.states[s].get();
    const double start_us = profile_ ? StepProfile::now_us() : 0;
    try {
      if (is_timed) WorkScope::check_time();
      interrupts.look();
      step.kernel->run(context);
    } catch (...) {
      rethrow(step);
    }
    if (step.writes_text) settle_text(step, native);
    if (profile_) profile_->add(s, StepProfile::now_us() - start_us);
    for (const std::int32_t slot : step.releases) native.release(slot);
  }
}

void NativeExecutable::settle_text(const Step& step, const NativeContext& native) {
  // What hands on its inputs makes no strings: a long sequence is not walked through for each item.
  if (!step.kernel->traits().retains_inputs) {
    for (const std::int32_t slot : step.outputs) {
      if (slot >= 0 && native.values[slot] != nullptr) settle_characters(*native.values[slot]);
    }
  }
  WorkScope::forget_characters();
}

void NativeExecutable::rethrow(const Step& step) {
  try {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), step.label + ": " + error.what());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kResource, step.label + ": out of memory");
  } catch (const std::out_of_range&) {
    throw Error(ErrorCode::kInvalidArgument,
                step.label + ": an operand or attribute has fewer elements than the op reads");
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kEngine, step.label + ": " + error.what());
  }
}

std::size_t NativeExecutable::weight_bytes() const {
  std::size_t bytes = 0;
  for (const Step& step : steps_) bytes += step.kernel->weight_bytes();
  return bytes;
}

}  // namespace xrt::native
