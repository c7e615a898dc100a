// SPDX-License-Identifier: Apache-2.0
// Attention: products of queries and keys, a softmax, and products with values. ONNX's op is
// written out in other ops; what is written out, in half precision or in float32 around operands of
// half precision, becomes one node where a library may compute it as a whole.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::cuda {

// softmax(scale · q kᵀ + mask) v, of half precision with sums in float32. Inputs: q [batch…, S, D],
// kᵀ [batch…, D, T], v [batch…, T, E], and perhaps a mask that broadcasts to [batch…, S, T].
// Attributes: scale; causal, where 1 hides keys behind the query's position.
inline constexpr std::string_view kAttentionOp = "xrt.cuda.Attention";

// Whether expand_attention() can write ONNX's op out.
Support supports_attention(const GraphView& graph, const NodeView& node);
// Writes ONNX's op out.
void expand_attention(xrt::Graph& graph);

// Makes one node of each attention, but for those whose node is in `unfused`.
void fuse_attention(xrt::Graph& graph, const std::set<std::string>& unfused);

// Of what is left: half(softmax(…) · float(v)) becomes half(softmax(…)) · v. The weights, which are
// between 0 and 1, are rounded once, as in kernels that compute attention as a whole.
void narrow_attention(xrt::Graph& graph);

// Queries, keys and values that are products of one value with constants, each read by one fused
// attention, become one product.
void join_projections(xrt::Graph& graph);

// Removes nodes and constants that nobody reads.
void remove_unread(xrt::Graph& graph);

}  // namespace xrt::cuda
