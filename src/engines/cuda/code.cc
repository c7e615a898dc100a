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
});

const TypeRow* row_of(DType dtype) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const TypeRow& r) { return r.dtype == dtype; });
  return found == kTypes.end() ? nullptr : found;
}

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
__device__ inline double gelu(double x) { return 0.5 * x * (1.0 + erf(x * 0.70710678118654752)); }
__device__ inline float sigmoid(float x) {
  return x >= 0 ? 1.0f / (1.0f + expf(-x)) : expf(x) / (1.0f + expf(x));
}
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

bool has_type(DType dtype) { return row_of(dtype) != nullptr; }
std::string_view stored_type(DType dtype) { return row_of(dtype)->stored; }
std::string_view computed_type(DType dtype) { return row_of(dtype)->computed; }

std::string loaded(DType dtype, const std::string& element) {
  if (dtype == DType::kFloat16) return "from_f16(" + element + ")";
  if (dtype == DType::kBFloat16) return "from_bf16(" + element + ")";
  if (dtype == DType::kBool) return "(" + element + " != 0)";
  return element;
}

std::string stored(DType dtype, const std::string& value) {
  if (dtype == DType::kFloat16) return "to_f16(" + value + ")";
  if (dtype == DType::kBFloat16) return "to_bf16(" + value + ")";
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
  int width = static_cast<int>(16 / largest);
  width = std::min(width, 8);
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
