// SPDX-License-Identifier: Apache-2.0
// The x86 driver's kernels against plain loops over their definition (lite/runtime/src/kernel.h),
// for both instruction sets: float32 within rounding, int8 exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "drivers/x86/x86.h"
}

namespace {

using Bytes = std::vector<std::uint8_t>;

std::mt19937 generator(7);

int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); }

template <typename T>
std::vector<T> noise(std::size_t count) {
  std::vector<T> out(count);
  for (T& v : out) {
    if constexpr (std::is_same_v<T, float>) {
      v = std::uniform_real_distribution<float>(-1.0F, 1.0F)(generator);
    } else {
      v = static_cast<T>(pick(std::is_signed_v<T> ? -128 : 0, std::is_signed_v<T> ? 127 : 255));
    }
  }
  return out;
}

// Tasks in the wrong order: nothing may depend on it.
void run_backwards(void*, void (*task)(void*, std::int32_t), void* argument, std::int32_t count) {
  for (std::int32_t i = count - 1; i >= 0; --i) task(argument, i);
}

void call(const char* isa, int kernel, const void* params, std::vector<const void*> operands) {
  const xrt_lite_kernel* table = xrt_x86_kernels(isa);
  const xrt_lite_threads threads{run_backwards, nullptr, 3};
  const xrt_kernel_call arguments{params, const_cast<void* const*>(operands.data()), nullptr,
                                  pick(0, 1) != 0 ? &threads : nullptr};
  ASSERT_EQ(table[kernel](&arguments), XRT_LITE_OK);
}

// [group][N][K] to [group][blocks][K / pack_k][16][pack_k].
template <typename T>
std::vector<T> packed(const std::vector<T>& w, int groups, int n, int k, int pack_k) {
  const int blocks = (n + 15) / 16;
  const int parts = (k + pack_k - 1) / pack_k;
  std::vector<T> out(static_cast<std::size_t>(groups) * blocks * parts * 16 * pack_k);
  for (int g = 0; g < groups; ++g) {
    for (int c = 0; c < n; ++c) {
      for (int i = 0; i < k; ++i) {
        const std::size_t at =
            (((static_cast<std::size_t>(g) * blocks + c / 16) * parts + i / pack_k) * 16 + c % 16) *
                pack_k +
            i % pack_k;
        out[at] = w[(static_cast<std::size_t>(g) * n + c) * k + i];
      }
    }
  }
  return out;
}

std::int32_t byte_value(std::uint8_t byte, int dtype) {
  return dtype == XRT_LITE_U8 ? byte : static_cast<std::int8_t>(byte);
}

// The contract's formula, each operation rounded on its own.
std::uint8_t requantized(std::int32_t sum, float scale, const std::uint8_t* residual, int r_dtype,
                         int r_zero, float r_scale, bool clip, float lo, float hi, int y_zero,
                         int y_dtype) {
  volatile float product = static_cast<float>(sum) * scale;  // never fused with what follows
  float v = product;
  if (residual != nullptr) {
    volatile float other = static_cast<float>(byte_value(*residual, r_dtype) - r_zero) * r_scale;
    v = v + other;
  }
  if (clip) v = std::min(std::max(v, lo), hi);
  const float bounded = std::min(std::max(v, -1024.0F), 1024.0F);
  const int q = static_cast<int>(std::nearbyint(bounded)) + y_zero;
  return y_dtype == XRT_LITE_U8 ? static_cast<std::uint8_t>(std::clamp(q, 0, 255))
                                : static_cast<std::uint8_t>(std::clamp(q, -128, 127));
}

xrt_k_conv random_conv(bool q8, bool depthwise) {
  xrt_k_conv p{};
  p.n = pick(1, 2);
  p.kh = pick(1, 5);
  p.kw = depthwise && pick(0, 1) != 0 ? p.kh : pick(1, 5);
  p.stride_h = pick(1, 2);
  p.stride_w = pick(1, 3);
  p.dilation_h = pick(1, 2);
  p.dilation_w = pick(1, 2);
  const bool common = depthwise && q8 && pick(0, 1) != 0;  // a window with kernels of its own
  if (common) {
    p.kw = 3;
    p.stride_w = pick(1, 2);
    p.dilation_h = p.dilation_w = 1;
  }
  p.pad_top = pick(0, 3);
  p.pad_left = pick(0, 3);
  p.ih = pick(1, 13);
  p.iw = pick(1, 17);
  p.oh = std::max(1, (p.ih + 2 * p.pad_top - (p.kh - 1) * p.dilation_h - 1) / p.stride_h + 1);
  p.ow = std::max(1, (p.iw + 2 * p.pad_left - (p.kw - 1) * p.dilation_w - 1) / p.stride_w + 1);
  p.groups = pick(0, 2) == 0 ? pick(2, 3) : 1;
  p.ic = p.groups * (pick(0, 1) != 0 ? 4 * pick(1, 10) : pick(1, 40));
  p.oc = p.groups * pick(1, 150);
  if (depthwise) p.groups = p.oc = p.ic = pick(1, 150);
  if (pick(0, 9) == 0 && !depthwise) p.ic = p.groups * 1100;  // longer than any buffer
  p.x_pitch = p.ic + pick(0, 3);
  p.y_pitch = p.oc + pick(0, 3);
  p.r_pitch = p.oc + pick(0, 3);
  p.pack_n = 16;
  p.pack_k = q8 ? 4 : 1;
  p.weight_dtype = q8 ? XRT_LITE_I8 : XRT_LITE_F32;
  p.flags = pick(0, common ? 1 : 3);
  p.activation = pick(0, 1);
  p.lo = q8 ? -20.0F : -0.5F;
  p.hi = q8 ? 90.0F : 1.5F;
  const auto type = [&] { return pick(0, 1) != 0 ? XRT_LITE_U8 : XRT_LITE_I8; };
  p.x_dtype = q8 ? type() : XRT_LITE_F32;
  p.y_dtype = q8 ? type() : XRT_LITE_F32;
  p.r_dtype = q8 ? type() : XRT_LITE_F32;
  p.x_zero = p.x_dtype == XRT_LITE_U8 ? pick(0, 255) : pick(-128, 127);
  p.y_zero = p.y_dtype == XRT_LITE_U8 ? pick(0, 255) : pick(-128, 127);
  p.r_zero = p.r_dtype == XRT_LITE_U8 ? pick(0, 255) : pick(-128, 127);
  p.r_scale = 0.37F;
  return p;
}

// Calls visit(pixel, channel, sum) where sum is over the taps of mul(x index, w index of [oc][k]).
template <typename Sum, typename Mul, typename Visit>
void each_output(const xrt_k_conv& p, Mul mul, Visit visit) {
  const int icg = p.ic / p.groups;
  const int ocg = p.oc / p.groups;
  for (int n = 0; n < p.n; ++n) {
    for (int oy = 0; oy < p.oh; ++oy) {
      for (int ox = 0; ox < p.ow; ++ox) {
        for (int c = 0; c < p.oc; ++c) {
          Sum sum = 0;
          for (int ky = 0; ky < p.kh; ++ky) {
            for (int kx = 0; kx < p.kw; ++kx) {
              const int iy = oy * p.stride_h - p.pad_top + ky * p.dilation_h;
              const int ix = ox * p.stride_w - p.pad_left + kx * p.dilation_w;
              if (iy < 0 || iy >= p.ih || ix < 0 || ix >= p.iw) continue;
              for (int i = 0; i < icg; ++i) {
                sum += mul(((n * p.ih + iy) * p.iw + ix) * p.x_pitch + c / ocg * icg + i,
                           ((c * p.kh + ky) * p.kw + kx) * icg + i);
              }
            }
          }
          visit((n * p.oh + oy) * p.ow + ox, c, sum);
        }
      }
    }
  }
}

class X86Kernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (xrt_x86_kernels(GetParam()) == nullptr)
      GTEST_SKIP() << "this processor has no " << GetParam();
  }

  static void float_conv(const char* isa, xrt_k_conv p, bool half) {
    const bool depthwise = p.groups > 1 && p.groups == p.ic && p.oc == p.ic;
    const int k = p.kh * p.kw * p.ic / p.groups;
    const auto x = noise<float>(static_cast<std::size_t>(p.n) * p.ih * p.iw * p.x_pitch);
    auto w = noise<float>(static_cast<std::size_t>(p.oc) * k);
    const auto bias = noise<float>(static_cast<std::size_t>(p.oc));
    const std::size_t pixels = static_cast<std::size_t>(p.n) * p.oh * p.ow;
    const auto r = noise<float>(pixels * p.r_pitch);
    std::vector<float> y(pixels * p.y_pitch, 77.0F);
    std::vector<std::uint16_t> halves;
    std::vector<float> factors;
    if (depthwise) {
      factors.resize(w.size());
      for (int c = 0; c < p.oc; ++c) {
        for (int i = 0; i < k; ++i)
          factors[static_cast<std::size_t>(i) * p.oc + c] = w[static_cast<std::size_t>(c) * k + i];
      }
    } else {
      if (half) {
        for (float& v : w) v = xrt_half_to_float(xrt_float_to_half(v));
      }
      factors = packed(w, p.groups, p.oc / p.groups, k, 1);
    }
    const void* weights = factors.data();
    if (half) {
      p.weight_dtype = XRT_LITE_F16;
      for (const float v : factors) halves.push_back(xrt_float_to_half(v));
      weights = halves.data();
    }
    std::vector<const void*> operands{x.data(), weights};
    if ((p.flags & XRT_HAS_BIAS) != 0) operands.push_back(bias.data());
    if ((p.flags & XRT_HAS_RESIDUAL) != 0) operands.push_back(r.data());
    operands.push_back(y.data());
    call(isa, depthwise ? XRT_K_DWCONV_F32 : XRT_K_CONV_F32, &p, operands);
    float worst = 0;
    each_output<double>(
        p, [&](int at, int weight) { return static_cast<double>(x[at]) * w[weight]; },
        [&](int pixel, int c, double sum) {
          if ((p.flags & XRT_HAS_BIAS) != 0) sum += bias[c];
          if ((p.flags & XRT_HAS_RESIDUAL) != 0)
            sum += r[static_cast<std::size_t>(pixel) * p.r_pitch + c];
          if (p.activation != 0) sum = std::min<double>(std::max<double>(sum, p.lo), p.hi);
          worst = std::max(worst, static_cast<float>(std::fabs(
                                      sum - y[static_cast<std::size_t>(pixel) * p.y_pitch + c])));
        });
    EXPECT_LT(worst, 1e-6 * (20 + k)) << "k " << k << " oc " << p.oc << " groups " << p.groups;
    for (std::size_t i = 0; i < pixels; ++i) {  // what lies between pixels is not ours
      for (int c = p.oc; c < p.y_pitch; ++c) ASSERT_EQ(y[i * p.y_pitch + c], 77.0F);
    }
  }

  static void int8_conv(const char* isa, bool depthwise) {
    const xrt_k_conv p = random_conv(true, depthwise);
    const int k = p.kh * p.kw * p.ic / p.groups;
    const auto x = noise<std::uint8_t>(static_cast<std::size_t>(p.n) * p.ih * p.iw * p.x_pitch);
    const auto w = noise<std::int8_t>(static_cast<std::size_t>(p.oc) * k);
    std::vector<std::int32_t> bias;
    std::vector<float> scale;
    for (int c = 0; c < p.oc; ++c) {
      bias.push_back(pick(-5000, 5000));
      scale.push_back(0.002F * static_cast<float>(pick(1, 9)));
    }
    const std::size_t pixels = static_cast<std::size_t>(p.n) * p.oh * p.ow;
    const auto r = noise<std::uint8_t>(pixels * p.r_pitch);
    Bytes y(pixels * p.y_pitch, 77);
    std::vector<std::int8_t> factors;
    if (depthwise) {
      factors.resize(w.size());
      for (int c = 0; c < p.oc; ++c) {
        for (int i = 0; i < k; ++i)
          factors[static_cast<std::size_t>(i) * p.oc + c] = w[static_cast<std::size_t>(c) * k + i];
      }
    } else {
      factors = packed(w, p.groups, p.oc / p.groups, k, 4);
    }
    std::vector<const void*> operands{x.data(), factors.data(), scale.data()};
    if ((p.flags & XRT_HAS_BIAS) != 0) operands.push_back(bias.data());
    if ((p.flags & XRT_HAS_RESIDUAL) != 0) operands.push_back(r.data());
    operands.push_back(y.data());
    call(isa, depthwise ? XRT_K_DWCONV_Q8 : XRT_K_CONV_Q8, &p, operands);
    int wrong = 0;
    each_output<std::int32_t>(
        p,
        [&](int at, int weight) { return (byte_value(x[at], p.x_dtype) - p.x_zero) * w[weight]; },
        [&](int pixel, int c, std::int32_t sum) {
          if ((p.flags & XRT_HAS_BIAS) != 0) sum += bias[c];
          const std::uint8_t* residual = (p.flags & XRT_HAS_RESIDUAL) != 0
                                             ? &r[static_cast<std::size_t>(pixel) * p.r_pitch + c]
                                             : nullptr;
          wrong += y[static_cast<std::size_t>(pixel) * p.y_pitch + c] !=
                           requantized(sum, scale[c], residual, p.r_dtype, p.r_zero, p.r_scale,
                                       p.activation != 0, p.lo, p.hi, p.y_zero, p.y_dtype)
                       ? 1
                       : 0;
        });
    EXPECT_EQ(wrong, 0) << "k " << k << " oc " << p.oc << " groups " << p.groups;
    for (std::size_t i = 0; i < pixels; ++i) {
      for (int c = p.oc; c < p.y_pitch; ++c) ASSERT_EQ(y[i * p.y_pitch + c], 77);
    }
  }
};

TEST_P(X86Kernels, FloatConvolutions) {
  for (int i = 0; i < 80; ++i) float_conv(GetParam(), random_conv(false, false), i % 5 == 0);
}

TEST_P(X86Kernels, FloatDepthwiseConvolutions) {
  for (int i = 0; i < 150; ++i) float_conv(GetParam(), random_conv(false, true), false);
}

// Factors that do not stay in the second cache, with tiles inside of the image and at its borders;
// and those that do, by many pixels.
TEST_P(X86Kernels, FloatConvolutionsOfManyFactors) {
  for (const auto& [size, channels] : {std::pair{9, 352}, {9, 1300}, {40, 24}}) {
    xrt_k_conv p = random_conv(false, false);
    p.n = p.stride_h = p.stride_w = p.dilation_h = p.dilation_w = p.groups = 1;
    p.ih = p.iw = p.oh = p.ow = size;
    p.kh = p.kw = 3;
    p.pad_top = p.pad_left = 1;
    p.ic = p.x_pitch = channels;
    p.oc = 150;
    p.y_pitch = p.r_pitch = p.oc + 2;
    p.flags = XRT_HAS_BIAS | XRT_HAS_RESIDUAL;
    float_conv(GetParam(), p, false);
  }
}

TEST_P(X86Kernels, Int8ConvolutionsAreExact) {
  for (int i = 0; i < 60; ++i) int8_conv(GetParam(), false);
}

TEST_P(X86Kernels, Int8DepthwiseConvolutionsAreExact) {
  for (int i = 0; i < 150; ++i) int8_conv(GetParam(), true);
}

// A product whose second factor is packed (kind 0), or lies in memory by rows (1) or columns (2).
void float_gemm(const char* isa, int kind) {
  xrt_k_gemm p{};
  p.m = pick(1, 130);
  p.n = pick(1, 90);
  p.k = pick(1, 300);
  for (int i = 0; i < 4; ++i) p.batch[i] = kind == 0 ? 1 : pick(1, 2);
  p.flags = pick(0, 3);
  p.activation = pick(0, 1);
  p.lo = -2.0F;
  p.hi = 3.0F;
  p.alpha = 0.5F;
  p.weight_dtype = XRT_LITE_F32;
  p.x_dtype = p.y_dtype = p.r_dtype = XRT_LITE_F32;
  const bool a_columns = pick(0, 2) == 0;
  p.a_row = a_columns ? 1 : p.k + 2;
  p.a_col = a_columns ? p.m + 1 : 1;
  p.b_row = kind == 2 ? 1 : p.n + 1;
  p.b_col = kind == 2 ? p.k + 3 : 1;
  p.y_row = p.n + 1;
  p.pack_n = kind == 0 ? 16 : 0;
  p.pack_k = kind == 0 ? 1 : 0;
  std::int32_t a_size = (p.m + 3) * (p.k + 3);
  std::int32_t b_size = (p.n + 3) * (p.k + 4);
  std::int32_t y_size = p.m * p.y_row;
  for (int i = 3; i >= 0; --i) {
    p.a_batch[i] = a_size;
    p.b_batch[i] = i == 1 ? 0 : b_size;  // broadcast
    p.y_batch[i] = y_size;
    a_size *= p.batch[i];
    b_size *= p.batch[i];
    y_size *= p.batch[i];
  }
  const auto a = noise<float>(static_cast<std::size_t>(a_size));
  const auto b = noise<float>(static_cast<std::size_t>(b_size));
  const auto bias = noise<float>(static_cast<std::size_t>(p.n));
  const auto r = noise<float>(static_cast<std::size_t>(y_size));
  std::vector<float> y(static_cast<std::size_t>(y_size), 77.0F);
  std::vector<float> factors;
  if (kind == 0) {
    std::vector<float> w;
    for (int n = 0; n < p.n; ++n) {
      for (int k = 0; k < p.k; ++k) w.push_back(b[static_cast<std::size_t>(k) * p.b_row + n]);
    }
    factors = packed(w, 1, p.n, p.k, 1);
  }
  std::vector<const void*> operands{a.data(), kind == 0 ? factors.data() : b.data()};
  if ((p.flags & XRT_HAS_BIAS) != 0) operands.push_back(bias.data());
  if ((p.flags & XRT_HAS_RESIDUAL) != 0) operands.push_back(r.data());
  operands.push_back(y.data());
  call(isa, XRT_K_GEMM_F32, &p, operands);
  double worst = 0;
  for (int i = 0; i < p.batch[0] * p.batch[1] * p.batch[2] * p.batch[3]; ++i) {
    std::int64_t a_at = 0;
    std::int64_t b_at = 0;
    std::int64_t y_at = 0;
    for (int d = 3, rest = i; d >= 0; --d) {
      a_at += static_cast<std::int64_t>(rest % p.batch[d]) * p.a_batch[d];
      b_at += static_cast<std::int64_t>(rest % p.batch[d]) * p.b_batch[d];
      y_at += static_cast<std::int64_t>(rest % p.batch[d]) * p.y_batch[d];
      rest /= p.batch[d];
    }
    for (int m = 0; m < p.m; ++m) {
      for (int n = 0; n < p.n; ++n) {
        double sum = 0;
        for (int k = 0; k < p.k; ++k) {
          sum += static_cast<double>(a[a_at + static_cast<std::int64_t>(m) * p.a_row +
                                       static_cast<std::int64_t>(k) * p.a_col]) *
                 b[b_at + static_cast<std::int64_t>(k) * p.b_row +
                   static_cast<std::int64_t>(n) * p.b_col];
        }
        sum *= p.alpha;
        const std::int64_t at = y_at + static_cast<std::int64_t>(m) * p.y_row + n;
        if ((p.flags & XRT_HAS_BIAS) != 0) sum += bias[n];
        if ((p.flags & XRT_HAS_RESIDUAL) != 0) sum += r[at];
        if (p.activation != 0) sum = std::min<double>(std::max<double>(sum, p.lo), p.hi);
        worst = std::max(worst, std::fabs(sum - y[at]));
      }
    }
  }
  EXPECT_LT(worst, 1e-6 * (20 + p.k)) << "m " << p.m << " n " << p.n << " k " << p.k;
}

TEST_P(X86Kernels, FloatProducts) {
  for (int i = 0; i < 90; ++i) float_gemm(GetParam(), i % 3);
}

TEST_P(X86Kernels, Int8ProductsAreExact) {
  for (int round = 0; round < 60; ++round) {
    xrt_k_gemm p{};
    p.m = pick(1, 40);
    p.n = pick(1, 90);
    p.k = pick(1, 600);
    for (int i = 0; i < 4; ++i) p.batch[i] = 1;
    p.flags = pick(0, 1);
    p.a_row = p.k;
    p.a_col = 1;
    p.y_row = p.n;
    p.pack_n = 16;
    p.pack_k = 4;
    p.alpha = 1.0F;
    p.weight_dtype = XRT_LITE_I8;
    p.x_dtype = pick(0, 1) != 0 ? XRT_LITE_U8 : XRT_LITE_I8;
    p.y_dtype = pick(0, 1) != 0 ? XRT_LITE_U8 : XRT_LITE_I8;
    p.r_dtype = XRT_LITE_U8;
    p.x_zero = pick(0, 100);
    p.y_zero = pick(0, 100);
    const auto a = noise<std::uint8_t>(static_cast<std::size_t>(p.m) * p.k);
    const auto w = noise<std::int8_t>(static_cast<std::size_t>(p.n) * p.k);
    std::vector<std::int32_t> bias;
    std::vector<float> scale;
    for (int n = 0; n < p.n; ++n) {
      bias.push_back(pick(-5000, 5000));
      scale.push_back(0.0007F * static_cast<float>(pick(1, 9)));
    }
    Bytes y(static_cast<std::size_t>(p.m) * p.n);
    const auto factors = packed(w, 1, p.n, p.k, 4);
    std::vector<const void*> operands{a.data(), factors.data(), scale.data()};
    if ((p.flags & XRT_HAS_BIAS) != 0) operands.push_back(bias.data());
    operands.push_back(y.data());
    call(GetParam(), XRT_K_GEMM_Q8, &p, operands);
    for (int m = 0; m < p.m; ++m) {
      for (int n = 0; n < p.n; ++n) {
        std::int32_t sum = (p.flags & XRT_HAS_BIAS) != 0 ? bias[n] : 0;
        for (int k = 0; k < p.k; ++k) {
          sum += (byte_value(a[static_cast<std::size_t>(m) * p.k + k], p.x_dtype) - p.x_zero) *
                 w[static_cast<std::size_t>(n) * p.k + k];
        }
        ASSERT_EQ(y[static_cast<std::size_t>(m) * p.n + n],
                  requantized(sum, scale[n], nullptr, 0, 0, 0, false, 0, 0, p.y_zero, p.y_dtype));
      }
    }
  }
}

TEST_P(X86Kernels, Pools) {
  for (int round = 0; round < 120; ++round) {
    xrt_k_pool p{};
    p.n = pick(1, 2);
    p.ih = pick(1, 9);
    p.iw = pick(1, 9);
    p.c = pick(1, 140);
    p.kh = pick(1, 3);
    p.kw = pick(1, 3);
    p.stride_h = p.stride_w = pick(1, 2);
    p.dilation_h = p.dilation_w = 1;
    p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = pick(0, 1);
    p.oh = std::max(1, (p.ih + 2 * p.pad_top - p.kh) / p.stride_h + 1);
    p.ow = std::max(1, (p.iw + 2 * p.pad_left - p.kw) / p.stride_w + 1);
    p.x_pitch = p.c + pick(0, 2);
    p.y_pitch = p.c + pick(0, 2);
    p.count_include_pad = pick(0, 1);
    p.dtype = round % 3 == 0 ? XRT_LITE_F32 : round % 3 == 1 ? XRT_LITE_U8 : XRT_LITE_I8;
    p.kind = p.dtype == XRT_LITE_F32 ? pick(0, 1) : XRT_POOL_MAX;
    const std::size_t count = static_cast<std::size_t>(p.n) * p.ih * p.iw * p.x_pitch;
    const auto xf = noise<float>(count);
    const auto xb = noise<std::uint8_t>(count);
    const std::size_t results = static_cast<std::size_t>(p.n) * p.oh * p.ow * p.y_pitch;
    std::vector<float> yf(results);
    Bytes yb(results);
    const bool is_float = p.dtype == XRT_LITE_F32;
    call(GetParam(), XRT_K_POOL, &p,
         {is_float ? static_cast<const void*>(xf.data()) : xb.data(),
          is_float ? static_cast<const void*>(yf.data()) : yb.data()});
    for (int i = 0; i < p.n * p.oh * p.ow; ++i) {
      const int oy = i / p.ow % p.oh;
      const int ox = i % p.ow;
      for (int c = 0; c < p.c; ++c) {
        double best = -1e30;
        double sum = 0;
        int inside = 0;
        int padded = 0;
        for (int ky = 0; ky < p.kh; ++ky) {
          for (int kx = 0; kx < p.kw; ++kx) {
            const int iy = oy * p.stride_h - p.pad_top + ky;
            const int ix = ox * p.stride_w - p.pad_left + kx;
            if (iy < p.ih + p.pad_bottom && ix < p.iw + p.pad_right) ++padded;
            if (iy < 0 || iy >= p.ih || ix < 0 || ix >= p.iw) continue;
            const std::size_t at =
                (static_cast<std::size_t>(i / p.ow / p.oh * p.ih + iy) * p.iw + ix) * p.x_pitch + c;
            const double v = is_float ? xf[at] : byte_value(xb[at], p.dtype);
            best = std::max(best, v);
            sum += v;
            ++inside;
          }
        }
        if (inside == 0) continue;
        const std::size_t at = static_cast<std::size_t>(i) * p.y_pitch + c;
        const double expected =
            p.kind == XRT_POOL_MAX ? best : sum / (p.count_include_pad != 0 ? padded : inside);
        ASSERT_NEAR(is_float ? yf[at] : byte_value(yb[at], p.dtype), expected, 1e-5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, X86Kernels, testing::Values("avx2", "avx512", "amx"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
