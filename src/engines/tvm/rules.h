// SPDX-License-Identifier: Apache-2.0
// Which nodes TVM's ONNX frontend brings to code that computes what the standard says: found by
// compiling and running ONNX's own test cases with it, see docs/reference/engines.md.
#pragma once

#include <string>
#include <vector>

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::tvm_engine {

Support can_compile(const Graph& graph, NodeId id);
// Qualified names, sorted.
std::vector<std::string> supported_ops();

}  // namespace xrt::tvm_engine
