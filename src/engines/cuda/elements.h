// SPDX-License-Identifier: Apache-2.0
// Code that reads the operands of fused elements and writes their results.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/fused.h"
#include "engines/cuda/plan.h"

namespace xrt::cuda {

// How the elements of one step along the last axis are read and written, from b0, b1, … (operands)
// and to d0, d1, … (results).
class Elements {
 public:
  Elements(const Fused& fused, const Space& space, int width)
      : fused_(fused), space_(space), width_(width) {}

  // Operands of which a step reads its elements at once, as w0, w1, ….
  std::vector<std::size_t> vectors(const std::string& code) const {
    std::vector<std::size_t> found;
    for (std::size_t l = 0; l < fused_.leaves.size(); ++l) {
      if (uses(code, l) && space_.strides[l].back() == 1 && width_ > 1) found.push_back(l);
    }
    return found;
  }
  // Whether an operand is the same along all axes but the last.
  bool is_repeated(std::size_t leaf) const {
    const Dims& strides = space_.strides[leaf];
    return std::all_of(strides.begin(), strides.end() - 1,
                       [](std::int64_t stride) { return stride == 0; });
  }
  // w0, w1, … of these are there already.
  void give(std::vector<std::size_t> leaves) { given_ = std::move(leaves); }

  static std::string leaf_name(std::size_t leaf) { return fmt::format("x{}_", leaf); }
  static bool uses(const std::string& code, std::size_t leaf) {
    return code.find(leaf_name(leaf)) != std::string::npos;
  }

  // b0, …, d0, … of those that are used: where the elements of a step begin, behind the statements
  // that find its coordinates.
  std::string places(const std::string& code, const Space& steps) const {
    std::string text;
    for (std::size_t l = 0; l < fused_.leaves.size(); ++l) {
      if (!uses(code, l) || is_given(l)) continue;
      text += fmt::format("const auto* b{0} = p{0} + ({1});\n", l, place(steps, l));
    }
    for (std::size_t r = 0; r < fused_.results.size(); ++r) {
      text +=
          fmt::format("auto* d{0} = q{0} + ({1});\n", r, place(steps, fused_.leaves.size() + r));
    }
    return text;
  }
  // Statements before the loop over j: what is read at once.
  std::string loads(const std::string& code) const {
    std::string text;
    for (std::size_t l = 0; l < fused_.leaves.size(); ++l) {
      if (!uses(code, l) || is_given(l)) continue;
      const DType dtype = fused_.leaves[l].dtype;
      const std::int64_t inner = space_.strides[l].back();
      if (inner == 1 && width_ > 1) {
        text += fmt::format("const Vec<{0}, {1}> w{2} = *(const Vec<{0}, {1}>*)b{2};\n",
                            stored_type(dtype), width_, l);
      } else if (inner == 0) {
        text += fmt::format("const {} u{} = {};\n", computed_type(dtype), l,
                            loaded(dtype, fmt::format("b{}[0]", l)));
      }
    }
    return text;
  }
  // Within the loop: x0_, x1_, ….
  std::string values(const std::string& code) const {
    std::string text;
    for (std::size_t l = 0; l < fused_.leaves.size(); ++l) {
      if (!uses(code, l)) continue;
      const DType dtype = fused_.leaves[l].dtype;
      const std::int64_t inner = space_.strides[l].back();
      std::string value = fmt::format("u{}", l);
      if (inner == 1 && width_ > 1) {
        value = loaded(dtype, fmt::format("w{}.v[j]", l));
      } else if (inner != 0) {
        value = loaded(dtype, fmt::format("b{}[(i64)j * {}]", l, inner));
      }
      text += fmt::format("const {} {} = {};\n", computed_type(dtype), leaf_name(l), value);
    }
    return text;
  }
  std::string declare_results() const {
    std::string text;
    for (std::size_t r = 0; r < fused_.results.size(); ++r) {
      text +=
          fmt::format("Vec<{}, {}> o{};\n", stored_type(fused_.results[r].view.dtype), width_, r);
    }
    return text;
  }
  std::string set_results() const {
    std::string text;
    for (std::size_t r = 0; r < fused_.results.size(); ++r) {
      text += fmt::format("o{}.v[j] = {};\n", r,
                          stored(fused_.results[r].view.dtype, fused_.results[r].value));
    }
    return text;
  }
  std::string write_results() const {
    std::string text;
    for (std::size_t r = 0; r < fused_.results.size(); ++r) {
      const std::int64_t inner = space_.strides[fused_.leaves.size() + r].back();
      if (inner == 1 && width_ > 1) {
        text += fmt::format("*(Vec<{0}, {1}>*)d{2} = o{2};\n",
                            stored_type(fused_.results[r].view.dtype), width_, r);
      } else {
        text += fmt::format("for (int j = 0; j < {0}; ++j) d{1}[(i64)j * {2}] = o{1}.v[j];\n",
                            width_, r, inner);
      }
    }
    return text;
  }

 private:
  bool is_given(std::size_t leaf) const {
    return std::find(given_.begin(), given_.end(), leaf) != given_.end();
  }

  const Fused& fused_;
  const Space& space_;
  int width_;
  std::vector<std::size_t> given_;
};

inline std::vector<View> all_views(const Fused& fused) {
  std::vector<View> views = fused.leaves;
  for (const Fused::Result& result : fused.results) views.push_back(result.view);
  return views;
}

inline std::vector<View> result_views(const Fused& fused) {
  std::vector<View> views;
  views.reserve(fused.results.size());
  for (const Fused::Result& result : fused.results) views.push_back(result.view);
  return views;
}

inline std::vector<Dims> strides_of(const std::vector<View>& views) {
  std::vector<Dims> strides;
  strides.reserve(views.size());
  for (const View& view : views) strides.push_back(view.strides);
  return strides;
}

// The same space in steps of `width` along its last axis.
inline Space in_steps(Space space, int width) {
  space.dims.back() /= width;
  for (Dims& strides : space.strides) strides.back() *= width;
  return space;
}

}  // namespace xrt::cuda
