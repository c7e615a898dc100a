// SPDX-License-Identifier: Apache-2.0
// Quantised convolutions and products: what is computed of dequantised bytes becomes a product of
// the bytes themselves, with sums in int32.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::cuda {

// Sums of products of x's bytes and a factor's · scale + bias, in float32. Inputs: x, int8 or
// uint8, [batch, channels, plane…] with the attributes of a Conv, or, without kernel_shape, [rows…,
// terms]; the factor, by column, with zeros up to a multiple of sixteen terms; by column scale and
// bias. Attributes: zero, the zero point of x, which is what windows see outside; padded, the
// channels of x in memory, of which further ones meet zeros in the factor; blocks: windows go over
// blocks of so many rows and columns, whose elements are the channels (row, column, channel);
// small: 1 where no sum can reach 2²².
inline constexpr std::size_t kScaleInput = 2, kBiasInput = 3;
inline constexpr std::string_view kIntegerOp = "xrt.cuda.IntegerProduct";

// Whether write_out_quantised() knows the node: QLinearConv and QLinearMatMul with constant
// parameters.
Support supports_quantised(const GraphView& graph, const NodeView& node);
// Writes such nodes out: dequantised, computed, quantised.
void write_out_quantised(xrt::Graph& graph);

// Makes kIntegerOp of convolutions without groups and of products with constant factors, and
// moves what only moves elements before the dequantising.
void fuse_quantised(xrt::Graph& graph);
// Where such a product's result becomes bytes again, its scale and bias come to be in steps of
// these, and so does what is added between. In a graph without unread nodes.
void fold_scales(xrt::Graph& graph);

}  // namespace xrt::cuda
