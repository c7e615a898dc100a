// SPDX-License-Identifier: Apache-2.0
// Lower precision for float32 arithmetic, on engines that offer it (DeviceInfo::precisions).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "passes/narrow_floats.h"
#include "xrt/engine.h"
#include "xrt/graph.h"
#include "xrt/options.h"

namespace xrt {

// The precisions below float32 that this machine's CPU computes in faster than in float32.
std::vector<Precision> fast_precisions();

// The precision that an engine's functions are to have: its own among the program's engine_options,
// else `precision`, which is that of the plan.
Precision wanted_precision(const Engine& engine, const ProgramOptions& options,
                           Precision precision);

// Whether the engine computes float32 graphs in `precision` by an option of its own.
bool has_precision(const Engine& engine, const std::string& device, Precision precision);

// Whether it can compute them so: by such an option, or because it takes products of that type, so
// that its functions can be brought to it (passes/narrow_floats.h).
bool offers_precision(const Engine& engine, const std::string& device, Phase phase,
                      Precision precision);

// What the engine is told to compute in: `precision` where it has_precision(), else float32.
Precision precision_for(const Engine& engine, const std::string& device, Precision precision);

// A function's graph with casts, in which the engine takes every node, for an engine without
// has_precision(). Nothing where no node of it could compute in `precision`; of no such nodes,
// where constants are outside of its range.
// Nodes named in `keep` stay in float32.
std::optional<NarrowedGraph> narrowed_for(const Engine& engine, const Graph& function,
                                          const std::string& device, Phase phase,
                                          Precision precision, std::set<std::string> keep = {});

// Products of the graph whose constants are outside of the precision's range, as
// NarrowedGraph::overflows has them.
std::vector<std::string> constants_outside(const Graph& graph, Precision precision);

}  // namespace xrt
