// SPDX-License-Identifier: Apache-2.0
// Element type conversions: floats of every width, packed integers, blocks of elements.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/half.h"
#include "engines/native/kernels/common/axes.h"
#include "xrt/dtype.h"
#include "xrt/error.h"

namespace xrt::native {

// How a number beyond the target's range is stored, and how float8_e8m0 rounds.
enum class Rounding : std::uint8_t { kNearest, kUp, kDown };

inline float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// The 8-bit and 4-bit floats of the ONNX standard. `saturate`: beyond the range gives the largest
// finite number, else infinity or NaN, whichever the format has.
std::uint8_t float_to_small(DType dtype, float value, bool saturate,
                            Rounding rounding = Rounding::kUp);

// Elements [offset, offset + n) of a tensor's memory as float, double or int64; any dtype but
// string and complex (to_int64: integers and bool). uint64 keeps its bits.
void load_float(DType dtype, const void* source, std::int64_t offset, std::int64_t n, float* out);
void load_double(DType dtype, const void* source, std::int64_t offset, std::int64_t n, double* out);
void load_int64(DType dtype, const void* source, std::int64_t offset, std::int64_t n,
                std::int64_t* out);
// The other way; floats are rounded to nearest even, integers from floats truncated.
void store_float(DType dtype, const float* source, std::int64_t n, void* target,
                 std::int64_t offset, bool saturate = true);
void store_double(DType dtype, const double* source, std::int64_t n, void* target,
                  std::int64_t offset, bool saturate = true, Rounding rounding = Rounding::kUp);
void store_int64(DType dtype, const std::int64_t* source, std::int64_t n, void* target,
                 std::int64_t offset);

// A tensor with the elements of `x` as `dtype` (numbers only), `x` itself where it is that already.
Tensor converted(const Tensor& x, DType dtype);

// The narrowest element type that computes for `dtype`: float for float16, bfloat16 and narrower.
inline DType compute_dtype(DType dtype) {
  return is_floating(dtype) && dtype != DType::kFloat64 ? DType::kFloat32 : dtype;
}

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DType::kFloat64;
  if constexpr (std::is_same_v<T, std::int8_t>) return DType::kInt8;
  if constexpr (std::is_same_v<T, std::int16_t>) return DType::kInt16;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::kInt64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::kUInt8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return DType::kUInt16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return DType::kUInt32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return DType::kUInt64;
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  return DType::kUndefined;
}

[[noreturn]] inline void fail_dtype(DType dtype) {
  throw Error(ErrorCode::kUnsupported,
              "element type " + std::string(to_string(dtype)) + " has no kernel");
}

// fn.template operator()<T>() for the type that `dtype` is in memory.
template <typename F>
decltype(auto) dispatch_float(DType dtype, F&& fn) {
  switch (dtype) {
    case DType::kFloat32:
      return fn.template operator()<float>();
    case DType::kFloat64:
      return fn.template operator()<double>();
    default:
      fail_dtype(dtype);
  }
}

template <typename F>
decltype(auto) dispatch_integer(DType dtype, F&& fn) {
  switch (dtype) {
    case DType::kInt8:
      return fn.template operator()<std::int8_t>();
    case DType::kInt16:
      return fn.template operator()<std::int16_t>();
    case DType::kInt32:
      return fn.template operator()<std::int32_t>();
    case DType::kInt64:
      return fn.template operator()<std::int64_t>();
    case DType::kUInt8:
      return fn.template operator()<std::uint8_t>();
    case DType::kUInt16:
      return fn.template operator()<std::uint16_t>();
    case DType::kUInt32:
      return fn.template operator()<std::uint32_t>();
    case DType::kUInt64:
      return fn.template operator()<std::uint64_t>();
    default:
      fail_dtype(dtype);
  }
}

template <typename F>
decltype(auto) dispatch_number(DType dtype, F&& fn) {
  return is_floating(dtype) ? dispatch_float(dtype, std::forward<F>(fn))
                            : dispatch_integer(dtype, std::forward<F>(fn));
}

// By the size of an element, for ops that only move elements: 1, 2, 4, 8 or 16 bytes.
struct Bytes16 {
  std::uint64_t low, high;
};
template <typename F>
decltype(auto) dispatch_size(std::size_t bytes, F&& fn) {
  switch (bytes) {
    case 1:
      return fn.template operator()<std::uint8_t>();
    case 2:
      return fn.template operator()<std::uint16_t>();
    case 4:
      return fn.template operator()<std::uint32_t>();
    case 8:
      return fn.template operator()<std::uint64_t>();
    default:
      return fn.template operator()<Bytes16>();
  }
}
// Likewise, strings included (as std::string).
template <typename F>
decltype(auto) dispatch_move(DType dtype, F&& fn) {
  if (dtype == DType::kString) return fn.template operator()<std::string>();
  return dispatch_size(static_cast<std::size_t>(bit_width(dtype)) / 8, std::forward<F>(fn));
}

// What was computed in a wider type, into `y` of the same shape; nothing where they are one tensor.
void store_result(const Tensor& wide, Tensor& y);

}  // namespace xrt::native
