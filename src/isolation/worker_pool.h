// SPDX-License-Identifier: Apache-2.0
// The worker of an engine: started when it is first needed, and another one when it is lost.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "base/per_process.h"
#include "isolation/worker_process.h"
#include "xrt/graph.h"

namespace xrt {

class WorkerPool {
 public:
  // `engine` as programs name it ("openvino@process").
  WorkerPool(std::string engine, std::vector<std::string> command);

  // One that is not lost, a moment ago. Throws as WorkerProcess::start().
  std::shared_ptr<WorkerProcess> worker();
  // An address of this process that stands for a pool of threads in the worker, null for 0.
  const void* thread_pool(std::uint64_t name);
  const std::string& engine() const { return engine_; }
  // EngineInfo::self_contained of the engine; set once, when its worker has told it.
  void set_self_contained(bool yes) { self_contained_ = yes; }
  bool self_contained() const { return self_contained_; }

 private:
  std::shared_ptr<WorkerProcess> latest() const;

  const std::string engine_;
  const std::vector<std::string> command_;
  bool self_contained_ = false;
  MemberPerProcess<std::mutex> turn_;  // of who starts one
  mutable ForkMutex mutex_;
  std::shared_ptr<WorkerProcess> worker_;
  std::map<std::uint64_t, std::unique_ptr<char>> thread_pools_;
};

// A graph on its way to a worker: first the segments that its large constants lie in, then, where
// write() is called, the graph.
class SentGraph {
 public:
  // `blob`, if it is defined, goes the way of the constants.
  SentGraph(WorkerProcess& worker, const Graph& graph, const Tensor& blob = {},
            bool without_constants = false);
  FlatWriter& writer() { return *writer_; }
  void write();

 private:
  const Graph& graph_;
  bool without_constants_;
  std::unique_ptr<FlatWriter> writer_;
};

}  // namespace xrt
