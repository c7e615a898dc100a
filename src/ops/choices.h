// SPDX-License-Identifier: Apache-2.0
// Attributes that name or number one of a few ways.
#pragma once

#include "xrt/graph.h"

namespace xrt {

// Throws kInvalidModel for a node of the standard with a way that the standard does not know: type
// inference lets many pass, and libraries then choose one of their own.
void check_choices(const Node& node);

}  // namespace xrt
