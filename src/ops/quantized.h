// SPDX-License-Identifier: Apache-2.0
// What DequantizeLinear and QuantizeLinear around an op say: which bytes its operands and its
// result stand for. The quantiser, the native engine and the lite compiler read it here; what they
// make of it is what their kernels can do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// uint8 or int8.
inline bool is_byte(DType dtype) { return dtype == DType::kUInt8 || dtype == DType::kInt8; }

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
XRT_API std::optional<Grid> grid_of(const Graph& graph, ValueId q, ValueId scale, ValueId zero,
                                    DType bytes);

// What a DequantizeLinear of bytes, constant ones too, makes `value` of.
XRT_API std::optional<Grid> grid_behind(const Graph& graph, ValueId value);
// The same of bytes that are no constant.
XRT_API std::optional<Grid> dequantised_from(const Graph& graph, ValueId value);

// What a QuantizeLinear of float32 makes; nothing for another node.
XRT_API std::optional<Grid> grid_made(const Graph& graph, const Node& node);
// What every reader of `value` quantises it to. `q` is the output of the first of them; nothing
// where a reader is another op, or the steps differ.
XRT_API std::optional<Grid> quantised_to(const Graph& graph, ValueId value);

// Whether the op moves, selects or repeats elements of its first input and makes no others, so that
// op(DQ(x)) = DQ(op(x)) for one scale. Concat, which has several inputs, is not asked here.
XRT_API bool moves_bytes(const Node& node);

// The float32 numbers that a DequantizeLinear of constants stands for. An undefined tensor where
// the node is none that this file knows: other types, scales that do not fit.
XRT_API Tensor dequantized(const Graph& graph, const Node& node);
// The numbers of a constant, or of a DequantizeLinear of constants; an undefined tensor for
// another value.
XRT_API Tensor constant_numbers(const Graph& graph, ValueId value);

// Bytes less their zero point, one for all or one per index of `axis`; nothing for other types or
// shapes.
XRT_API std::optional<std::vector<std::int16_t>> centred(const Tensor& bytes, const Tensor* zero,
                                                         std::size_t axis);
// The same as int8; nothing, too, where a difference does not fit.
XRT_API std::optional<Tensor> centred_bytes(const Tensor& bytes, const Tensor* zero,
                                            std::size_t axis);

// Constant weights: int8 numbers with zero point 0, and a scale per index of an axis.
struct ByteWeights {
  Tensor bytes;
  std::vector<float> scales;
};
XRT_API std::optional<ByteWeights> byte_weights(const Graph& graph, ValueId bytes, ValueId scales,
                                                ValueId zeros, std::size_t axis);

// A float32 constant, or a dequantised one, that adds one number to each of `channels`, or one to
// all. Nothing for another value or shape; zeros for one left out.
XRT_API std::optional<std::vector<double>> channel_terms(const Graph& graph, ValueId value,
                                                         std::int64_t channels);

// Conv, Gemm or MatMul of bytes with constant weights, in the units of the model.
struct QuantisedSum {
  Grid from;
  ByteWeights weights;       // Gemm's alpha is in the scales
  std::size_t axis = 0;      // of the weights: their output channels
  std::vector<double> bias;  // one per channel; Gemm's beta is in it
};
// Nothing for another node, weights that are not one matrix (Gemm, MatMul), or transA.
XRT_API std::optional<QuantisedSum> quantised_sum(const Graph& graph, const Node& node);

// What one integer kernel computes behind a sum of products, so that no value in between is
// quantised: Add of a bias or a residual, then Relu or Clip. Each value in between has one reader.
struct SumChain {
  ValueId end;                       // what the chain makes
  const Node* add = nullptr;         // of one of the next two
  ValueId bias;                      // a float32 constant of rank 1, behind a MatMul
  ValueId residual;                  // float32 of the sum's shape
  const Node* activation = nullptr;  // a Clip has constant bounds
};
XRT_API SumChain chain_behind(const Graph& graph, const Node& sum);

}  // namespace xrt
