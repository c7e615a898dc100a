// SPDX-License-Identifier: Apache-2.0
#include "quantize/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/pattern.h"
#include "quantize/scheme.h"
#include "xrt/error.h"

namespace xrt::quantization {

bool all_vanish(std::span<const float> weights) {
  float largest = 0;
  for (const float w : weights) largest = std::max(largest, std::fabs(w));
  return largest > 0 && largest < kLeastRange;
}

AxisIndex::AxisIndex(const Dims& dims, std::size_t axis) : size_(dims[axis]) {
  for (std::size_t i = axis + 1; i < dims.size(); ++i) inner_ *= dims[i];
}

ByteFactors round_weights(const Tensor& weights, std::size_t axis, const std::vector<float>& least,
                          const std::string& label) {
  const AxisIndex index(weights.dims(), axis);
  const float* w = weights.data<float>();
  ByteFactors rounded{Tensor::allocate(DType::kInt8, weights.dims()), least};
  rounded.scales.resize(index.size(), 0);
  for (std::int64_t i = 0; i < weights.count(); ++i) {
    if (!std::isfinite(w[i])) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: a weight is not finite", label));
    }
    float& s = rounded.scales[index(i)];
    s = std::max(s, std::fabs(w[i]) / kLargestWeight);
  }
  for (float& s : rounded.scales) {
    if (s * kLargestWeight < kLeastRange) s = 1;
  }
  for (std::int64_t i = 0; i < weights.count(); ++i) {
    const float q = std::nearbyint(w[i] / rounded.scales[index(i)]);
    rounded.steps.data<std::int8_t>()[i] =
        static_cast<std::int8_t>(std::clamp(q, -kLargestWeight, kLargestWeight));
  }
  return rounded;
}

double decibels_of(const Tensor& weights, std::size_t axis, const ByteFactors& rounded) {
  const AxisIndex index(weights.dims(), axis);
  double signal = 0, noise = 0;
  for (std::int64_t i = 0; i < weights.count(); ++i) {
    const double w = weights.data<float>()[i];
    const double error = rounded.steps.data<std::int8_t>()[i] * rounded.scales[index(i)] - w;
    signal += w * w;
    noise += error * error;
  }
  if (noise == 0 || signal == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal / noise);
}

std::vector<double> mean_errors(const Node& sum, const Tensor& weights, const ByteFactors& rounded,
                                const std::vector<double>& means) {
  const std::size_t axis = output_axis(sum);
  const AxisIndex to(weights.dims(), axis), from(weights.dims(), 1 - axis);
  const std::size_t groups =
      is_op(sum, "Conv") ? static_cast<std::size_t>(sum.attr_int("group", 1)) : 1;
  if (groups == 0 || means.size() != from.size() * groups || to.size() % groups != 0) return {};
  std::vector<double> errors(to.size(), 0);
  for (std::int64_t i = 0; i < weights.count(); ++i) {
    const std::size_t channel = to(i);
    const double error = double{rounded.steps.data<std::int8_t>()[i] * rounded.scales[channel]} -
                         weights.data<float>()[i];
    const std::size_t group = channel / (to.size() / groups);
    errors[channel] += error * means[group * from.size() + from(i)];
  }
  return errors;
}

}  // namespace xrt::quantization
