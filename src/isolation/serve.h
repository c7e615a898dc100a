// SPDX-License-Identifier: Apache-2.0
// The worker's side: one engine, at the service of the process that started it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "xrt/engine.h"
#include "xrt/export.h"

namespace xrt {

// Answers what comes on the socket until it closes or the process `parent` is gone; then ends this
// process. `load` gives the engine of that name. Orders that take time and lanes have threads of
// their own. The program xrt_worker has given up its rights before (src/isolation/sandbox.h).
[[noreturn]] XRT_API void serve_engine(
    int socket, const std::string& engine, int parent,
    const std::function<std::shared_ptr<const Engine>(const std::string& name)>& load);

// The same from the words that WorkerProcess puts behind its command: socket, engine, parent.
[[noreturn]] XRT_API void serve_engine(
    const std::string& socket, const std::string& engine, const std::string& parent,
    const std::function<std::shared_ptr<const Engine>(const std::string& name)>& load);

}  // namespace xrt
