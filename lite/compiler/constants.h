// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "xrt/graph.h"

namespace xrt::lite {

// ConstantOfShape nodes of constant shapes become constants of whatever size: a file holds all its
// weights, while the standard passes keep those small that would make a program large. True if the
// graph changed. Throws kResource beyond 2^31 elements.
bool fill_constants(Graph& graph);

}  // namespace xrt::lite
