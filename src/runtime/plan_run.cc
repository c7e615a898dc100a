// SPDX-License-Identifier: Apache-2.0
// Running a plan: launches one after the other; what crosses them is in the state's arena.
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "base/thread_gate.h"
#include "runtime/control_flow.h"
#include "runtime/engine_failure.h"
#include "runtime/plan.h"
#include "runtime/run_state.h"

namespace xrt {

// Takes a state from the pool and gives it back, also when the run throws.
class Plan::Lease {
 public:
  explicit Lease(Plan& plan) : plan_(plan) {
    {
      const std::lock_guard lock(plan.pool_mutex_);
      if (!plan.pool_.empty()) {
        state_ = std::move(plan.pool_.back());
        plan.pool_.pop_back();
      }
    }
    if (state_ == nullptr) state_ = plan.make_state();
  }
  ~Lease() {
    // What a failed run left in its state nobody knows.
    if (!complete_) return;
    // The caller's memory and what engines gave away must not outlive the run.
    for (std::size_t l = 0; l < plan_.launches_.size(); ++l) {
      release(plan_.launches_[l]->inputs, state_->inputs[l]);
      release(plan_.launches_[l]->outputs, state_->outputs[l]);
    }
    const std::lock_guard lock(plan_.pool_mutex_);
    plan_.pool_.push_back(std::move(state_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  RunState& state() { return *state_; }
  void set_complete() { complete_ = true; }

 private:
  void release(const std::vector<std::size_t>& slots, std::vector<Data>& ports) const {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (plan_.slots_[slots[i]].place != Place::kArena) ports[i] = Data{};
    }
  }

  Plan& plan_;
  bool complete_ = false;
  std::unique_ptr<RunState> state_;
};

std::unique_ptr<Plan::RunState> Plan::make_state() const {
  auto state = std::make_unique<RunState>();
  state->arena = Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(arena_bytes_)});
  const auto fill = [&](const std::vector<std::size_t>& slots, std::vector<Data>& ports) {
    ports.resize(slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Slot& slot = slots_[slots[i]];
      if (slot.place != Place::kArena) continue;
      ports[i] =
          Tensor::wrap(slot.dtype, slot.dims, state->arena.data<std::uint8_t>() + slot.offset,
                       state->arena.owner());
    }
  };
  state->inputs.resize(launches_.size());
  state->outputs.resize(launches_.size());
  for (std::size_t l = 0; l < launches_.size(); ++l) {
    fill(launches_[l]->inputs, state->inputs[l]);
    fill(launches_[l]->outputs, state->outputs[l]);
    try {
      state->contexts.push_back(launches_[l]->executable->create_context());
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kEngine) throw;
      fail_launch(*launches_[l], error.what());
    } catch (...) {
      fail_launch(*launches_[l], exception_text());
    }
  }
  return state;
}

void Plan::prepare_outputs(const Launch& launch, std::vector<Data>& ports,
                           std::span<Data> outputs) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const Slot& slot = slots_[launch.outputs[i]];
    if (slot.place != Place::kOutput || ports[i].is_tensor()) continue;
    Data& wanted = outputs[slot.index];
    if (wanted.is_none()) {
      if (slot.preallocate) ports[i] = Tensor::allocate(slot.dtype, slot.dims);
      continue;
    }
    // The caller brought memory. Where the shape is only known afterwards it is filled then.
    if (!slot.preallocate) continue;
    if (!wanted.is_tensor() || wanted.tensor().dtype() != slot.dtype ||
        wanted.tensor().dims() != slot.dims) {
      throw Error(ErrorCode::kInvalidArgument,
                  "output '" + output_names_[slot.index] + "' is " +
                      std::string(to_string(slot.dtype)) + to_string(slot.dims) +
                      "; the tensor given for it is of another dtype or shape");
    }
    ports[i] = wanted;
  }
}

void Plan::hand_out(const Launch& launch, std::size_t index, RunState& state,
                    std::span<Data> outputs) {
  std::vector<Data>& ports = state.outputs[index];
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const Slot& slot = slots_[launch.outputs[i]];
    if (slot.place == Place::kArena) {
      const void* expected = state.arena.data<std::uint8_t>() + slot.offset;
      if (!ports[i].is_tensor() || std::as_const(ports[i]).tensor().raw() != expected) {
        throw Error(ErrorCode::kEngine, "engine '" + launch.engine + "', function '" + launch.name +
                                            "': output " + std::to_string(i) +
                                            " was not written in place");
      }
      continue;
    }
    for (const auto& [reader, position] : slot.readers) {
      state.inputs[reader][position] = ports[i];
    }
    if (slot.place != Place::kOutput) continue;
    Data& wanted = outputs[slot.index];
    if (wanted.is_tensor() && !slot.preallocate) {
      const Tensor& made = ports[i].tensor();
      Tensor& target = wanted.tensor();
      if (target.dtype() != made.dtype() || target.dims() != made.dims() ||
          made.dtype() == DType::kString) {
        throw Error(ErrorCode::kInvalidArgument,
                    "output '" + output_names_[slot.index] + "' turned out " +
                        std::string(to_string(made.dtype())) + to_string(made.dims()) +
                        "; the tensor given for it is of another dtype or shape");
      }
      if (made.bytes() > 0) std::memcpy(target.raw(), made.raw(), made.bytes());
      continue;
    }
    wanted = ports[i];
  }
}

void Plan::fail_launch(const Launch& launch, const std::string& cause) const {
  std::vector<std::pair<std::string_view, std::string_view>> nodes;
  for (const Explanation::NodeRow& row : explanation_.nodes) {
    if (row.function == launch.name) nodes.emplace_back(row.name, row.op);
  }
  throw Error(ErrorCode::kEngine, "engine '" + launch.engine + "' failed to run function '" +
                                      launch.name + "' of " + list_nodes(nodes) + ": " + cause);
}

// What an engine hands over is what the graph says it is.
void Plan::check_outputs(const Launch& launch, const std::vector<Data>& ports) const {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const Slot& slot = slots_[launch.outputs[i]];
    const auto fail = [&](const std::string& found) {
      fail_launch(launch, "output " + std::to_string(i) + " is " + to_string(slot.type) +
                              ", the engine " + found);
    };
    if (ports[i].is_none()) {
      if (slot.type.kind != Type::Kind::kOptional) fail("wrote nothing");
      continue;
    }
    if (slot.type.kind != Type::Kind::kTensor) continue;
    if (!ports[i].is_tensor()) fail("gave a sequence");
    const Tensor& made = ports[i].tensor();
    bool fits = slot.type.dtype == DType::kUndefined || made.dtype() == slot.type.dtype;
    if (slot.type.shape) {
      fits = fits && made.rank() == slot.type.shape->size();
      for (std::size_t d = 0; fits && d < made.rank(); ++d) {
        const Dim& dim = (*slot.type.shape)[d];
        fits = !dim.is_known() || dim.value() == made.dims()[d];
      }
    }
    if (!fits) fail("gave " + std::string(to_string(made.dtype())) + to_string(made.dims()));
  }
}

void Plan::run_launch(std::size_t index, RunState& state, std::span<Data> outputs,
                      Profiler& profiler, std::uint64_t run_number) {
  Launch& launch = *launches_[index];
  for (const InputOutputAlias& alias : launch.aliases) {
    state.outputs[index][static_cast<std::size_t>(alias.output)] =
        state.inputs[index][static_cast<std::size_t>(alias.input)];
  }
  prepare_outputs(launch, state.outputs[index], outputs);
  const ThreadGate::Pass pass(ThreadGate::process(), launch.threads);
  const auto start = Profiler::Clock::now();
  if (launch.control_flow != nullptr) {
    launch.control_flow->run(state.inputs[index], state.outputs[index], profiler);
  } else {
    try {
      launch.executable->run(state.contexts[index].get(), state.inputs[index], state.outputs[index],
                             {});
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const Error& error) {
      // Others are of the data that was given, and name the node themselves.
      if (error.code() != ErrorCode::kEngine) throw;
      fail_launch(launch, error.what());
    } catch (...) {
      fail_launch(launch, exception_text());
    }
    check_outputs(launch, state.outputs[index]);
  }
  const auto end = Profiler::Clock::now();
  launch.runs.fetch_add(1, std::memory_order_relaxed);
  launch.total_ns.fetch_add((end - start).count(), std::memory_order_relaxed);
  if (profiler.enabled())
    profiler.record(launch.traced_name, launch.engine, start, end, run_number);
  hand_out(launch, index, state, outputs);
}

void Plan::run(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler) {
  const std::uint64_t run_number = profiler.next_run();
  Lease lease(*this);
  RunState& state = lease.state();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (const auto& [launch, position] : slots_[input_slots_[i]].readers) {
      state.inputs[launch][position] = inputs[i];
    }
  }
  for (std::size_t l = 0; l < launches_.size(); ++l) {
    run_launch(l, state, outputs, profiler, run_number);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].copy) continue;
    const Slot& slot = slots_[outputs_[i].slot];
    Data source;
    if (slot.place == Place::kInput) source = inputs[slot.index];
    if (slot.place == Place::kConstant) source = slot.constant;
    if (slot.place == Place::kOutput) source = outputs[slot.index];
    copy_output(i, source, outputs[i]);
  }
  for (const auto& [input, output] : aliases_) {
    // Committed last: every launch that reads the old value has run.
    Tensor target = inputs[input].tensor();
    const Tensor& result = std::as_const(outputs[output]).tensor();
    if (target.raw() != result.raw() && result.bytes() > 0) {
      std::memcpy(target.raw(), result.raw(), result.bytes());
    }
    outputs[output] = target;
  }
  lease.set_complete();
}

// An output that is an input, a constant or another output still gets memory of its own.
void Plan::copy_output(std::size_t index, const Data& source, Data& target) const {
  if (!source.is_tensor()) {
    target = source;  // sequences are immutable and may be shared
    return;
  }
  const Tensor& from = source.tensor();
  if (target.is_none()) {
    target = from.clone();
    return;
  }
  Tensor& to = target.tensor();
  if (to.dtype() != from.dtype() || to.dims() != from.dims() || from.dtype() == DType::kString) {
    throw Error(ErrorCode::kInvalidArgument,
                "output '" + output_names_[index] + "' is " + std::string(to_string(from.dtype())) +
                    to_string(from.dims()) +
                    "; the tensor given for it is of another dtype or shape");
  }
  if (from.bytes() > 0) std::memcpy(to.raw(), from.raw(), from.bytes());
}

}  // namespace xrt
