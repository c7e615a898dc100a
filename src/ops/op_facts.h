// SPDX-License-Identifier: Apache-2.0
// What is known of an op beyond its schema (ops/schema.h): how much work it is and what it does to
// elements. One row per op, of the standard and of the domain "xrt", in op_facts.cc.
#pragma once

#include <cstdint>
#include <string_view>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// How arithmetic grows with the operands.
enum class CostClass : std::uint8_t {
  kElements,    // with what is read and written
  kWindows,     // elements of `result` times the size of a filter
  kPool,        // elements of the result times those of a window that lie in the image
  kProduct,     // elements of the result times the inner dimension
  kRecurrence,  // both matrices of a cell, over all steps
  kAttention,
};

// What becomes of the elements of the first input.
enum class Moves : std::uint8_t {
  kNo,       // they are computed with
  kView,     // the same elements in the same order
  kPermute,  // the same elements
  kSelect,   // some of them, each once
  kRepeat,   // all of them, some more than once
  kPick,     // some of them, any number of times
};

// Whether each element comes out at most once: the result is no larger than the input.
constexpr bool at_most_once(Moves moves) {
  return moves == Moves::kView || moves == Moves::kPermute || moves == Moves::kSelect;
}

struct OpFacts {
  std::string_view domain = {}, op = {};
  CostClass cost = CostClass::kElements;
  // Of kWindows: the operand that holds the filters, and the value whose elements are counted;
  // ~i is output i.
  int filters = 1, result = ~0;
  Moves moves = Moves::kNo;
  // A few operations per element, so that computing it again costs less than keeping it.
  bool cheap = false;
  bool on_bytes = false;  // arithmetic on 8-bit numbers
  // Computed in half precision it loses about what its operands lost when they were rounded.
  bool keeps_half = false;
  // Rounds to few values: a difference in the last bit of an input may become one of a whole step.
  bool rounds = false;
  // Compares, sorts or chooses: a difference in the last bit of an input may change the result by
  // any amount.
  bool jumps = false;
};

// How a function is brought to half precision (passes/narrow_floats.h).
enum class Narrowing : std::uint8_t {
  kNo,       // computed in float32: norms, softmax, exponentials, reductions, losses, recurrences
  kFactors,  // products and convolutions: operands are rounded, sums are the engine's
  kFollows,  // in half precision where what it reads is
};
XRT_API Narrowing narrowing(const Node& node);

// A row of nothing but its name for an op without one.
XRT_API const OpFacts& op_facts(const Node& node);

// Whether each element of the result is made of the operands' elements at its place, after
// broadcasting; of the standard's ops.
XRT_API bool is_elementwise(const Node& node);

}  // namespace xrt
