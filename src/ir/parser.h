// SPDX-License-Identifier: Apache-2.0
// The text form of a graph (printer.h) back to a Graph.
//
// print(parse_graph(print(g, exact)), exact) is print(g, exact). Types may be left out of node
// outputs; infer_shapes() finds them. Malformed text is kInvalidModel with its line.
#pragma once

#include <string_view>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

XRT_API Graph parse_graph(std::string_view text);

}  // namespace xrt
