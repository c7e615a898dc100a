// SPDX-License-Identifier: Apache-2.0
// Indices that are out of range are an error, whoever runs the Gather or Scatter.
//
// Compilers do not look: XLA takes the nearest element or leaves a write out, OpenVINO takes a zero
// or memory that is not the tensor's. What a launch of theirs is given as indices is looked at
// before, and so are constants; what it computes itself is not.
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
  // Of the axes that the coordinates of an index name, in turn: from -size to size - 1.
  std::vector<std::int64_t> sizes;
  std::string node;     // "node 'embed' (Gather): index"
  std::string wrong{};  // not empty: a constant is out of range, and this is the message
};

// For the inputs that reach the indices of a Gather, GatherElements, GatherND, ScatterElements or
// ScatterND unchanged (through casts to wider types, reshapes and the like), where the sizes of the
// axes are known, and for constants that are out of range.
std::vector<IndexCheck> index_checks(const Graph& function);

// kInvalidArgument naming node and index. Tensors on a device are not looked at.
void check_indices(std::span<const IndexCheck> checks, std::span<const Data> inputs);

}  // namespace xrt
