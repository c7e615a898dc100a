// SPDX-License-Identifier: Apache-2.0
// Folds each cluster of a partition into a function and puts one launch node in its place.
//
// The result is a graph of `xrt.Launch` nodes: inputs and outputs are the values that cross
// clusters, attribute "function" holds the cluster as a graph of its own (entry parameters in
// order of first use, return parameters in order of production, constants inside), "engine" and
// "name" say who runs it. It prints and reads back like any graph.
#pragma once

#include <string>
#include <vector>

#include "partition/partition.h"
#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

inline constexpr const char* kLaunchOp = "Launch";
inline constexpr const char* kXrtDomain = "xrt";

// `engines` are the names that Cluster::engine indexes.
XRT_API Graph fold(const Graph& graph, const Partition& partition,
                   const std::vector<std::string>& engines);

}  // namespace xrt
