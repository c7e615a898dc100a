// SPDX-License-Identifier: Apache-2.0
// A digest of all that decides what a graph computes: wiring, ops, attributes, types, constants and
// the names of its inputs and outputs. Names of nodes and inner values do not count.
#pragma once

#include "base/hash.h"
#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

XRT_API Digest fingerprint(const Graph& graph);

}  // namespace xrt
