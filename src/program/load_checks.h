// SPDX-License-Identifier: Apache-2.0
// Whether a program can run at all: judged when it is loaded.
//
// A program with open dimensions is planned when its first run tells the sizes. What no size can
// mend must not wait until then: engines that cannot be had or do not drive the device, ops that
// nobody knows, nodes that every engine refuses whatever the sizes are.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "xrt/explanation.h"
#include "xrt/graph.h"
#include "xrt/options.h"

namespace xrt {

// With `fallback`, the options without the engines that this machine lacks or that do not drive the
// device, each with a warning; else the options as they are. A name that no engine bears stays.
// What is left may be "native" alone; kEngine where that is not permitted (`strict`).
ProgramOptions without_missing_engines(ProgramOptions options);

// The list of engines, their options and the device. Throws kInvalidArgument for an engine that is
// listed twice, for "auto" behind another and for an option that an engine does not have; kNotFound
// or kEngine for an engine that cannot be had; kUnsupported for one that does not drive the device,
// where "native" may take what is left.
void check_engines(const ProgramOptions& options);

// The graph with these types of its inputs, after passes.
using Specialise =
    std::function<std::shared_ptr<const Graph>(const std::vector<std::optional<Type>>& types)>;

// Throws kUnsupported, listing them all, where no permitted engine takes some nodes, and where
// nothing of the graph would run on a device other than the CPU; kInvalidArgument for node_engines
// that cannot be. Where dimensions are open, only what is refused with the same words (but for the
// values' types) when they are and when they are not counts, tried with sizes of its own: a refusal
// that depends on sizes is left to the run that has them.
void check_runnable(const Graph& graph, const ProgramOptions& options,
                    const Specialise& specialise);

// Warnings for what the user named and the plan does not do: an engine that takes no node; nodes
// that run on "native" though it is not listed.
void tell_leftovers(const Explanation& plan, const ProgramOptions& options);

}  // namespace xrt
