// SPDX-License-Identifier: Apache-2.0
// What is to be quantised in a graph: the sums of products, and the values that get a scale.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "xrt/quantize.h"

namespace xrt::quantization {

// In steps of a bias: an int32 sum of products has room beside it.
inline constexpr double kLargestBias = 1 << 30;

struct Scheme {
  // Conv, Gemm and MatMul nodes by constant weights, and what rules ask for besides: ConvTranspose,
  // products of two activations, others that read quantised values. In topological order.
  std::vector<NodeId> nodes;
  std::vector<NodeId> sums;            // those of them that have constant weights
  std::size_t readers = 0;             // those of them that are no sums of products
  std::size_t kept = 0;                // Conv, Gemm and MatMul nodes that stay in floating point
  std::vector<std::string> too_small;  // names of those that do for their weights
  std::vector<ValueId> values;
  std::vector<Activations> forms;                  // of each value; the same for all of a group
  std::vector<std::optional<Clipping>> clippings;  // of each value, where a rule says it
  // Of each value: values of one group share scale and zero point, so that what moves between
  // them may stay in integers.
  std::vector<std::size_t> groups;
};

// Names of the nodes that can be quantised but are not, in topological order.
std::vector<std::string> kept_names(const Graph& graph, const QuantizeOptions& options);

// The axis of a sum's constant weights whose indices are output channels.
std::size_t output_axis(const Node& sum);
// The axis of what a sum reads whose indices are channels.
std::size_t channel_axis(const Node& sum, std::size_t rank);

Scheme make_scheme(const Graph& graph, const QuantizeOptions& options);

}  // namespace xrt::quantization
