// SPDX-License-Identifier: Apache-2.0
// Running: launches one after the other; what crosses them is in the state's arena.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/interrupt.h"
#include "base/message.h"
#include "base/work_scope.h"
#include "device/caller_stream.h"
#include "device/thread_gate.h"
#include "engine/host.h"
#include "exec/control_flow.h"
#include "exec/executor.h"
#include "exec/run_state.h"
#include "exec/stand_in.h"
#include "isolation/segment.h"
#include "registry/engine_failure.h"
#include "registry/engine_names.h"

namespace xrt {
namespace {

std::size_t tensor_bytes(const std::vector<Data>& values) {
  std::size_t bytes = 0;
  for (const Data& data : values) {
    if (data.is_tensor()) bytes += data.tensor().bytes();
  }
  return bytes;
}

// They are no part of the run, and in none of its bounds.
std::vector<Data> copies_on_host(const std::vector<Data>& values) {
  const InheritedScope none(nullptr);
  std::vector<Data> copies;
  copies.reserve(values.size());
  for (const Data& data : values) {
    if (!data.is_tensor()) {
      copies.push_back(data);
    } else if (data.tensor().on_host()) {
      copies.emplace_back(data.tensor().clone());
    } else {
      copies.emplace_back(data.tensor().to({}));
    }
  }
  return copies;
}

}  // namespace

// Takes a state from the pool and gives it back, also when the run throws.
class Executor::Lease {
 public:
  explicit Lease(Executor& plan) : plan_(plan) {
    {
      const std::lock_guard lock(plan.pool_mutex_);
      if (!plan.pool_.empty()) {
        state_ = std::move(plan.pool_.back());
        plan.pool_.pop_back();
      }
    }
    const bool of_another =
        state_ != nullptr && state_->process != 0 && state_->process != ::getpid();
    if (state_ == nullptr || of_another) state_ = plan.make_state();
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

  Executor& plan_;
  bool complete_ = false;
  std::unique_ptr<RunState> state_;
};

std::unique_ptr<Executor::RunState> Executor::make_state() const {
  auto state = std::make_unique<RunState>();
  const WorkScope scope(state->account, most_bytes_);
  const bool has_workers = std::any_of(launches_.begin(), launches_.end(),
                                       [](const auto& launch) { return launch->is_isolated; });
  try {
    if (has_workers && arena_bytes_ > 0) {
      state->arena = shared_bytes(arena_bytes_);
      state->process = ::getpid();
    } else {
      state->arena = Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(arena_bytes_)});
    }
  } catch (const Error& error) {
    throw Error(error.code(), std::string("the values between the functions: ") + error.what());
  }
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
  std::size_t most_outputs = 0;
  for (const auto& launch : launches_)
    most_outputs = std::max(most_outputs, launch->outputs.size());
  state->on_device = std::make_unique<bool[]>(most_outputs);
  for (std::size_t l = 0; l < launches_.size(); ++l) {
    fill(launches_[l]->inputs, state->inputs[l]);
    fill(launches_[l]->outputs, state->outputs[l]);
    if (launches_[l]->control_flow != nullptr) {
      state->contexts.emplace_back();
      continue;
    }
    try {
      const std::int64_t before = state->account->bytes;
      state->contexts.push_back(launches_[l]->executable->create_context());
      account_for_workspace(*launches_[l], state->account->bytes - before, *state->account);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kResource) fail_bound(*launches_[l], error.what());
      if (error.code() != ErrorCode::kEngine) throw;
      fail_launch(*launches_[l], error.what());
    } catch (...) {
      fail_launch(*launches_[l], exception_text());
    }
  }
  return state;
}

// What an engine says that it needs and did not take from the host it has taken elsewhere.
void Executor::account_for_workspace(const Launch& launch, std::int64_t taken,
                                     MemoryAccount& account) const {
  const auto wanted = static_cast<std::int64_t>(launch.info.workspace_bytes.value_or(0));
  if (wanted <= taken) return;
  const auto more = static_cast<std::size_t>(wanted - taken);
  const auto held = static_cast<std::size_t>(std::max<std::int64_t>(account.bytes, 0));
  if (held > most_bytes_ || more > most_bytes_ - held) {
    throw Error(ErrorCode::kResource,
                fmt::format("it needs {} bytes of scratch memory; {} of the {} that a run may take "
                            "(max_memory_bytes) are in use",
                            wanted, held, most_bytes_));
  }
  account.bytes += wanted - taken;
}

// A bound of the run that this launch reached.
void Executor::fail_bound(const Launch& launch, const std::string& cause) const {
  throw Error(ErrorCode::kResource,
              fmt::format("function '{}' (engine '{}'): {}", launch.name, launch.engine, cause));
}

void Executor::fail_output(std::size_t output, std::string_view verb, DType dtype,
                           const Dims& dims) const {
  throw Error(ErrorCode::kInvalidArgument,
              "output '" + output_names_[output] + "' " + std::string(verb) + " " +
                  std::string(to_string(dtype)) + to_string(dims) +
                  "; the tensor given for it is of another dtype or shape");
}

void Executor::prepare_outputs(std::size_t index, RunState& state, std::span<Data> outputs,
                               bool device_results) {
  const Launch& launch = *launches_[index];
  std::vector<Data>& ports = state.outputs[index];
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const Slot& slot = slots_[launch.outputs[i]];
    state.on_device[i] = slot.stays_on_device && ports[i].is_none();
    if (slot.place != Place::kOutput || ports[i].is_tensor()) continue;
    Data& wanted = outputs[slot.index];
    const bool device_wanted =
        wanted.is_none() ? device_results
                         : wanted.is_tensor() && !std::as_const(wanted).tensor().on_host();
    if (device_wanted && !launch.device.is_host() && slot.preallocate && !is_packed(slot.dtype)) {
      state.on_device[i] = true;
    }
    // Where the shape is only known afterwards the caller's memory is filled then.
    if (!slot.preallocate) continue;
    if (!wanted.is_none() && (!wanted.is_tensor() || wanted.tensor().dtype() != slot.dtype ||
                              wanted.tensor().dims() != slot.dims)) {
      fail_output(slot.index, "is", slot.dtype, slot.dims);
    }
    if (state.on_device[i]) continue;
    // A worker's output lies where it can write: the executable gives it away.
    if (launch.is_isolated && wanted.is_none()) continue;
    // What lies elsewhere in the end is copied there from memory of the host.
    ports[i] =
        wanted.is_none() || device_wanted ? Data(Tensor::allocate(slot.dtype, slot.dims)) : wanted;
  }
}

// Launches on the value's device read it there; for all others it is copied to the host, once.
void Executor::give_to_readers(const Slot& slot, const Data& value, RunState& state) const {
  const bool on_host = !value.is_tensor() || value.tensor().on_host();
  Data copy;
  for (const auto& [reader, position] : slot.readers) {
    const bool fits = on_host || launches_[reader]->device == value.tensor().device();
    if (!fits && copy.is_none()) copy = value.tensor().to({});
    state.inputs[reader][position] = fits ? value : copy;
  }
}

void Executor::hand_out(const Launch& launch, std::size_t index, RunState& state,
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
    if (slot.type.dtype == DType::kString) settle_characters(ports[i]);
    give_to_readers(slot, ports[i], state);
    if (slot.place != Place::kOutput) continue;
    Data& wanted = outputs[slot.index];
    if (!wanted.is_tensor()) {
      wanted = ports[i];
      continue;
    }
    const Tensor& made = std::as_const(ports[i]).tensor();
    Tensor& target = wanted.tensor();
    if (target.dtype() != made.dtype() || target.dims() != made.dims() ||
        made.dtype() == DType::kString) {
      fail_output(slot.index, "turned out", made.dtype(), made.dims());
    }
    copy_elements(made, target);
  }
}

void Executor::fail_launch(const Launch& launch, const std::string& cause) const {
  std::vector<std::pair<std::string_view, std::string_view>> nodes;
  for (const Explanation::NodeRow& row : explanation_.nodes) {
    if (row.function == launch.name) nodes.emplace_back(row.name, row.op);
  }
  throw Error(ErrorCode::kEngine, "engine '" + launch.engine + "' failed to run function '" +
                                      launch.name + "' of " + list_nodes(nodes) + ": " +
                                      shortened(cause, kMostOfCause));
}

// What an engine hands over is what the graph says it is.
void Executor::check_outputs(const Launch& launch, const std::vector<Data>& ports) const {
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

std::optional<std::string> Executor::run_executable(std::size_t index, RunState& state,
                                                    void* stream) const {
  const Launch& launch = *launches_[index];
  RunData data{state.inputs[index],
               state.outputs[index],
               {state.on_device.get(), state.outputs[index].size()},
               stream,
               WorkScope::time_limit(),
               WorkScope::current()};
  try {
    launch.executable->run(run_args(data, state.contexts[index].get()));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error& error) {
    if (!data.refused.empty()) fail_bound(launch, data.refused);
    if (error.code() == ErrorCode::kUnsupported && launch.stand_in != nullptr) return error.what();
    // Others are of the data that was given, and name the node themselves.
    if (error.code() != ErrorCode::kEngine) throw;
    fail_launch(launch, error.what());
  } catch (...) {
    if (!data.refused.empty()) fail_bound(launch, data.refused);
    fail_launch(launch, exception_text());
  }
  return std::nullopt;
}

void Executor::run_launch(std::size_t index, RunState& state, std::span<Data> outputs,
                          Profiler& profiler, std::uint64_t run_number, bool device_results,
                          void* stream, RunRecord* record) {
  Launch& launch = *launches_[index];
  std::optional<std::string> unfit;
  if (launch.value_checks != nullptr) unfit = launch.value_checks->run(state.inputs[index]);
  const bool stands_in = unfit && launch.stand_in != nullptr;
  RunRecord::Function* recorded = nullptr;
  if (record != nullptr && launch.executable != nullptr && launch.is_checked() && !stands_in &&
      !record->has(launch.traced_name, launch.key)) {
    // Before the run: it may write over its inputs.
    if (tensor_bytes(state.inputs[index]) <= record->bytes_left) {
      record->functions.push_back({.name = launch.traced_name,
                                   .engine = launch.engine,
                                   .key = launch.key,
                                   .graph = launch.graph,
                                   .inputs = copies_on_host(state.inputs[index]),
                                   .outputs = {}});
      recorded = &record->functions.back();
    } else {
      record->left_out.push_back(launch.traced_name);
    }
  }
  for (const InputOutputAlias& alias : launch.aliases) {
    state.outputs[index][static_cast<std::size_t>(alias.output)] =
        state.inputs[index][static_cast<std::size_t>(alias.input)];
  }
  try {
    WorkScope::check_time();
    StepInterrupts().look();
    check_least_time(launch.least_time);
    prepare_outputs(index, state, outputs, device_results);
    check_least_memory(launch.least_memory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResource) throw;
    fail_bound(launch, error.what());
  }
  const ThreadGate::Pass pass(ThreadGate::process(),
                              stands_in ? ThreadUse{.threads = 0} : launch.threads, launch.engine);
  const auto start = Profiler::Clock::now();
  if (stands_in) {
    launch.stand_in->run(state.inputs[index], state.outputs[index], *unfit, profiler, record);
  } else if (launch.control_flow != nullptr) {
    launch.control_flow->run(state.inputs[index], state.outputs[index], profiler, record);
  } else {
    unfit = run_executable(index, state, stream);
    if (unfit) {
      if (recorded != nullptr) record->functions.pop_back();
      recorded = nullptr;
      launch.stand_in->run(state.inputs[index], state.outputs[index], *unfit, profiler, record);
    }
    check_outputs(launch, state.outputs[index]);
    if (recorded != nullptr) {
      const std::size_t bytes = tensor_bytes(recorded->inputs) + tensor_bytes(state.outputs[index]);
      if (bytes <= record->bytes_left) {
        recorded->outputs = copies_on_host(state.outputs[index]);
        record->bytes_left -= bytes;
      } else {
        record->functions.pop_back();
        record->left_out.push_back(launch.traced_name);
      }
    }
  }
  const auto end = Profiler::Clock::now();
  // The first run wakes threads and touches memory that was never touched.
  const bool is_first = launch.runs.fetch_add(1, std::memory_order_relaxed) == 0;
  auto& sum = is_first ? launch.first_ns : launch.later_ns;
  sum.fetch_add((end - start).count(), std::memory_order_relaxed);
  if (profiler.enabled())
    profiler.record(launch.traced_name, launch.engine, start, end, run_number);
  hand_out(launch, index, state, outputs);
}

void Executor::run(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
                   bool device_results, RunRecord* record) {
  // What the profiler records is the time until the outputs are written.
  void* stream = nullptr;
  if (CallerStream* of_caller = CallerStream::current()) {
    const bool follows = follows_stream_ && device_results && !profiler.enabled() &&
                         record == nullptr && of_caller->device() == device_.ordinal &&
                         std::all_of(outputs.begin(), outputs.end(),
                                     [](const Data& output) { return output.is_none(); });
    if (follows) {
      stream = of_caller->handle();
    } else {
      of_caller->wait();
    }
  }
  const std::uint64_t run_number = profiler.next_run();
  Lease lease(*this);
  RunState& state = lease.state();
  const WorkScope scope(state.account, most_bytes_, /*may_stop=*/aliases_.empty());
  // Which outputs are to be given out where the caller wants them; he has chosen that of others.
  std::vector<std::size_t> ours;
  const bool has_devices = device_results || !device_.is_host();
  for (std::size_t i = 0; has_devices && i < outputs.size(); ++i) {
    if (outputs[i].is_none()) ours.push_back(i);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    give_to_readers(slots_[input_slots_[i]], inputs[i], state);
  }
  for (std::size_t l = 0; l < launches_.size(); ++l) {
    run_launch(l, state, outputs, profiler, run_number, device_results, stream, record);
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
  const Device wanted = device_results ? device_ : Device{};
  for (const std::size_t i : ours) {
    if (!outputs[i].is_tensor()) continue;
    const Tensor& made = std::as_const(outputs[i]).tensor();
    if (made.dtype() == DType::kString || is_packed(made.dtype())) continue;
    outputs[i] = made.to(wanted);
  }
  for (const auto& [input, output] : aliases_) {
    // Committed last: every launch that reads the old value has run.
    Tensor target = inputs[input].tensor();
    copy_elements(std::as_const(outputs[output]).tensor(), target);
    outputs[output] = target;
  }
  // What is handed out is the caller's, or that of the run around this one.
  const std::shared_ptr<MemoryAccount> callers = WorkScope::outer_account();
  for (const Data& output : outputs) hand_over(output, state.account.get(), callers);
  lease.set_complete();
}

// An output that is an input, a constant or another output still gets memory of its own.
void Executor::copy_output(std::size_t index, const Data& source, Data& target) const {
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
    fail_output(index, "is", from.dtype(), from.dims());
  }
  copy_elements(from, to);
}

}  // namespace xrt
