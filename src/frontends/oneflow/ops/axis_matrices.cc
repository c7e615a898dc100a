// SPDX-License-Identifier: Apache-2.0
#include "frontends/oneflow/ops/axis_matrices.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace xrt::oneflow {

Tensor zero_matrix(const Lowering& l, std::int64_t out, std::int64_t in) {
  l.table_size(element_count(Dims{out, in}));
  Tensor matrix = Tensor::allocate(DType::kFloat32, {out, in});
  std::fill_n(matrix.data<float>(), matrix.count(), 0.0F);
  return matrix;
}

ValueId apply_matrices(Lowering& l, ValueId x, DType dtype, const std::vector<Tensor>& matrices,
                       bool transposed, std::int64_t rank) {
  for (std::size_t axis = 0; axis < matrices.size(); ++axis) {
    // That axis last, the product, and back.
    std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[axis + 2], order[static_cast<std::size_t>(rank) - 1]);
    ValueId matrix = l.constant(matrices[axis]);
    if (dtype != DType::kFloat32) matrix = l.cast(matrix, dtype);
    x = l.op("MatMul", {l.transpose(x, order), transposed ? matrix : l.transpose(matrix, {1, 0})});
    x = l.transpose(x, order);
  }
  return x;
}

}  // namespace xrt::oneflow
