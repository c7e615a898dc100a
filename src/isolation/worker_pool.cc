// SPDX-License-Identifier: Apache-2.0
#include "isolation/worker_pool.h"

#include <utility>

#include "isolation/names.h"

namespace xrt {

WorkerPool::WorkerPool(std::string engine, std::vector<std::string> command)
    : engine_(std::move(engine)), command_(std::move(command)) {}

std::shared_ptr<WorkerProcess> WorkerPool::worker() {
  if (auto latest = this->latest(); latest != nullptr && !latest->is_lost()) return latest;
  std::shared_ptr<WorkerProcess> old;  // goes when the locks are gone: its end takes a moment
  const std::lock_guard turn(turn_.get());
  old = latest();
  if (old != nullptr && !old->is_lost()) return old;
  {
    const std::lock_guard lock(mutex_);
    worker_.reset();
  }
  std::shared_ptr<WorkerProcess> started =
      WorkerProcess::start(command_, std::string(base_engine(engine_)));
  const std::lock_guard lock(mutex_);
  worker_ = started;
  return started;
}

std::shared_ptr<WorkerProcess> WorkerPool::latest() const {
  const std::lock_guard lock(mutex_);
  return worker_;
}

const void* WorkerPool::thread_pool(std::uint64_t name) {
  if (name == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  std::unique_ptr<char>& pool = thread_pools_[name];
  if (pool == nullptr) pool = std::make_unique<char>();
  return pool.get();
}

SentGraph::SentGraph(WorkerProcess& worker, const Graph& graph, const Tensor& blob,
                     bool without_constants)
    : graph_(graph), without_constants_(without_constants) {
  std::vector<Tensor> constants;
  for (const ValueId v : graph.constants()) {
    if (!without_constants) constants.push_back(graph.value(v).constant);
  }
  if (blob.defined()) constants.push_back(blob);
  WorkerProcess::Blocks shared = worker.share_constants(constants);
  writer_ = std::make_unique<FlatWriter>(std::move(shared.blocks));
  writer_->number(static_cast<std::int64_t>(shared.segments.size()));
  for (const std::uint64_t segment : shared.segments) {
    writer_->number(static_cast<std::int64_t>(segment));
  }
}

void SentGraph::write() {
  writer_->graph(graph_, std::vector<bool>(without_constants_ ? graph_.value_capacity() : 0, true));
}

}  // namespace xrt
