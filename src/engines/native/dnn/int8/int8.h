// SPDX-License-Identifier: Apache-2.0
// Convolutions and products on bytes, and what lies between them.
//
// A fused node (domain kDomain) that multiplies bytes has X of uint8 or int8, W of int8 with zero
// point 0, B of float32 with one number per output channel, and the attributes
//   factors (floats)   one per output channel
//   x_zero (int)       X's zero point
//   to (int)           the element type of Y: uint8, int8 or float32
// and makes, with c the channel,
//   t = factors[c] * sum((X - x_zero) * W) + B[c]
//   Y = post_ops(t), rounded to the nearest even integer and saturated where Y is of bytes.
// Where the run computes X's scale and zero point (MatMulInteger and ConvInteger behind a
// DynamicQuantizeLinear), the attributes
//   scale_input, zero_input (ints)   say which inputs hold them; absent: 1 and x_zero
// and t = scale * factors[c] * sum((X - zero) * W) + B[c].
// A product's W may have a zero point w_zero, too; then W - w_zero takes W's place.
// Sums are exact in 32 bits. Steps and zero point of Y are in factors, B and the post-ops, so that
// nothing follows but the rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engines/native/dnn/plan.h"
#include "xrt/graph.h"

namespace xrt::native::dnn {

struct Int8Terms {
  std::vector<float> factors;
  std::int32_t x_zero = 0;
  std::int32_t w_zero = 0;
  std::int64_t scale_input = -1;  // -1: none
  std::int64_t zero_input = -1;
  DType to = DType::kUInt8;

  // Nothing where the node is in floating point.
  static std::optional<Int8Terms> of(const Node& node);
  void write(Attributes& attributes) const;

  bool has_zero() const { return x_zero != 0 || zero_input >= 0; }
  // Makes `attributes` say that the arguments below are coming. `channel_mask`: of the weights.
  void declare(dnnl::primitive_attr& attributes, int channel_mask) const;
  // Factors, X's scale, zero points, as arguments of a primitive. `x`: X's element type.
  // From `slot` on: for PlanKernel::packed_vector(), three of them.
  using Pack = std::function<Operand(const Tensor&, std::size_t slot)>;
  std::vector<Plan::Argument> arguments(Plan& plan, DType x, const Pack& pack,
                                        std::size_t slot) const;
};

// Who computes exact 32-bit sums of products of bytes on this machine.
enum class ByteProducts : std::uint8_t {
  kNone,     // QuantizeLinear and DequantizeLinear are computed as they are written
  kTiles,    // dnn/int8/tiles.h, with AVX2
  kLibrary,  // oneDNN, with VNNI or AMX. Elsewhere it adds pairs in 16 bits, which saturate
};
ByteProducts byte_products();

// An implementation's name in profiles.
std::string int8_name(const char* implementation);

// What computes a node that is left as it is written.
enum class Instead : std::uint8_t {
  kFloats,     // a convolution in float32, between DequantizeLinear and QuantizeLinear
  kReference,  // plain loops on bytes
};
// Whether a fused Conv on bytes is worth while: the library has better than a reference loop for
// it, or the tiles multiply few bytes in vain. `x`: null where the run tells the shape.
bool int8_convolution_is_fast(const Node& fused, DType x_type, const Dims* x, const Tensor& w,
                              Instead instead);
bool tile_convolution_is_fast(const Node& fused, const Dims* x, const Tensor& w, Instead instead);
// The same of a product with `columns` columns, instead of floats.
bool int8_product_is_fast(std::int64_t columns);

}  // namespace xrt::native::dnn
