// SPDX-License-Identifier: Apache-2.0
// CUDA C++ as text: types, loads and stores, and where elements lie.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engines/cuda/plan.h"

namespace xrt::cuda {

// What every source begins with.
std::string prelude();

// And those with narrow numbers behind it.
std::string narrow_numbers();

// Whether all ops compute with values of the type; complex and narrow ones and strings not.
bool has_type(DType dtype);
// Whether it is of numbers of eight bits and fewer that only some ops take: float8, int4, ….
bool is_narrow(DType dtype);
// Of one element at a time: that of a packed type, which holds its numbers, else the type itself.
DType plain_type(DType dtype);
std::string_view stored_type(DType dtype);    // "f16", "int"
std::string_view computed_type(DType dtype);  // "float", "int", "bool"
// From an element as it is stored to one to compute with, and back.
std::string loaded(DType dtype, const std::string& element);
std::string stored(DType dtype, const std::string& value);
// A literal of the computed type.
std::string literal(DType dtype, double value);
std::string literal(DType dtype, std::int64_t value);
// Of a constant's only element.
std::string literal(const TensorView& constant);
// A float's literal that is exactly it, also where it is infinite.
std::string float_literal(float value);

// An iteration space over several views: axes in the order of memory, those that run together taken
// for one.
struct Space {
  Dims dims;                  // the last one runs fastest
  std::vector<Dims> strides;  // per view
  bool wide = false;          // indices take 64 bits
  std::int64_t count() const { return element_count(dims); }
  std::string_view index_type() const { return wide ? "unsigned long long" : "unsigned"; }
};
// `axes`: of the views' logical axes, those of the space in the order wanted. All views have one
// stride per logical axis.
Space make_space(const Dims& dims, const std::vector<Dims>& strides,
                 const std::vector<std::size_t>& axes);
// Axes from those whose elements lie farthest apart in the view to those that lie together.
std::vector<std::size_t> axes_by_stride(const View& view);

// "const unsigned c0 = …;" for the coordinates of `index`.
std::string coordinates(const Space& space, std::string_view index, std::string_view prefix = "c");
// "c0 * 12 + c2": where the coordinates lie in a view.
std::string place(const Space& space, std::size_t view, std::string_view prefix = "c");

// Elements that one thread takes at a time from each view: those along the last axis, as many as
// 16 bytes hold of the largest type, where all lie together or all are the same.
int vector_width(const Space& space, const std::vector<View>& views);
// The same of at most so many, whatever they take.
int vector_width(const Space& space, const std::vector<View>& views, int most);

}  // namespace xrt::cuda
