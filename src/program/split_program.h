// SPDX-License-Identifier: Apache-2.0
// Programs of the option `devices`: one model on several devices, which share the rows of each run.
//
//   auto program = Program::load("net.onnx", {.engines = {"cuda", "native"},
//                                             .devices = {"cuda:0", "cuda:1"}});
//
// The rows are those of the open dimension that comes first in an input. passes/row_wise.h shows
// that the model computes each by itself. The first devices get one row more where their number
// does not divide the rows', and a device without rows does nothing. What is no batch goes to all
// of them. Inputs lie on the host, and so do outputs.
#pragma once

#include <functional>
#include <memory>

#include "xrt/graph.h"
#include "xrt/program.h"

namespace xrt {

// `load` makes the program of one device, with `device` in its options and without `devices`;
// `graph_of` gives its graph after passes. Throws kInvalidArgument for a device that is there
// twice, or beside `device`; kUnsupported where the rows of the model cannot be shared, with the
// reason, and with use_int8; and what `load` throws. Of one device: its program.
std::shared_ptr<Program> make_split_program(
    const ProgramOptions& options,
    const std::function<std::shared_ptr<Program>(const ProgramOptions& options)>& load,
    const std::function<std::shared_ptr<const Graph>(const Program& program)>& graph_of);

}  // namespace xrt
