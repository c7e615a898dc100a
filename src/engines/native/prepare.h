// SPDX-License-Identifier: Apache-2.0
// Brings a copied function into the form that kernels are made from.
#pragma once

#include <string>
#include <vector>

#include "engines/native/kernel.h"

namespace xrt::native {

// Replaces every node that has no kernel by its function body, where the standard gives one, and
// fuses what the registry can compute at once. Returns what people may want to know about it.
std::vector<std::string> prepare_graph(Graph& graph, const KernelRegistry& registry,
                                       const CompileOptions& options,
                                       std::span<const InputOutputAlias> aliases = {});

// Whether the node has a kernel, or a function body all of whose nodes are supported, and whether
// the same holds for the bodies of its sub-graphs.
Support supports_node(const Graph& graph, NodeId id, const KernelRegistry& registry);

}  // namespace xrt::native
