// SPDX-License-Identifier: Apache-2.0
// What QuantizeLinear and DequantizeLinear around a value say, for fusion.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "xrt/graph.h"

namespace xrt::native::dnn {

// Bytes `q` that stand for (q - zero) * scale: one scale for the whole tensor.
struct Grid {
  ValueId q;
  float scale = 1;
  std::int32_t zero = 0;
  DType dtype = DType::kUInt8;

  float low() const { return dtype == DType::kUInt8 ? 0.0F : -128.0F; }
  float high() const { return dtype == DType::kUInt8 ? 255.0F : 127.0F; }
  bool same_steps(const Grid& other) const {
    return scale == other.scale && zero == other.zero && dtype == other.dtype;
  }
};

// The bytes `q` with a constant scale above 0 and zero point (left out: 0), one of each.
std::optional<Grid> grid_of(const Graph& graph, ValueId q, ValueId scale, ValueId zero,
                            DType bytes);

// What `value` was dequantised from: a DequantizeLinear of bytes that are no constant.
std::optional<Grid> dequantised_from(const Graph& graph, ValueId value);

// What every reader of `value` quantises it to. `q` is the output of the first of them; nothing
// where a reader is another op, or the steps differ.
std::optional<Grid> quantised_to(const Graph& graph, ValueId value);

// Every output of the QuantizeLinear nodes that read `value` becomes `bytes`.
void replace_quantised(Graph& graph, ValueId value, ValueId bytes);

// Bytes less their zero point, one for all or one per index of `axis`, as int8; nothing where a
// difference does not fit.
std::optional<Tensor> centred_bytes(const Tensor& bytes, const Tensor* zero, std::size_t axis);

// Constant weights: int8 numbers with zero point 0, and a scale per index of an axis.
struct ByteWeights {
  Tensor bytes;
  std::vector<float> scales;
};
// `value`: what a DequantizeLinear makes.
std::optional<ByteWeights> byte_weights(const Graph& graph, ValueId value, std::size_t axis);
std::optional<ByteWeights> byte_weights(const Graph& graph, ValueId bytes, ValueId scales,
                                        ValueId zeros, std::size_t axis);

// Whether a convolution pads, or may.
bool has_padding(const Node& node);

// The numbers of a float32 constant or of a dequantised one, one per channel; nothing for another
// value or shape. `value` left out: zeros.
std::optional<std::vector<double>> channel_terms(const Graph& graph, ValueId value,
                                                 std::int64_t channels);

}  // namespace xrt::native::dnn
