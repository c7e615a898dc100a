// SPDX-License-Identifier: Apache-2.0
// Constant weights in steps: int8, symmetric, a scale per index of one axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "xrt/quantize.h"
#include "xrt/tensor.h"

namespace xrt::quantization {

inline constexpr float kLargestWeight = 127;  // -128 is not used: symmetric
// Of what a scale is for: products of scales stay normal numbers, and no engine takes them for 0.
// A channel, a block or a range of less is zeros.
inline constexpr float kLeastRange = 1e-30F;

// Whether such steps would make zeros of all weights, though not all are.
bool all_vanish(std::span<const float> weights);

struct ByteFactors {
  Tensor steps;               // int8 of the weights' shape, -127 to 127
  std::vector<float> scales;  // per index of the axis
};

// Which scale counts for an element: the index along `axis` of its place.
class AxisIndex {
 public:
  AxisIndex(const Dims& dims, std::size_t axis);
  std::size_t operator()(std::int64_t element) const {
    return static_cast<std::size_t>(element / inner_ % size_);
  }
  std::size_t size() const { return static_cast<std::size_t>(size_); }

 private:
  std::int64_t size_ = 1, inner_ = 1;
};

// `weights` are float32; a scale is at least `least` at its index (empty: 0). Throws
// kInvalidArgument, beginning with `label`, where a weight is not finite.
ByteFactors round_weights(const Tensor& weights, std::size_t axis, const std::vector<float>& least,
                          const std::string& label);

// Signal over noise of rounded weights, in decibels; infinity where they are exact.
double decibels_of(const Tensor& weights, std::size_t axis, const ByteFactors& rounded);

// What rounding the weights of a Conv, Gemm or MatMul adds to each output channel in the mean, by
// the mean of each channel that it reads; where padding is read it is less. Empty where there are
// not as many means as channels.
std::vector<double> mean_errors(const Node& sum, const Tensor& weights, const ByteFactors& rounded,
                                const std::vector<double>& means);

}  // namespace xrt::quantization
