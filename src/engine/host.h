// SPDX-License-Identifier: Apache-2.0
// The host's side of the engine contract: what engines are given to look at.
#pragma once

#include <string>

#include "engine/handles.h"
#include "xrt/engine.h"
#include "xrt/export.h"

namespace xrt {

// What xrt_engine_host::fail() fills in.
struct EngineError {
  std::string text;
};

// The table that every engine is handed.
XRT_API const xrt_engine_host* engine_host();

// Both are valid as long as what they show.
inline GraphView view_of(const Graph& graph) { return {engine_host(), handle_of(graph)}; }
inline TensorView view_of(const Tensor& tensor) { return {engine_host(), handle_of(tensor)}; }

// `data` lives during the run.
inline RunArgs run_args(RunData& data, RunContext* context) {
  return {engine_host(), reinterpret_cast<xrt_engine_run*>(&data), context};
}

// A function as engines are given it. `name` and `graph` live as long as it does.
XRT_API Function function_of(std::string name, const Graph& graph,
                             std::vector<InputOutputAlias> aliases = {});

}  // namespace xrt
