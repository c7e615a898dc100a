// SPDX-License-Identifier: Apache-2.0
// Brings the graph of a function to half precision, for engines that compute in the types of the
// graph. Its inputs and outputs stay as they are.
//
// Products, convolutions and attention read operands that are rounded, and give half precision;
// what moves elements, and sums, products and maxima of elements, stay in half precision where all
// they read is; everything else is computed in float32 (ops/op_facts.h: narrowing()). Constants are
// rounded once. A node stays in float32 where a constant that it reads would become infinite, or a
// single number zero; where it reads what DequantizeLinear gives, for engines compute that on
// bytes.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "xrt/dtype.h"
#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

struct NarrowedGraph {
  Graph graph;
  std::size_t nodes = 0;  // that compute in half precision
  // Of products that stay in float32 because a constant does not fit: "node 'conv': 'w' holds 1e5".
  std::vector<std::string> overflows;
};

// `half`: kFloat16 or kBFloat16. Nodes named in `keep` stay in float32.
XRT_API NarrowedGraph narrow_floats(const Graph& graph, DType half,
                                    const std::set<std::string>& keep = {});

}  // namespace xrt
