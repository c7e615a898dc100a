// SPDX-License-Identifier: Apache-2.0
// Calls of engines without a program around them.
#pragma once

#include <span>

#include "engine/host.h"

namespace xrt {

inline void run_once(const Executable& executable, RunContext* context,
                     std::span<const Data> inputs, std::span<Data> outputs, RunData rest = {}) {
  rest.inputs = inputs;
  rest.outputs = outputs;
  executable.run(run_args(rest, context));
}

}  // namespace xrt
