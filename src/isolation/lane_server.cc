// SPDX-License-Identifier: Apache-2.0
#include "isolation/lane_server.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "engine/host.h"
#include "isolation/failure.h"
#include "isolation/futex.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr int kSleepMs = 60'000;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kEngine, what); }

}  // namespace

LaneServer::LaneServer(Tensor control, std::shared_ptr<const Executable> executable,
                       FindSegment find)
    : control_(std::move(control)),
      executable_(std::move(executable)),
      find_(std::move(find)),
      inputs_(head()->inputs),
      outputs_(head()->outputs),
      context_(executable_->create_context()),
      made_(outputs_) {
  if (control_.bytes() < kPortsAt + (inputs_ + outputs_) * sizeof(LanePort)) {
    refuse("a lane is too small");
  }
}

void LaneServer::look_at_limit() {
  if (head()->cancelled.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex_);
  if (limit_ != nullptr) limit_->cancel();
}

Tensor LaneServer::tensor_at(const LanePort& port) const {
  Tensor segment = find_(port.segment);
  if (port.rank > kMostDims) refuse("a tensor has too many dimensions");
  Dims dims(port.dims.begin(), port.dims.begin() + static_cast<std::ptrdiff_t>(port.rank));
  const auto dtype = static_cast<DType>(port.dtype);
  const std::size_t bytes = byte_count(dtype, dims);
  if (port.offset > segment.bytes() || bytes > segment.bytes() - port.offset) {
    refuse("a tensor lies outside of its segment");
  }
  return Tensor::wrap(dtype, std::move(dims), segment.data<std::byte>() + port.offset,
                      segment.owner());
}

void LaneServer::run() {
  LanePort* const ports = ports_of(head());
  std::vector<Data> inputs(inputs_), outputs(outputs_);
  for (std::size_t i = 0; i < inputs_; ++i) {
    if (ports[i].kind == LanePort::kTensor) inputs[i] = tensor_at(ports[i]);
  }
  for (std::size_t i = 0; i < outputs_; ++i) {
    const LanePort& port = ports[inputs_ + i];
    if (port.kind == LanePort::kTensor) outputs[i] = tensor_at(port);
  }
  const std::vector<Data> places = outputs;
  RunLimit limit(0);
  {
    const std::lock_guard lock(mutex_);
    limit_ = &limit;
  }
  struct NoLimit {
    LaneServer& lane;
    ~NoLimit() {
      const std::lock_guard lock(lane.mutex_);
      lane.limit_ = nullptr;
    }
  } const no_limit{*this};
  RunData data{inputs, outputs};
  data.limit = &limit;
  executable_->run(run_args(data, context_.get()));
  for (std::size_t i = 0; i < outputs_; ++i) {
    LanePort& port = ports[inputs_ + i];
    made_[i] = Data{};
    if (outputs[i].is_none()) {
      port.kind = LanePort::kNone;
      continue;
    }
    if (!outputs[i].is_tensor()) refuse("a sequence cannot leave a worker");
    const Tensor tensor = std::as_const(outputs[i]).tensor().to({});
    if (places[i].is_tensor() && std::as_const(places[i]).tensor().raw() == tensor.raw()) continue;
    if (tensor.rank() > kMostDims || tensor.dtype() == DType::kString) {
      refuse("output " + std::to_string(i) + " cannot leave a worker");
    }
    port.kind = LanePort::kMade;
    port.dtype = static_cast<std::int32_t>(tensor.dtype());
    port.rank = tensor.rank();
    std::copy(tensor.dims().begin(), tensor.dims().end(), port.dims.begin());
    made_[i] = tensor;
  }
}

void LaneServer::fetch() {
  LanePort* const ports = ports_of(head()) + inputs_;
  for (std::size_t i = 0; i < outputs_; ++i) {
    if (ports[i].kind != LanePort::kTensor) continue;
    Tensor to = tensor_at(ports[i]);
    copy_elements(std::as_const(made_[i]).tensor(), to);
  }
  std::fill(made_.begin(), made_.end(), Data{});
}

void LaneServer::serve() {
  for (std::uint32_t handled = 0;;) {
    std::uint32_t turn = head()->turn.load(std::memory_order_acquire);
    while (turn == handled) {
      futex_wait(head()->turn, handled, kSleepMs);
      turn = head()->turn.load(std::memory_order_acquire);
    }
    if (head()->order == LaneHead::kEnd) return;
    const auto [code, cause] =
        failure_of([&] { head()->order == LaneHead::kRun ? run() : fetch(); });
    const std::size_t size = std::min(cause.size(), head()->text.size());
    std::memcpy(head()->text.data(), cause.data(), size);
    head()->text_bytes = static_cast<std::uint32_t>(size);
    head()->code = code;
    handled = turn;
    head()->done.store(turn, std::memory_order_release);
    futex_wake(head()->done);
  }
}

}  // namespace xrt
