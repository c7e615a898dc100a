// SPDX-License-Identifier: Apache-2.0
// Variables that a function updates in place.
#pragma once

#include <span>
#include <vector>

#include "ir/updates.h"
#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::native {

// What computes the new value of a variable from its gradient becomes one node (op "Update" of
// domain "xrt.native"), which goes through memory once.
void fuse_updates(Graph& graph, std::span<const InputOutputAlias> aliases);

std::vector<Update> updates_of(const Graph& graph, std::span<const InputOutputAlias> aliases);

}  // namespace xrt::native
