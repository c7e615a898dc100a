// SPDX-License-Identifier: Apache-2.0
// Programs of the options `use_int8` and `int8_calibration`: by a table at once; by their first
// runs, which are in floating point, from the run after them on.
//
//   auto program = Program::load("net.onnx", {.use_int8 = true, .int8_calibration = "8"});
#pragma once

#include <memory>

#include "xrt/graph.h"
#include "xrt/program.h"

namespace xrt {

// `graph` as it was imported; `options` are resolved, with use_int8. Throws kInvalidArgument for
// int8_calibration that is empty or 0, and for a graph with nothing to quantise; what
// load_any_table() and ranges_for() throw; and what Program::compile() throws.
std::shared_ptr<Program> make_int8_program(Graph graph, const ProgramOptions& options);

}  // namespace xrt
