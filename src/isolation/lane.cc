// SPDX-License-Identifier: Apache-2.0
#include "isolation/lane.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/interrupt.h"
#include "isolation/futex.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::size_t kPlaceAlignment = 64;
// Smaller outputs are copied: a segment is a mapping in both processes.
constexpr std::size_t kLeastGiven = 256 << 10;
// Segments per output that the caller may hold while the lane runs on.
constexpr std::size_t kMostBuffers = 4;
// Between looks at limits, Ctrl-C and the worker. A lost worker wakes the lane.
constexpr int kLookMs = 50, kLookAtLimitMs = 5;
// What an engine that asks whether its run is cancelled gets to end it.
constexpr auto kGrace = std::chrono::milliseconds(250);

std::size_t aligned(std::size_t n) {
  return (n + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
}

Dims dims_of(const LanePort& port) {
  if (port.rank > kMostDims) {
    throw Error(ErrorCode::kEngine, "its worker gave an output of too many dimensions");
  }
  return {port.dims.begin(), port.dims.begin() + static_cast<std::ptrdiff_t>(port.rank)};
}

// The dtype and shape that an output has whatever the inputs are.
std::optional<Dims> fixed_dims(const Type& type) {
  if (!type.is_tensor() || !type.is_static() || type.dtype == DType::kUndefined) return {};
  Dims dims;
  for (const Dim& dim : *type.shape) dims.push_back(dim.value());
  return dims;
}

}  // namespace

Lane::Lane(std::shared_ptr<WorkerProcess> worker, std::uint64_t executable, const std::string& who,
           const std::vector<Type>& outputs, std::size_t inputs)
    : worker_(std::move(worker)),
      who_(who),
      outputs_(outputs),
      inputs_(inputs),
      control_(Segment::make(kPortsAt + (inputs + outputs.size()) * sizeof(LanePort))),
      buffers_(outputs.size()) {
  auto* const head = new (control_->data()) LaneHead;
  head->inputs = static_cast<std::uint32_t>(inputs);
  head->outputs = static_cast<std::uint32_t>(outputs.size());
  std::uninitialized_default_construct_n(ports_of(head), inputs + outputs.size());
  worker_->map(control_);
  control_->close_descriptor();
  FlatWriter order;
  order.number(static_cast<std::int64_t>(control_->number()));
  order.number(static_cast<std::int64_t>(executable));
  worker_->call(Message::kOpenLane, order);
  worker_->add_lane(head);
}

Lane::~Lane() {
  // In a child that fork() made the lane is the parent's, and goes on.
  worker_->remove_lane(head());
  if (worker_->is_lost()) return;
  head()->order = LaneHead::kEnd;
  head()->turn.fetch_add(1);
  futex_wake(head()->turn);
}

Lane::Place Lane::place_of(const void* data, std::size_t bytes, std::size_t& needed) {
  if (bytes > 0) {
    if (const auto found = find_segment(data, bytes); found && worker_->map(found->segment)) {
      return {found->segment, found->offset};
    }
  }
  const std::size_t offset = needed;
  needed += aligned(bytes);
  return {nullptr, offset};
}

std::shared_ptr<Segment> Lane::take(std::size_t bytes) {
  std::shared_ptr<Segment> made;
  try {
    made = Segment::make_for_run(bytes);
  } catch (const Error& error) {
    throw Error(error.code(), who_ + ": memory that its worker shares: " + error.what());
  }
  worker_->map(made);
  made->close_descriptor();
  return made;
}

void Lane::reserve(std::size_t bytes) {
  if (scratch_ != nullptr && scratch_->bytes() >= bytes) return;
  scratch_ = nullptr;  // before there is the next
  scratch_ = take(bytes);
}

void Lane::describe(LanePort& port, DType dtype, const Dims& dims, const Place& place) {
  if (dims.size() > kMostDims) {
    throw Error(ErrorCode::kUnsupported, "a tensor of " + std::to_string(dims.size()) +
                                             " dimensions cannot cross to a worker");
  }
  port.kind = LanePort::kTensor;
  port.dtype = static_cast<std::int32_t>(dtype);
  port.rank = dims.size();
  std::copy(dims.begin(), dims.end(), port.dims.begin());
  port.segment = (place.segment != nullptr ? place.segment : scratch_)->number();
  port.offset = place.offset;
}

// One that the caller does not hold any more, or a new one; null where he holds too many.
std::shared_ptr<Segment> Lane::buffer(std::size_t output, std::size_t bytes) {
  std::vector<std::shared_ptr<Segment>>& known = buffers_[output];
  for (const std::shared_ptr<Segment>& segment : known) {
    if (segment.use_count() != 1) continue;
    std::atomic_thread_fence(std::memory_order_acquire);
    segment->charge();
    return segment;
  }
  if (known.size() == kMostBuffers) return nullptr;
  return known.emplace_back(take(bytes));
}

void Lane::run(const RunData& data) {
  worker_->throw_if_lost();
  LanePort* const ports = ports_of(head());
  if (data.inputs.size() != inputs_ || data.outputs.size() != outputs_.size()) {
    throw Error(ErrorCode::kInternal, "a run has other inputs and outputs than its function");
  }
  std::size_t needed = 0;
  std::vector<Place> in(inputs_), out(outputs_.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!data.inputs[i].is_tensor()) continue;
    const Tensor& tensor = data.inputs[i].tensor();
    in[i] = place_of(tensor.raw(), tensor.bytes(), needed);
  }
  std::vector<Dims> fixed(outputs_.size());
  std::vector<bool> copied(outputs_.size());  // out of the lane's own memory when it is over
  for (std::size_t i = 0; i < out.size(); ++i) {
    LanePort& port = ports[inputs_ + i];
    port.kind = LanePort::kMade;
    if (data.outputs[i].is_tensor()) {
      const Tensor& tensor = std::as_const(data.outputs[i]).tensor();
      out[i] = place_of(tensor.raw(), tensor.bytes(), needed);
      copied[i] = out[i].segment == nullptr;
      port.kind = LanePort::kTensor;
    } else if (const auto dims = fixed_dims(outputs_[i])) {
      const std::size_t bytes = byte_count(outputs_[i].dtype, *dims);
      fixed[i] = *dims;
      if (bytes >= kLeastGiven) out[i].segment = buffer(i, bytes);
      if (out[i].segment == nullptr) {
        out[i].offset = needed;
        needed += aligned(bytes);
        copied[i] = true;
      }
      port.kind = LanePort::kTensor;
    }
  }
  reserve(needed);
  for (std::size_t i = 0; i < in.size(); ++i) {
    ports[i].kind = LanePort::kNone;
    if (data.inputs[i].is_sequence()) {
      throw Error(ErrorCode::kUnsupported, "a sequence cannot cross to a worker");
    }
    if (!data.inputs[i].is_tensor()) continue;
    const Tensor& tensor = data.inputs[i].tensor();
    describe(ports[i], tensor.dtype(), tensor.dims(), in[i]);
    if (in[i].segment == nullptr && tensor.bytes() > 0) {
      std::memcpy(scratch_->data() + in[i].offset, tensor.raw(), tensor.bytes());
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    LanePort& port = ports[inputs_ + i];
    if (port.kind != LanePort::kTensor) continue;
    if (data.outputs[i].is_tensor()) {
      const Tensor& tensor = std::as_const(data.outputs[i]).tensor();
      describe(port, tensor.dtype(), tensor.dims(), out[i]);
    } else {
      describe(port, outputs_[i].dtype, fixed[i], out[i]);
    }
  }
  ring(LaneHead::kRun, data.limit);
  std::vector<std::size_t> made;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint32_t kind = ports[inputs_ + i].kind;
    Data& output = data.outputs[i];
    if (kind == LanePort::kMade) {
      made.push_back(i);
    } else if (kind == LanePort::kNone) {
      output = Data{};
    } else if (output.is_none() && copied[i]) {
      output = Tensor::allocate(outputs_[i].dtype, fixed[i]);
    } else if (output.is_none()) {
      output = out[i].segment->tensor(outputs_[i].dtype, fixed[i]);
      out[i].segment->hand_over();
    }
    if (kind == LanePort::kTensor && copied[i]) {
      Tensor& tensor = output.tensor();
      if (tensor.bytes() > 0) {
        std::memcpy(tensor.raw(), scratch_->data() + out[i].offset, tensor.bytes());
      }
    }
  }
  if (!made.empty()) fetch(data, made);
}

// Outputs whose shape was not known, or that the engine put into memory of its own.
void Lane::fetch(const RunData& data, const std::vector<std::size_t>& made) {
  LanePort* const ports = ports_of(head()) + inputs_;
  std::vector<Tensor> tensors;
  std::size_t needed = 0;
  std::vector<Place> places;
  for (const std::size_t i : made) {
    const LanePort port = ports[i];
    if (port.dtype <= 0 || port.dtype >= kDTypeCount ||
        port.dtype == static_cast<std::int32_t>(DType::kString)) {
      throw Error(ErrorCode::kEngine, "its worker gave an output of a dtype that cannot cross");
    }
    tensors.push_back(Tensor::allocate(static_cast<DType>(port.dtype), dims_of(port)));
    places.push_back({nullptr, needed});
    needed += aligned(tensors.back().bytes());
  }
  reserve(needed);
  for (std::size_t i = 0; i < outputs_.size(); ++i) ports[i].kind = LanePort::kNone;
  for (std::size_t k = 0; k < made.size(); ++k) {
    describe(ports[made[k]], tensors[k].dtype(), tensors[k].dims(), places[k]);
  }
  ring(LaneHead::kFetch, data.limit);
  for (std::size_t k = 0; k < made.size(); ++k) {
    if (tensors[k].bytes() > 0) {
      std::memcpy(tensors[k].raw(), scratch_->data() + places[k].offset, tensors[k].bytes());
    }
    data.outputs[made[k]] = std::move(tensors[k]);
  }
}

void Lane::ring(std::uint32_t order, const RunLimit* limit) {
  head()->order = order;
  head()->cancelled = 0;
  head()->code = 0;
  head()->text_bytes = 0;
  const std::uint32_t turn = head()->turn.fetch_add(1) + 1;
  futex_wake(head()->turn);
  wait(turn, limit);
  const std::uint32_t code = head()->code;
  if (code == 0) return;
  const std::size_t size = std::min<std::size_t>(head()->text_bytes, head()->text.size());
  const auto last = static_cast<std::uint32_t>(ErrorCode::kInternal) + 1;
  throw Error(code <= last ? static_cast<ErrorCode>(code - 1) : ErrorCode::kEngine,
              std::string(head()->text.data(), size));
}

void Lane::wait(std::uint32_t turn, const RunLimit* limit) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> last_moment;
  for (;;) {
    const std::uint32_t seen = head()->done.load(std::memory_order_acquire);
    if (seen == turn) return;
    worker_->throw_if_lost();
    futex_wait(head()->done, seen, limit != nullptr ? kLookAtLimitMs : kLookMs);
    try {
      throw_if_interrupted();
    } catch (const Error&) {
      worker_->end("was ended because the user interrupted a run");
      throw;
    }
    if (limit == nullptr || !limit->is_over()) continue;
    if (!last_moment) {
      last_moment = Clock::now() + kGrace;
      head()->cancelled = 1;
    } else if (Clock::now() >= *last_moment) {
      worker_->end("did not end a run within its limit, and was ended");
      if (head()->done.load(std::memory_order_acquire) == turn) return;
      throw Error(ErrorCode::kResource,
                  who_ + ": it did not end within the limit of the run, " +
                      std::to_string(limit->seconds()) +
                      " s; its worker was ended, and the next run starts another one");
    }
  }
}

}  // namespace xrt
