// SPDX-License-Identifier: Apache-2.0
// Indices that are out of range are an error, whoever runs the Gather.
//
// Compilers do not look: XLA takes the nearest element, OpenVINO a zero. What a launch of theirs is
// given as indices is looked at before; what it computes itself is not.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

struct IndexCheck {
  std::size_t input = 0;  // of the function
  std::int64_t size = 0;  // indices are from -size to size - 1
  std::string node;       // "node 'embed' (Gather): index"
};

// For the inputs that reach the indices of a Gather or GatherElements unchanged (through casts to
// wider types, reshapes and the like), where the size of its axis is known.
std::vector<IndexCheck> index_checks(const Graph& function);

// kInvalidArgument naming node and index. Tensors on a device are not looked at.
void check_indices(std::span<const IndexCheck> checks, std::span<const Data> inputs);

}  // namespace xrt
