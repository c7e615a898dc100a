// SPDX-License-Identifier: Apache-2.0
// Scale of a block: the one that reaches its largest number wastes steps on it; a smaller one clips
// it and has finer steps for all others. Some are tried, each is then fitted to the steps that it
// gives by least squares, and the one with the least squared error is taken.
#include "quantize/weight_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "quantize/weights.h"

namespace xrt::quantization {
namespace {

constexpr int kTries = 16;
constexpr float kLeastPart = 0.6F;  // of the block's, for the smallest scale tried

// To the nearest even integer, of numbers below 2^22.
inline float rounded(float x) {
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23
  return (x + kMagic) - kMagic;
}

struct Steps {
  float low, high;  // numbers that the type holds
};

struct BlockScale {
  float scale = 1;
  float zero = 0;
};

float as_stored(float scale, DType dtype) {
  if (dtype != DType::kFloat16) return scale;
  const float half = half_to_float(float_to_half(scale));
  return half > 0 ? half : half_to_float(1);  // the least of all
}

inline float step_of(float w, float inverse, float zero, Steps steps) {
  return std::min(std::max(rounded(w * inverse) + zero, steps.low), steps.high);
}

double squared_error(const float* w, std::int64_t n, BlockScale s, Steps steps) {
  const float inverse = 1 / s.scale;
  float error = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float d = w[i] - (step_of(w[i], inverse, s.zero, steps) - s.zero) * s.scale;
    error += d * d;
  }
  return error;
}

// The scale with the least squared error for the steps that `s` gives.
float fitted(const float* w, std::int64_t n, BlockScale s, Steps steps) {
  const float inverse = 1 / s.scale;
  float product = 0, square = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float q = step_of(w[i], inverse, s.zero, steps) - s.zero;
    product += w[i] * q;
    square += q * q;
  }
  return square > 0 && product > 0 ? product / square : s.scale;
}

// The scale and zero point that reach `part` of the range of a block.
BlockScale reaching(float low, float high, float part, bool symmetric, Steps steps) {
  BlockScale s;
  if (symmetric) {
    s.scale = std::max(-low, high) * part / steps.high;
    return s;
  }
  s.scale = (high - low) * part / (steps.high - steps.low);
  s.zero = std::clamp(rounded(std::min(-low * part / s.scale, 255.0F)), steps.low, steps.high);
  return s;
}

BlockScale scale_of(const float* w, std::int64_t n, const BlockForm& form, Steps steps,
                    DType dtype) {
  float low = 0, high = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    low = std::min(low, w[i]);
    high = std::max(high, w[i]);
  }
  if (high - low < kLeastRange) return {};
  BlockScale best = reaching(low, high, 1, form.symmetric, steps);
  best.scale = as_stored(best.scale, dtype);
  if (!form.search) return best;
  double least = squared_error(w, n, best, steps);
  for (int i = 0; i < kTries; ++i) {
    const float part = 1 - (1 - kLeastPart) * static_cast<float>(i) / kTries;
    BlockScale s = reaching(low, high, part, form.symmetric, steps);
    if (s.scale < kLeastRange / steps.high) break;
    s.scale = as_stored(fitted(w, n, s, steps), dtype);
    const double error = squared_error(w, n, s, steps);
    if (error < least) {
      least = error;
      best = s;
    }
  }
  return best;
}

DType number_type(const BlockForm& form) {
  if (form.bits == 4) return form.symmetric ? DType::kInt4 : DType::kUInt4;
  return form.symmetric ? DType::kInt8 : DType::kUInt8;
}

void store(const Tensor& t, std::int64_t i, int number) {
  auto* bytes = static_cast<std::uint8_t*>(const_cast<void*>(t.raw()));
  if (bit_width(t.dtype()) == 8) {
    bytes[i] = static_cast<std::uint8_t>(number);
  } else {
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | (number & 15) << (i % 2 * 4));
  }
}

Tensor zeroed(DType dtype, Dims dims) {
  Tensor t = Tensor::allocate(dtype, std::move(dims));
  std::memset(t.raw(), 0, t.bytes());
  return t;
}

}  // namespace

std::vector<float> matrix_numbers(const Tensor& matrix) {
  std::vector<float> numbers(static_cast<std::size_t>(matrix.count()));
  if (matrix.dtype() == DType::kFloat32) {
    std::copy_n(matrix.data<float>(), numbers.size(), numbers.data());
  } else {
    const auto* halves = static_cast<const std::uint16_t*>(matrix.raw());
    std::transform(halves, halves + numbers.size(), numbers.data(), half_to_float);
  }
  return numbers;
}

QuantisedBlocks quantise_blocks(const Tensor& matrix, const std::vector<float>& numbers,
                                std::size_t axis, const BlockForm& form) {
  const std::int64_t depth = matrix.dims()[axis];
  const std::int64_t lines = matrix.dims()[1 - axis];
  const bool whole = form.block == 0 || form.block >= depth;
  const std::int64_t block = whole ? depth : form.block;
  const std::int64_t blocks = (depth + block - 1) / block;
  const auto levels = static_cast<float>(1 << form.bits);
  const Steps steps = form.symmetric ? Steps{1 - levels / 2, levels / 2 - 1} : Steps{0, levels - 1};
  Dims dims = matrix.dims();
  dims[axis] = blocks;
  if (whole) dims = {lines};
  QuantisedBlocks result;
  result.numbers = zeroed(number_type(form), matrix.dims());
  result.scales = Tensor::allocate(matrix.dtype(), dims);
  if (!form.symmetric) result.zeros = zeroed(number_type(form), dims);
  const std::int64_t step = axis == 0 ? lines : 1;  // between numbers of a line
  const std::int64_t next = axis == 0 ? 1 : depth;  // between lines
  std::vector<float> w(static_cast<std::size_t>(block));
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t first = line * next + b * block * step;
      const std::int64_t count = std::min(block, depth - b * block);
      for (std::int64_t i = 0; i < count; ++i) {
        w[static_cast<std::size_t>(i)] = numbers[static_cast<std::size_t>(first + i * step)];
      }
      const BlockScale s = scale_of(w.data(), count, form, steps, matrix.dtype());
      const std::int64_t at = whole ? line : axis == 0 ? b * lines + line : line * blocks + b;
      if (matrix.dtype() == DType::kFloat32) {
        result.scales.data<float>()[at] = s.scale;
      } else {
        static_cast<std::uint16_t*>(result.scales.raw())[at] = float_to_half(s.scale);
      }
      if (!form.symmetric) store(result.zeros, at, static_cast<int>(s.zero));
      const float inverse = 1 / s.scale;
      for (std::int64_t i = 0; i < count; ++i) {
        const float value = w[static_cast<std::size_t>(i)];
        const float q = step_of(value, inverse, s.zero, steps);
        store(result.numbers, first + i * step, static_cast<int>(q));
        const double lost = value - (q - s.zero) * s.scale;
        result.signal += double{value} * value;
        result.noise += lost * lost;
      }
    }
  }
  return result;
}

}  // namespace xrt::quantization
