// SPDX-License-Identifier: Apache-2.0
// Kernels that compute element by element, and those with an op over rows among them.
#pragma once

#include <string>
#include <vector>

#include "engines/cuda/plan.h"
#include "xrt/engine.h"

namespace xrt::cuda {

class Planner;
struct Group;

struct Fused {
  struct Result {
    View view;
    std::string value;  // an expression
  };
  std::string what;
  Dims dims;
  std::vector<View> leaves;  // operands, broadcast to `dims`; the code finds them in x0_, x1_, …
  std::string code;          // statements that compute one element
  std::vector<Result> results;  // of `dims`
};

void emit_pointwise(Planner& planner, const Fused& fused);

// With one op over rows: `before` computes v_ of each element of a row, `Fused::code` and the
// results then find y_ there.
struct OverRows {
  enum class Kind : std::uint8_t { kSoftmax, kLogSoftmax, kLayerNorm, kRmsNorm };
  Kind kind = Kind::kSoftmax;
  std::string type = "float";     // computed in
  std::vector<std::size_t> axes;  // that make a row
  std::string before;
  std::string epsilon;      // a literal
  std::string scale, bias;  // expressions, or empty
};
void emit_over_rows(Planner& planner, const Fused& fused, const OverRows& rows);

// Of the results of a product of bytes (integers.h): the code finds each one's sum in sum_. Results
// lie by row, or channels last where `node` is a convolution. `group`: what is computed of them.
void emit_over_integers(Planner& planner, const Fused& fused, const NodeView& node,
                        const Group& group);

// Steps of a group of such nodes.
void emit_fused(Planner& planner, const Group& group);

}  // namespace xrt::cuda
