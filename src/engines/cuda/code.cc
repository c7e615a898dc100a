// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/code.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/half.h"
#include "device/cuda/source.h"
#include "engines/cuda/planner.h"

namespace xrt::cuda {
namespace {

struct TypeRow {
  DType dtype;
  std::string_view stored, computed;
  bool narrow = false;  // few ops have such numbers
};
constexpr auto kTypes = std::to_array<TypeRow>({
    {DType::kFloat32, "float", "float"},
    {DType::kFloat16, "f16", "float"},
    {DType::kBFloat16, "bf16", "float"},
    {DType::kFloat64, "double", "double"},
    {DType::kInt8, "i8", "i8"},
    {DType::kUInt8, "u8", "u8"},
    {DType::kInt16, "short", "short"},
    {DType::kUInt16, "u16", "u16"},
    {DType::kInt32, "int", "int"},
    {DType::kUInt32, "unsigned", "unsigned"},
    {DType::kInt64, "i64", "i64"},
    {DType::kUInt64, "u64", "u64"},
    {DType::kBool, "u8", "bool"},
    {DType::kFloat8E4M3FN, "f8e4m3fn", "float", true},
    {DType::kFloat8E4M3FNUZ, "f8e4m3fnuz", "float", true},
    {DType::kFloat8E5M2, "f8e5m2", "float", true},
    {DType::kFloat8E5M2FNUZ, "f8e5m2fnuz", "float", true},
    {DType::kFloat8E8M0, "f8e8m0", "float", true},
    // Packed: what is stored are bytes of several elements (Planner::plain).
    {DType::kInt4, "u8", "i8", true},
    {DType::kInt2, "u8", "i8", true},
    {DType::kUInt4, "u8", "u8", true},
    {DType::kUInt2, "u8", "u8", true},
    {DType::kFloat4E2M1, "u8", "float", true},
});

const TypeRow* row_of(DType dtype) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const TypeRow& r) { return r.dtype == dtype; });
  return found == kTypes.end() ? nullptr : found;
}

bool is_small_float(DType dtype) { return is_floating(dtype) && bit_width(dtype) == 8; }

template <typename T>
double element(const TensorView& constant) {
  return static_cast<double>(*constant.data<T>());
}

}  // namespace

std::string prelude() {
  return std::string(basic_source()) +
         fmt::format("constexpr int kPointers = {};\n", kMostPointers) + R"(
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct Args { void* p[kPointers]; };
template <typename T, int N> struct alignas(sizeof(T) * N) Vec { T v[N]; };

__device__ inline float from_f16(f16 x) { return half_to_float(x.bits); }
__device__ inline f16 to_f16(float x) { return {float_to_half(x)}; }
__device__ inline float from_bf16(bf16 x) { return bfloat_to_float(x.bits); }
__device__ inline bf16 to_bf16(float x) { return {float_to_bfloat(x)}; }
// Conversions and rintf() take eight times as long as sums do: numbers near 2^23 have no bits for a
// fraction. The integer nearest to x, the even one of two, of those from low to high, which have 22
// bits at most; low where x is none.
__device__ inline float nearest(float x, int low, int high) {
  return fminf(fmaxf(x, (float)low), (float)high) + 12582912.0f - 12582912.0f;
}
__device__ inline int nearest_integer(float x, int low, int high) {
  const float within = fminf(fmaxf(x, (float)low), (float)high);
  return (int)(__float_as_uint(within + 12582912.0f) - 0x4b400000u);
}
// x - zero, of which either has 8 bits at most.
__device__ inline float difference(u8 x, int zero) {
  return __uint_as_float(0x4b000000u | x) - (float)(8388608 + zero);
}
__device__ inline float difference(i8 x, int zero) {
  return __uint_as_float(0x4b000000u | (u8)(x ^ 0x80)) - (float)(8388736 + zero);
}
// Two units in the last place off at most, and 0 where y is above 2^126: at a third of the cost.
__device__ inline float quotient(float x, float y) {
#ifdef __CUDACC_RTC__
  return __fdividef(x, y);
#else
  return x / y;
#endif
}
template <typename T> __device__ inline T relu(T x) { return x < 0 ? (T)0 : x; }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <> __device__ inline float relu<float>(float x) {
  asm("max.NaN.f32 %0, %0, 0f00000000;" : "+f"(x));
  return x;
}
#endif
// A float of which the nearest number of 16 bits or fewer is that of x: rounded to odd.
__device__ inline float to_odd(double x) {
  const float near = (float)x;
  const unsigned bits = __float_as_uint(near);
  if ((double)near == x || x != x || (bits & 0x7fffffffu) == 0x7f800000u || (bits & 1u)) return near;
  return __uint_as_float(((double)near < x) == (x > 0) ? bits + 1 : bits - 1);
}
// As NumPy has it: what is no number stays so.
template <typename T> __device__ inline T larger(T a, T b) { return a > b || a != a ? a : b; }
template <typename T> __device__ inline T smaller(T a, T b) { return a < b || a != a ? a : b; }
template <typename T> __device__ inline T power_of_integer(T base, i64 exponent) {
  if (exponent < 0) return base == 1 ? (T)1 : base == (T)-1 ? (exponent % 2 ? (T)-1 : (T)1) : (T)0;
  T result = 1;
  for (; exponent > 0; exponent >>= 1, base = (T)(base * base))
    if (exponent & 1) result = (T)(result * base);
  return result;
}
template <typename T> __device__ inline T remainder_of(T a, T b) {
  if (b == 0) return 0;
  const T r = (T)(a % b);
  return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
}
__device__ inline float remainder_of(float a, float b) {
  const float r = fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ inline double remainder_of(double a, double b) {
  const double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
__device__ inline float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }
// To be rounded to half precision: within its last bit. The complement of the error function of
// x / sqrt(2) by Abramowitz and Stegun 7.1.26.
__device__ inline float half_gelu(float x) {
#ifdef __CUDACC_RTC__
  const float z = fabsf(x) * 0.70710678118654752f, t = __fdividef(1.0f, 1.0f + 0.3275911f * z);
  float p = (1.061405429f * t - 1.453152027f) * t + 1.421413741f;
  p = ((p * t - 0.284496736f) * t + 0.254829592f) * t;
  const float part = x * (0.5f * p * __expf(-z * z));
  return x >= 0 ? x - part : part;
#else
  return gelu(x);
#endif
}
__device__ inline double gelu(double x) { return 0.5 * x * (1.0 + erf(x * 0.70710678118654752)); }
__device__ inline float sigmoid(float x) { return quotient(1.0f, 1.0f + expf(-x)); }
__device__ inline double sigmoid(double x) {
  return x >= 0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
}
__device__ inline float softplus(float x) { return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x)); }
__device__ inline double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

// What all threads of a row have, a power of two of them: Sum, Most or Least.
struct Sum { template <typename T> static __device__ T of(T a, T b) { return a + b; } };
struct Product { template <typename T> static __device__ T of(T a, T b) { return (T)(a * b); } };
struct Most { template <typename T> static __device__ T of(T a, T b) { return larger(a, b); } };
struct Least { template <typename T> static __device__ T of(T a, T b) { return smaller(a, b); } };
template <typename Op, int kThreads, int kRows, typename T> __device__ inline T together(T value) {
  constexpr int kWithin = kThreads < 32 ? kThreads : 32;
#pragma unroll
  for (int step = kWithin / 2; step > 0; step /= 2)
    value = Op::of(value, (T)__shfl_sync(0xffffffffu, value, (int)(threadIdx.x & 31u) ^ step));
  if (kThreads > 32) {
    constexpr int kWarps = kThreads / 32 < 1 ? 1 : kThreads / 32;
    __shared__ T parts[kRows * kWarps];
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    const int first = (int)(threadIdx.x / kThreads) * kWarps;
    value = parts[first];
    for (int w = 1; w < kWarps; ++w) value = Op::of(value, parts[first + w]);
  }
  return value;
}
)";
}

std::string narrow_numbers() {
  return R"(
__device__ inline float power_of_two(int exponent) {
  return __uint_as_float((unsigned)(exponent + 127) << 23);
}
// Of a sign, kExponent and kMantissa bits. kMost: the code of the largest number; kInfinity: that of
// infinity, or -1. Numbers that are too large become infinity, or else kNan.
template <int kExponent, int kMantissa, int kBias, int kMost, int kInfinity, int kNan,
          bool kHasNegativeZero>
struct Small {
  u8 bits;
  __device__ float number() const {
    constexpr int kWidth = kExponent + kMantissa;
    const int size = bits & ((1 << kWidth) - 1), negative = bits >> kWidth & 1;
    if (kHasNegativeZero ? size > kMost && size != kInfinity : bits == kNan)
      return __uint_as_float(0x7fc00000u);
    const int exponent = size >> kMantissa, mantissa = size & ((1 << kMantissa) - 1);
    float value = exponent == 0
                      ? (float)mantissa * power_of_two(1 - kBias - kMantissa)
                      : (float)(mantissa + (1 << kMantissa)) * power_of_two(exponent - kBias - kMantissa);
    if (size == kInfinity) value = __uint_as_float(0x7f800000u);
    return negative ? -value : value;
  }
  static __device__ Small of(float value) {
    const unsigned all = __float_as_uint(value), size = all & 0x7fffffffu;
    const int sign = (int)(all >> 31) << (kExponent + kMantissa);
    const int nan = kHasNegativeZero ? kNan | sign : kNan;
    if (size > 0x7f800000u) return {(u8)nan};
    int code = kMost + 1;
    if (size < 0x7f800000u) {
      int exponent = (int)(size >> 23) - 127;
      if (exponent < 1 - kBias) exponent = 1 - kBias;
      const float units = rintf(__uint_as_float(size) * power_of_two(kMantissa - exponent));
      const int wide = (int)units + ((exponent + kBias - 1) << kMantissa);
      if (wide <= kMost) code = wide;
    }
    if (code > kMost) {
      if (kInfinity < 0) return {(u8)nan};
      code = kInfinity;
    }
    return {(u8)(code == 0 && !kHasNegativeZero ? 0 : code | sign)};
  }
};
typedef Small<4, 3, 7, 0x7e, -1, 0x7f, true> f8e4m3fn;
typedef Small<4, 3, 8, 0x7f, -1, 0x80, false> f8e4m3fnuz;
typedef Small<5, 2, 15, 0x7b, 0x7c, 0x7e, true> f8e5m2;
typedef Small<5, 2, 16, 0x7f, -1, 0x80, false> f8e5m2fnuz;
typedef Small<2, 1, 1, 7, -1, 7, true> f4e2m1;  // it has no code that is no number
// Powers of two alone.
struct f8e8m0 {
  u8 bits;
  __device__ float number() const {
    if (bits == 0xff) return __uint_as_float(0x7fc00000u);
    return __uint_as_float(bits == 0 ? 0x00400000u : (unsigned)bits << 23);
  }
  // Of what is a power of two.
  static __device__ f8e8m0 of(float value) { return {(u8)(__float_as_uint(value) >> 23)}; }
};
__device__ inline float limited(float value, float most) {
  return value != value ? value : fminf(fmaxf(value, -most), most);
}
// The largest number stands for what is larger, and -0 for what is no number.
__device__ inline float nearest_f4(float value) {
  return value != value ? -0.0f : f4e2m1::of(limited(value, 6.0f)).number();
}
// `up`: to the next power of two that is not smaller; `nearest`: to the nearest one, or the larger
// of two; else to the one below.
__device__ inline float nearest_power(float value, bool limits, bool up, bool nearest) {
  const unsigned size = __float_as_uint(value) & 0x7fffffffu, mantissa = size & 0x7fffffu;
  const float nan = __uint_as_float(0x7fc00000u), most = __uint_as_float(0x7f000000u);
  if (size >= 0x7f800000u) return size == 0x7f800000u && limits ? most : nan;
  if (size == 0) return __uint_as_float(0x00400000u);
  unsigned exponent = size >> 23;
  const bool rises = up ? mantissa > 0
                        : nearest && (exponent == 0 ? mantissa > 0x400000u : mantissa >= 0x400000u);
  if (rises) ++exponent;
  if (exponent >= 255) return limits ? most : nan;
  return __uint_as_float(exponent == 0 ? 0x00400000u : exponent << 23);
}
)";
}

bool has_type(DType dtype) {
  const TypeRow* row = row_of(dtype);
  return row != nullptr && !row->narrow;
}
bool is_narrow(DType dtype) {
  const TypeRow* row = row_of(dtype);
  return row != nullptr && row->narrow;
}
DType plain_type(DType dtype) {
  if (!is_packed(dtype)) return dtype;
  if (dtype == DType::kFloat4E2M1) return DType::kFloat8E4M3FN;
  return is_signed_integer(dtype) ? DType::kInt8 : DType::kUInt8;
}
std::string_view stored_type(DType dtype) { return row_of(dtype)->stored; }
std::string_view computed_type(DType dtype) { return row_of(dtype)->computed; }

std::string loaded(DType dtype, const std::string& element) {
  if (dtype == DType::kFloat16) return "from_f16(" + element + ")";
  if (dtype == DType::kBFloat16) return "from_bf16(" + element + ")";
  if (dtype == DType::kBool) return "(" + element + " != 0)";
  if (is_small_float(dtype)) return element + ".number()";
  return element;
}

std::string stored(DType dtype, const std::string& value) {
  if (dtype == DType::kFloat16) return "to_f16(" + value + ")";
  if (dtype == DType::kBFloat16) return "to_bf16(" + value + ")";
  if (is_small_float(dtype)) return fmt::format("{}::of({})", stored_type(dtype), value);
  return fmt::format("({})({})", stored_type(dtype), value);
}

std::string float_literal(float value) {
  if (std::isnan(value)) return "__uint_as_float(0x7fc00000u)";
  if (std::isinf(value)) {
    return fmt::format("__uint_as_float(0x{:08x}u)", std::bit_cast<std::uint32_t>(value));
  }
  std::string text = fmt::format("{:.9g}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return "(" + text + "f)";
}

std::string literal(DType dtype, double value) {
  if (computed_type(dtype) == "float") return float_literal(static_cast<float>(value));
  if (dtype == DType::kFloat64) {
    if (std::isnan(value)) return "((double)__uint_as_float(0x7fc00000u))";
    if (std::isinf(value)) {
      return value > 0 ? "((double)__uint_as_float(0x7f800000u))"
                       : "((double)__uint_as_float(0xff800000u))";
    }
    std::string text = fmt::format("{:.17g}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return "(" + text + ")";
  }
  return literal(dtype, static_cast<std::int64_t>(value));
}

std::string literal(DType dtype, std::int64_t value) {
  if (computed_type(dtype) == "float" || dtype == DType::kFloat64) {
    return literal(dtype, static_cast<double>(value));
  }
  if (dtype == DType::kUInt64)
    return fmt::format("((u64){}ull)", static_cast<std::uint64_t>(value));
  if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807ll - 1)";
  return fmt::format("(({}){}ll)", computed_type(dtype), value);
}

std::string literal(const TensorView& constant) {
  switch (constant.dtype()) {
    case DType::kFloat32:
      return literal(DType::kFloat32, element<float>(constant));
    case DType::kFloat64:
      return literal(DType::kFloat64, element<double>(constant));
    case DType::kFloat16:
      return float_literal(half_to_float(*constant.data<std::uint16_t>()));
    case DType::kBFloat16:
      return float_literal(
          std::bit_cast<float>(std::uint32_t{*constant.data<std::uint16_t>()} << 16));
    case DType::kBool:
      return *constant.data<std::uint8_t>() != 0 ? "true" : "false";
    case DType::kInt8:
      return literal(DType::kInt8, std::int64_t{*constant.data<std::int8_t>()});
    case DType::kUInt8:
      return literal(DType::kUInt8, std::int64_t{*constant.data<std::uint8_t>()});
    case DType::kInt16:
      return literal(DType::kInt16, std::int64_t{*constant.data<std::int16_t>()});
    case DType::kUInt16:
      return literal(DType::kUInt16, std::int64_t{*constant.data<std::uint16_t>()});
    case DType::kInt32:
      return literal(DType::kInt32, std::int64_t{*constant.data<std::int32_t>()});
    case DType::kUInt32:
      return literal(DType::kUInt32, std::int64_t{*constant.data<std::uint32_t>()});
    case DType::kUInt64:
      return literal(DType::kUInt64, static_cast<std::int64_t>(*constant.data<std::uint64_t>()));
    default:
      return literal(DType::kInt64, *constant.data<std::int64_t>());
  }
}

std::vector<std::size_t> axes_by_stride(const View& view) {
  std::vector<std::size_t> axes(view.dims.size());
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  std::stable_sort(axes.begin(), axes.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(view.strides[a]) > std::abs(view.strides[b]);
  });
  return axes;
}

Space make_space(const Dims& dims, const std::vector<Dims>& strides,
                 const std::vector<std::size_t>& axes) {
  Space space;
  space.strides.resize(strides.size());
  for (const std::size_t axis : axes) {
    if (dims[axis] == 1) continue;
    bool joins = !space.dims.empty();
    for (std::size_t v = 0; joins && v < strides.size(); ++v) {
      joins = space.strides[v].back() == strides[v][axis] * dims[axis];
    }
    if (joins) {
      space.dims.back() *= dims[axis];
      for (std::size_t v = 0; v < strides.size(); ++v) space.strides[v].back() = strides[v][axis];
      continue;
    }
    space.dims.push_back(dims[axis]);
    for (std::size_t v = 0; v < strides.size(); ++v) space.strides[v].push_back(strides[v][axis]);
  }
  if (space.dims.empty()) {
    space.dims = {1};
    for (Dims& of_view : space.strides) of_view = {0};
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  space.wide = space.count() >= kMost;
  for (const Dims& of_view : space.strides) {
    std::int64_t reach = 0;
    for (std::size_t i = 0; i < space.dims.size(); ++i) {
      reach += std::abs(of_view[i]) * (space.dims[i] - 1);
    }
    space.wide = space.wide || reach >= kMost;
  }
  return space;
}

std::string coordinates(const Space& space, std::string_view index, std::string_view prefix) {
  const std::string_view type = space.index_type();
  const std::size_t rank = space.dims.size();
  if (rank == 1) return fmt::format("const {} {}0 = {};\n", type, prefix, index);
  std::string text = fmt::format("{} {}r = {};\n", type, prefix, index);
  for (std::size_t i = rank; i-- > 1;) {
    text += fmt::format("const {0} {1}{2} = {1}r % {3}u; {1}r /= {3}u;\n", type, prefix, i,
                        space.dims[i]);
  }
  return text + fmt::format("const {0} {1}0 = {1}r;\n", type, prefix);
}

std::string place(const Space& space, std::size_t view, std::string_view prefix) {
  std::string text;
  bool is_signed = space.wide;
  for (const std::int64_t stride : space.strides[view]) is_signed = is_signed || stride < 0;
  for (std::size_t i = 0; i < space.dims.size(); ++i) {
    const std::int64_t stride = space.strides[view][i];
    if (stride == 0) continue;
    if (!text.empty()) text += " + ";
    if (is_signed) {
      text += fmt::format("(i64){}{} * {}ll", prefix, i, stride);
    } else {
      text += stride == 1 ? fmt::format("{}{}", prefix, i)
                          : fmt::format("{}{} * {}u", prefix, i, stride);
    }
  }
  return text.empty() ? "0" : text;
}

int vector_width(const Space& space, const std::vector<View>& views) {
  std::size_t largest = 1;
  for (const View& view : views) largest = std::max(largest, bytes_of(view.dtype));
  return vector_width(space, views, std::min(static_cast<int>(16 / largest), 8));
}
int vector_width(const Space& space, const std::vector<View>& views, int most) {
  int width = most;
  const std::size_t last = space.dims.size() - 1;
  const auto fits = [&](int w) {
    if (space.dims[last] % w != 0) return false;
    for (std::size_t v = 0; v < views.size(); ++v) {
      const std::int64_t inner = space.strides[v][last];
      if (inner == 0) continue;
      if (inner != 1) continue;  // one by one
      if (views[v].offset % w != 0) return false;
      for (std::size_t i = 0; i < last; ++i) {
        if (space.strides[v][i] % w != 0) return false;
      }
    }
    return true;
  };
  while (width > 1 && !fits(width)) width /= 2;
  return width;
}

}  // namespace xrt::cuda
