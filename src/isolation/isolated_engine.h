// SPDX-License-Identifier: Apache-2.0
// An engine that runs in a worker: what it answers, compiles and runs, it does there.
//
// One worker serves all programs of the process that use the engine. When it is lost, every run
// that was in it fails with kEngine and the cause; the next call of anybody starts another worker,
// and each executable is compiled again there, or loaded from the blob that it came from, by its
// next run.
//
// What crosses: tensors of numbers of at most 16 dimensions, in memory of the host. Nodes that
// touch anything else are refused. Functions have no aliases there: the runtime copies.
//
// Thread-safety: as every engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "xrt/engine.h"

namespace xrt {

// The engine `name` ("openvino@process"), whose workers run `command`. Throws kEngine where no
// worker can be started or the engine cannot be loaded there.
std::shared_ptr<const Engine> make_isolated_engine(std::string name,
                                                   std::vector<std::string> command);

}  // namespace xrt
