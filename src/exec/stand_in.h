// SPDX-License-Identifier: Apache-2.0
// Who runs a function on inputs that its engine is not to have (exec/value_checks.h), or refuses in
// a run: the native engine, planned when such inputs come first.
//
// Thread-safety: run() may be called at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/fork_mutex.h"
#include "exec/profiler.h"
#include "exec/run_record.h"
#include "xrt/graph.h"
#include "xrt/options.h"

namespace xrt {

class Body;

class StandIn {
 public:
  // Of the function `name` of `engine`; `options` are those of the program around it, which all
  // functions share.
  StandIn(std::shared_ptr<const Graph> function, std::string name, std::string scope,
          std::string engine, std::shared_ptr<const ProgramOptions> options);
  ~StandIn();

  // `unfit` says why the engine is not to have the inputs. A tensor in `outputs` is memory to write
  // into. With `strict`, where no other engine was named, it throws kUnsupported.
  void run(std::span<const Data> inputs, std::span<Data> outputs, const std::string& unfit,
           Profiler& profiler, RunRecord* record);

  // For people: how often it ran, and why; empty: never.
  std::string note() const;

 private:
  Body& body();
  // Among the engines of the program.
  bool is_named() const;

  std::shared_ptr<const Graph> function_;
  std::string name_, scope_, engine_;
  std::shared_ptr<const ProgramOptions> options_;
  std::atomic<std::int64_t> runs_{0};

  mutable ForkMutex mutex_;
  std::unique_ptr<Body> body_;
  std::string first_unfit_;
};

}  // namespace xrt
