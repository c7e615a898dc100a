// SPDX-License-Identifier: Apache-2.0
// Types of graph values: dtype and shape, where a dimension is a number, a symbol or unknown.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "xrt/dtype.h"
#include "xrt/export.h"
#include "xrt/tensor.h"

namespace xrt {

// One dimension: a number (>= 0), a named symbol ("batch"), or unknown (neither).
class XRT_API Dim {
 public:
  Dim() = default;                            // unknown
  Dim(std::int64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  explicit Dim(std::string symbol) : symbol_(std::move(symbol)) {}

  bool is_known() const { return value_ >= 0; }
  bool is_symbol() const { return value_ < 0 && !symbol_.empty(); }
  std::int64_t value() const { return value_; }  // -1 unless is_known()
  const std::string& symbol() const { return symbol_; }
  bool operator==(const Dim&) const = default;

 private:
  std::int64_t value_ = -1;
  std::string symbol_;
};

// A shape of known rank.
using Shape = std::vector<Dim>;

struct XRT_API Type {
  enum class Kind : std::uint8_t { kTensor, kSequence, kOptional, kMap, kSparseTensor };

  Kind kind = Kind::kTensor;  // a value of kMap is a sequence: its keys, and what they stand for
  DType dtype = DType::kUndefined;      // tensor: of its elements; map: of its keys
  std::optional<Shape> shape;           // tensor only; absent: the rank is unknown
  std::shared_ptr<const Type> element;  // sequence, optional, map: the type of what it holds

  static Type tensor(DType dtype);  // unknown rank
  static Type tensor(DType dtype, Shape shape);
  static Type tensor(DType dtype, const Dims& dims);
  static Type sequence(Type element);
  static Type optional(Type element);

  bool is_tensor() const { return kind == Kind::kTensor; }
  bool has_rank() const { return is_tensor() && shape.has_value(); }
  std::size_t rank() const { return shape ? shape->size() : 0; }
  // Every dimension is a number.
  bool is_static() const;
  // The dimensions as numbers if is_static(), else nothing.
  std::optional<Dims> static_dims() const;
  bool operator==(const Type& other) const;
};

// "float32[1,3,H,?]", "float32[*]" (unknown rank), "seq(int64[*])", "optional(…)"
XRT_API std::string to_string(const Type& type);

}  // namespace xrt
