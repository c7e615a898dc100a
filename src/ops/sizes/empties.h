// SPDX-License-Identifier: Apache-2.0
// Values without elements. Libraries divide by numbers of elements, take the first of none or keep
// memory of an earlier run: an engine that may end the process on such values (`crashes_on_values`
// in its manifest) gets no node that reads or makes one.
#pragma once

#include <optional>
#include <string>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// Why such an engine is not to have the node, where sizes are known: an operand or result has no
// elements, or has none before a Pad adds some. Nothing for a part of a Concat, for whoever asks
// only for sizes or a type, and for constants that are lists of axes, sizes and the like.
XRT_API std::optional<std::string> empties_refusal(const Graph& graph, const Node& node);

}  // namespace xrt
