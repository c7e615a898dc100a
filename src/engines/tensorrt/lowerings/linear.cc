// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#include <algorithm>
#include <cctype>
#include <string>

#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

namespace {

// NumPy's rules: a vector on the left is a row, on the right a column, and that dimension goes.
void matmul(NodeContext& c) {
  c.require_float(0);
  Value a = c.in(0);
  Value b = c.in(1);
  const bool row = c.rank(0) == 1;
  const bool column = c.rank(1) == 1;
  if (row) a = c.net.unsqueeze(a, {0});
  if (column) b = c.net.unsqueeze(b, {1});
  Value y = c.net.matmul(a, b);
  const std::int64_t rank = rank_of(y);
  Dims gone;
  if (row) gone.push_back(rank - 2);
  if (column) gone.push_back(rank - 1);
  c.out(gone.empty() ? y : c.net.squeeze(y, gone));
}

// alpha A' B' + beta C
void gemm(NodeContext& c) {
  c.require_float(0);
  const double alpha = need_float(c.node, "alpha");
  const double beta = need_float(c.node, "beta");
  Value y = c.net.matmul(c.in(0), c.in(1), c.attr("transA") != 0, c.attr("transB") != 0);
  if (alpha != 1.0) y = c.net.binary(y, alpha, EW::kPROD);
  if (c.has(2)) {
    Value bias = c.in(2);
    if (beta != 1.0) bias = c.net.binary(bias, beta, EW::kPROD);
    y = c.net.binary(y, bias, EW::kSUM);
  }
  c.out(y);
}

void einsum(NodeContext& c) {
  c.require_float(0);
  std::string equation = need_string(c.node, "equation");
  std::erase_if(equation, [](unsigned char ch) { return std::isspace(ch) != 0; });
  c.need(equation.find("->") != std::string::npos, "TensorRT wants the result's axes written out");
  c.need(equation.find('.') == std::string::npos, "TensorRT has no ellipsis");
  std::vector<Value> operands;
  for (std::size_t i = 0; i < c.input_count(); ++i) operands.push_back(c.in(i));
  std::string term;
  for (const char ch : equation + ",") {
    if (std::islower(static_cast<unsigned char>(ch)) != 0) {
      c.need(term.find(ch) == std::string::npos, "TensorRT takes no diagonals");
      term += ch;
    } else {
      c.need(ch == ',' || ch == '-' || ch == '>', "TensorRT's axes are lower-case letters");
      term.clear();
    }
  }
  c.need(operands.size() <= 2, "TensorRT takes two operands at most");
  c.out(c.net.out(
      c.net.made(c.net.network().addEinsum(
                     operands.data(), static_cast<std::int32_t>(operands.size()), equation.c_str()),
                 "an einsum")));
}

}  // namespace

void register_linear(LoweringTable& t) {
  t.add("MatMul", matmul);
  t.add("Gemm", gemm);
  t.add("Einsum", einsum);
}

}  // namespace xrt::tensorrt
