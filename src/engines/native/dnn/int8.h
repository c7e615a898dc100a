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
// Sums are exact in 32 bits. Steps and zero point of Y are in factors, B and the post-ops, so that
// nothing follows but the rounding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "xrt/graph.h"

namespace xrt::native::dnn {

struct Int8Terms {
  std::vector<float> factors;
  std::int32_t x_zero = 0;
  DType to = DType::kUInt8;

  // Nothing where the node is in floating point.
  static std::optional<Int8Terms> of(const Node& node);
  void write(Attributes& attributes) const;
};

// Whether this machine multiplies bytes with exact 32-bit sums (VNNI, AMX). Older ones add pairs of
// products in 16 bits, which saturate: there QuantizeLinear and DequantizeLinear are computed as
// they are written.
bool multiplies_bytes();

// An implementation's name in profiles.
std::string int8_name(const char* implementation);

// Whether the library has better than a reference loop for a fused Conv on bytes.
bool int8_convolution_is_fast(const Node& fused, DType x_type, const Dims& x, const Dims& w);

}  // namespace xrt::native::dnn
