// SPDX-License-Identifier: Apache-2.0
// How much work a node is, from types and attributes alone: arithmetic and bytes moved. Placement
// turns this into estimated times; it never replaces measuring.
#pragma once

#include <cstdint>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

enum class WorkKind : std::uint8_t {
  kConvolution,  // Conv, ConvTranspose and their quantised forms
  kDepthwise,    // convolutions with as many groups as input channels
  kMatrix,       // MatMul, Gemm, Attention, recurrent cells
  kElements,     // everything that is bound by memory, and pools
};

struct NodeWork {
  WorkKind kind = WorkKind::kElements;
  double operations = 0;  // multiplications and additions, each counted
  double bytes = 0;       // read and written, constants included
  bool quantised =
      false;  // a heavy op on 8-bit numbers, or on two operands that DequantizeLinear made of them
};

// Unknown dimensions count as 1. Work of sub-graphs is that of one pass over each body.
XRT_API NodeWork node_work(const Graph& graph, NodeId id);

// Bytes of a value; unknown dimensions count as 1, values that are no tensors as 0.
XRT_API std::size_t value_bytes(const Graph& graph, ValueId id);

}  // namespace xrt
