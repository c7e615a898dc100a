// SPDX-License-Identifier: Apache-2.0
// Quantisation that needs no samples. The graph stays a standard ONNX graph.
//
//   const WeightSummary done = quantize_weights(graph, {.bits = 4, .block = 32});
//
// - quantize_weights(): constant weights of MatMul and Gemm and tables of Gather become numbers of
//   4 or 8 bits with a DequantizeLinear behind them. Everything is computed in floating point.
// - quantize_dynamic(): MatMul and Gemm by constant weights are computed on bytes: the run looks at
//   the range of the other factor (DynamicQuantizeLinear, MatMulInteger).
// - Constants must be folded, types known: run the standard passes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

struct WeightOptions {
  int bits = 4;  // or 8
  // Numbers along the axis that is summed over which share a scale; 0: all of a column, so that
  // there is one scale for each output channel, or row of a table.
  std::int64_t block = 32;
  // True: int4 or int8 around 0. False: uint4 or uint8 with a zero point for each scale.
  bool symmetric = false;
  // The scale with the least squared error; else the one that reaches the largest number.
  bool search = true;
  std::set<std::string> skip = {};     // names of nodes that stay in floating point
  std::int64_t least_elements = 4096;  // weights of fewer stay in floating point
};

struct WeightSummary {
  std::size_t products = 0;  // MatMul and Gemm nodes with quantised weights
  std::size_t tables = 0;    // Gather nodes
  std::size_t kept = 0;      // of those that have constant floating-point weights
  std::size_t bytes_before = 0, bytes_after = 0;  // of the weights that were quantised
  double decibels = 0;  // signal over noise of the worst of these weights; 0 without any
  std::vector<std::string> too_small = {};  // nodes of `kept` by weights less than 1e-30
};

// Weights are matrices of float32 or float16; a table is gathered from at axis 0. Throws
// kInvalidArgument for other bits, for a block that is negative or below 16 or no power of two, and
// for a weight that is not finite, naming its node.
XRT_API WeightSummary quantize_weights(Graph& graph, const WeightOptions& options);

struct DynamicOptions {
  std::set<std::string> skip = {};     // names of nodes that stay in floating point
  std::int64_t least_elements = 4096;  // weights of fewer stay in floating point
};

struct DynamicSummary {
  std::size_t products = 0;                 // nodes that became MatMulInteger
  std::size_t kept = 0;                     // of those that have constant float32 weights
  std::vector<std::string> too_small = {};  // of `kept`: see WeightSummary
};

// Weights: int8, symmetric, a scale per output channel. The other factor: uint8, one scale for all
// of it, once for all products that read it. Throws kInvalidArgument for a weight that is not
// finite, naming its node.
XRT_API DynamicSummary quantize_dynamic(Graph& graph, const DynamicOptions& options);

}  // namespace xrt
