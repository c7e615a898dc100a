// SPDX-License-Identifier: Apache-2.0
// Inner loops on float32, compiled for several instruction sets; the CPU decides at run time.
//
// vector_ops.inc holds the one source of them; vector_ops_<isa>.cc compiles it per set.
#pragma once

#include <cstdint>

namespace xrt::native {

enum class FoldKind : std::uint8_t { kSum, kProd, kMax, kMin, kAbs, kSquares };
enum class FoldType : std::uint8_t { kFloat32, kFloat64, kInt32, kInt64, kUInt64, kInt8, kUInt8 };

struct VectorOps {
  // y[i] = f(x[i]); alpha and beta as the op defines them, unused by most. y may be x.
  using Unary = void (*)(const float* x, float* y, std::int64_t n, float alpha, float beta);
  // y[i] = f(a[i], b[i]); a stride of 0 repeats element 0. y may be a or b.
  using Binary = void (*)(const float* a, std::int64_t a_stride, const float* b,
                          std::int64_t b_stride, float* y, std::int64_t n);

  Unary abs, neg, relu, leaky_relu, elu, celu, selu, sigmoid, hard_sigmoid, hard_swish, tanh, exp,
      log, sqrt, reciprocal, erf, gelu, gelu_tanh, silu, softplus, softsign, mish, clip, floor,
      ceil, round, thresholded_relu, square;
  Binary add, sub, mul, div, max, min, prelu;

  float (*sum)(const float* x, std::int64_t n);
  float (*sum_squares)(const float* x, std::int64_t n);
  float (*sum_squared_difference)(const float* x, std::int64_t n, float mean);
  float (*maximum)(const float* x, std::int64_t n);
  float (*minimum)(const float* x, std::int64_t n);
  // y[i] = max over j of rows[j][i], of one row at least; a NaN is the largest.
  void (*max_rows)(const float* const* rows, std::int64_t count, float* y, std::int64_t n);
  // y[i] = max(y[i], x[i * stride]); a NaN is the largest.
  void (*max_every)(const float* x, std::int64_t stride, float* y, std::int64_t n);
  float (*dot)(const float* a, const float* b, std::int64_t n);
  // y[i] = exp(x[i] - shift) of x[i] <= shift; returns the sum of y, which may be x.
  float (*exp_shifted)(const float* x, float* y, std::int64_t n, float shift);
  // y[o] = the softmax of x[o], of `outer` rows of n elements, 16 at least. y may be x.
  void (*softmax_rows)(const float* x, float* y, std::int64_t outer, std::int64_t n);
  // y[i] = x[i] * scale + shift
  void (*scale_shift)(const float* x, float* y, std::int64_t n, float scale, float shift);
  // y[i] += a * x[i]
  void (*axpy)(float a, const float* x, float* y, std::int64_t n);
  // y[i] = (x[i] - mean) * scale * gamma[i] + beta[i]; gamma and beta may be null (1 and 0).
  void (*normalize)(const float* x, float* y, std::int64_t n, float mean, float scale,
                    const float* gamma, const float* beta);
  // y[i] = round(x[i] / scale) + zero, to the nearest even and saturated to the bytes' range.
  void (*quantize_u8)(const float* x, std::uint8_t* y, std::int64_t n, float scale, float zero);
  void (*quantize_s8)(const float* x, std::int8_t* y, std::int64_t n, float scale, float zero);
  // y[i] = (x[i] - zero) * scale
  void (*dequantize_u8)(const std::uint8_t* x, float* y, std::int64_t n, float scale,
                        std::int32_t zero);
  void (*dequantize_s8)(const std::int8_t* x, float* y, std::int64_t n, float scale,
                        std::int32_t zero);
  // y[i] = round(a[i] * a_scale + b[i] * b_scale + shift), to the nearest even, within low … high,
  // which fit into the bytes of y. Of uint8 or int8: [a is signed][b is signed].
  struct AddBytes {
    float a_scale, b_scale, shift, low, high;
  };
  void (*add_bytes[2][2])(const void* a, const void* b, void* y, std::int64_t n,
                          const AddBytes& how);
  // y[i] = round((a[i] - a_zero) * (b[i] - b_zero) * scale + shift), likewise.
  struct MulBytes {
    std::int32_t a_zero, b_zero;
    float scale, shift, low, high;
  };
  void (*mul_bytes[2][2])(const void* a, const void* b, void* y, std::int64_t n,
                          const MulBytes& how);
  // y[i] = table[x[i]]; y may be x. `table` has 256 bytes.
  void (*lookup)(const std::uint8_t* table, const std::uint8_t* x, std::uint8_t* y, std::int64_t n);
  // sums[i] += rows[0][i] + … + rows[count - 1][i], of uint8 and int8.
  void (*accumulate_bytes[2])(const void* const* rows, std::int64_t count, std::int32_t* sums,
                              std::int64_t n);
  // y[i] = round(sums[i] * scale + shift), to the nearest even, within low … high, which fit into
  // the bytes of y.
  void (*round_sums)(const std::int32_t* sums, void* y, std::int64_t n, float scale, float shift,
                     float low, float high);
  // y[r * y_step + c] = x[c * x_step + r], of elements of 1, 2 and 4 bytes.
  void (*transpose[3])(const void* x, std::int64_t x_step, void* y, std::int64_t y_step,
                       std::int64_t rows, std::int64_t columns);
  // One row of a convolution over an image of few channels: y[p][c] = the sum over lines l and
  // k < width of x[l][p * stride + k] * weights[l][k][c], and bias[c], within low … high.
  struct ImageRow {
    const float* const* x;  // a row of the image per line: one per channel and row of the window
    std::int64_t lines, width, stride;
    const float* weights;
    const float* bias;
    std::int64_t channels;  // a multiple of 16
    std::int64_t pixels;
    float low, high;
    float* y;
  };
  void (*image_row)(const ImageRow& row);
  // y[o][j] = what x[o][i][j] adds up to over all i < n, where x[o][i] begins (o * n + i) * step
  // elements after x and has `inner`, no more than `step`. By [FoldKind][FoldType]; null where
  // there is none. Sums and products of integers are uint64, all else has the type of x.
  using Fold = void (*)(const void* x, std::int64_t outer, std::int64_t n, std::int64_t inner,
                        std::int64_t step, void* y);
  Fold fold[6][7];
  // y[o][i][j] = x[o][i][j] - s[o][j], or times it; y may be x.
  using Spread = void (*)(const float* x, const float* s, float* y, std::int64_t outer,
                          std::int64_t n, std::int64_t inner);
  Spread spread_sub, spread_mul;
  // y[o][j] = the i of the smallest or [largest] of x[o][i][j], the first or [last] of equals. A
  // NaN is both. n is less than 2^31.
  void (*arg[2][2])(const float* x, std::int64_t outer, std::int64_t n, std::int64_t inner,
                    std::int64_t step, std::int64_t* y);
  void (*half_to_float)(const std::uint16_t* x, float* y, std::int64_t n);
  void (*float_to_half)(const float* x, std::uint16_t* y, std::int64_t n);
  void (*bfloat16_to_float)(const std::uint16_t* x, float* y, std::int64_t n);
  void (*float_to_bfloat16)(const float* x, std::uint16_t* y, std::int64_t n);
};

// Of the widest instruction set that this CPU has.
const VectorOps& vector_ops();

}  // namespace xrt::native
