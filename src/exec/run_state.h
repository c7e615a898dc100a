// SPDX-License-Identifier: Apache-2.0
// What one run of a plan needs for itself.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "base/work_scope.h"
#include "exec/executor.h"

namespace xrt {

struct Executor::RunState {
  // Of what the state keeps from run to run, and what a run makes.
  std::shared_ptr<MemoryAccount> account = std::make_shared<MemoryAccount>();
  Tensor arena;       // all values between launches, as bytes
  pid_t process = 0;  // that an arena is of which workers see; a child of it needs its own
  std::vector<std::vector<Data>> inputs;              // per launch; arena values are set once
  std::vector<std::vector<Data>> outputs;             // likewise
  std::vector<std::unique_ptr<RunContext>> contexts;  // per launch
  std::unique_ptr<bool[]> on_device;  // of the outputs of the launch that runs: RunOptions'
};

}  // namespace xrt
