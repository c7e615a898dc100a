// SPDX-License-Identifier: Apache-2.0
// An engine whose speed is known: it sleeps.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/test_engines.h"

namespace xrt::testing {

// Takes everything and sleeps by op.
class SleepyEngine : public PickyEngine {
 public:
  using Microseconds = std::map<std::string, int>;
  SleepyEngine(std::string name, Microseconds sleep, int launch_us)
      : PickyEngine(std::move(name), {}), sleep_(std::move(sleep)), launch_us_(launch_us) {}

  Support supports(const SupportQuery&) const override { return Support::yes(); }
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    ++compiled;
    int us = launch_us_;
    for (const NodeId id : function.graph.nodes()) {
      const auto it = sleep_.find(std::string(function.graph.node(id).op()));
      if (it != sleep_.end()) us += it->second;
    }
    return std::make_shared<Sleepy>(get_engine("native")->compile(function, options), us);
  }

 private:
  class Sleepy : public Executable {
   public:
    Sleepy(std::shared_ptr<const Executable> inner, int us) : inner_(std::move(inner)), us_(us) {}
    std::unique_ptr<RunContext> create_context() const override { return inner_->create_context(); }
    void run(const RunArgs& args) const override {
      std::this_thread::sleep_for(std::chrono::microseconds(us_));
      inner_->run(args);
    }

   private:
    std::shared_ptr<const Executable> inner_;
    int us_;
  };

  Microseconds sleep_;
  int launch_us_;
};

// Registers once per process and name.
inline std::shared_ptr<SleepyEngine> sleepy(const std::string& name,
                                            SleepyEngine::Microseconds sleep, int launch_us = 0) {
  auto engine = std::make_shared<SleepyEngine>(name, std::move(sleep), launch_us);
  register_engine(engine);
  return engine;
}

}  // namespace xrt::testing
