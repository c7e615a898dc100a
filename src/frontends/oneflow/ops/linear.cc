// SPDX-License-Identifier: Apache-2.0
// Matrix products and biases.
#include <algorithm>
#include <numeric>

#include "frontends/oneflow/lowering.h"

namespace xrt::oneflow {
namespace {

// The last two dimensions of a tensor exchanged.
ValueId matrix_transposed(Lowering& l, ValueId x, std::int64_t rank) {
  if (rank < 2) l.invalid("a matrix is wanted");
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return l.transpose(x, order);
}

// alpha · a · b, plus what is to be added.
void product(Lowering& l) {
  const double alpha = l.real("alpha", 1);
  const bool transpose_a = l.flag("transpose_a"), transpose_b = l.flag("transpose_b");
  if (l.rank(0) < 2 || l.rank(1) < 2) l.unsupported("a product of vectors");
  ValueId y;
  if (l.rank(0) == 2 && l.rank(1) == 2 && is_floating(l.dtype())) {
    std::vector<ValueId> inputs{l.in(0), l.in(1)};
    if (l.has(2)) inputs.push_back(l.in(2));
    y = l.op("Gemm", inputs,
             {{"transA", static_cast<std::int64_t>(transpose_a)},
              {"transB", static_cast<std::int64_t>(transpose_b)},
              {"alpha", static_cast<float>(alpha)}});
  } else {
    const ValueId a = transpose_a ? matrix_transposed(l, l.in(0), l.rank(0)) : l.in(0);
    const ValueId b = transpose_b ? matrix_transposed(l, l.in(1), l.rank(1)) : l.in(1);
    y = l.op("MatMul", {a, b});
    if (alpha != 1) y = l.mul(y, l.scalar(alpha, l.dtype()));
    if (l.has(2)) y = l.add(y, l.in(2));
  }
  l.result(0, y);
}

// The gradient of b in a · b, where a has more dimensions: rows of all leading ones together.
void broadcast_matmul_grad_b(Lowering& l) {
  const Dims a = l.dims(0), b = l.dims(1);
  if (a.empty() || b.empty()) l.invalid("the operands have no dimensions");
  const ValueId rows_a = l.reshape(l.in(0), {-1, a.back()});
  const ValueId rows_b = l.reshape(l.in(1), {-1, b.back()});
  ValueId y =
      l.op("Gemm", {rows_a, rows_b},
           {{"transA", std::int64_t{1}}, {"alpha", static_cast<float>(l.real("alpha", 1))}});
  if (l.has(2)) y = l.add(y, l.in(2));
  l.result(0, y);
}

// x · wᵀ + b
void fused_matmul_bias(Lowering& l) {
  ValueId y = l.op("MatMul", {l.in(0), matrix_transposed(l, l.in(1), l.rank(1))});
  if (l.has(2)) y = l.add(y, l.in(2));
  l.result(0, y);
}

ValueId biased(Lowering& l) {
  const std::int64_t rank = l.rank();
  const std::int64_t axis = l.axis(l.integer("axis", 1), rank);
  std::vector<std::int64_t> ones;
  for (std::int64_t i = axis + 1; i < rank; ++i) ones.push_back(i - axis);
  return l.add(l.in(0), l.unsqueeze(l.in(1), ones));
}

void bias_add(Lowering& l) { l.result(0, biased(l)); }

void fused_bias_add_gelu(Lowering& l) { l.result(0, l.op("Gelu", {biased(l)})); }

}  // namespace

void register_linear(Registry& r) {
  r.add({"batch_matmul", "broadcast_matmul", "matmul"}, product);
  r.add("broadcast_matmul_grad_b", broadcast_matmul_grad_b);
  r.add({"fully_connected", "fused_matmul_bias"}, fused_matmul_bias);
  r.add("bias_add", bias_add);
  r.add("fused_bias_add_gelu", fused_bias_add_gelu);
}

}  // namespace xrt::oneflow
