// SPDX-License-Identifier: Apache-2.0
// What the rules of control flow share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "autodiff/rule.h"

namespace xrt::autodiff {

// The sub-graph of that name; kUnsupported where the node has none. It lives as long as r.node.
const Graph& body_of(const Rule& r, std::string_view name);

// The body's nodes for iteration i, with these inputs; its outputs.
std::vector<Var> iterate(Rule& r, const Graph& body, const std::vector<Var>& inputs,
                         std::int64_t i);

// `outer`, a value of the graph around, within the body.
ValueId captured(Graph& body, ValueId outer, const Graph& around);

}  // namespace xrt::autodiff
