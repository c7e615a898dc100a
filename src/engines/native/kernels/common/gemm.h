// SPDX-License-Identifier: Apache-2.0
// Reference matrix products, for element types and layouts that oneDNN does not take.
#pragma once

#include <cstdint>

#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/vector/vector_ops.h"

namespace xrt::native {

// Elements between rows and between columns.
struct MatrixLayout {
  std::int64_t row, column;
};

// c[m, n] = Σ_k a[m, k] b[k, n]; c is dense, row-major. Integers wrap.
template <typename T>
void multiply(const KernelContext& context, std::int64_t m, std::int64_t n, std::int64_t k,
              const T* a, MatrixLayout la, const T* b, MatrixLayout lb, T* c) {
  if (m * n == 0) return;
  const std::int64_t grain = std::max<std::int64_t>(65536 / std::max<std::int64_t>(n * k, 1), 1);
  context.parallel_for(m, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* row = c + i * n;
      std::fill_n(row, n, T{0});
      for (std::int64_t p = 0; p < k; ++p) {
        const T factor = a[i * la.row + p * la.column];
        const T* from = b + p * lb.row;
        if constexpr (std::is_same_v<T, float>) {
          if (lb.column == 1) {
            vector_ops().axpy(factor, from, row, n);
            continue;
          }
        }
        if constexpr (std::is_floating_point_v<T>) {
          for (std::int64_t j = 0; j < n; ++j) row[j] += factor * from[j * lb.column];
        } else {
          using U = std::conditional_t<(sizeof(T) < 8), std::uint32_t, std::uint64_t>;
          const U f = static_cast<U>(factor);
          for (std::int64_t j = 0; j < n; ++j) {
            row[j] =
                static_cast<T>(static_cast<U>(row[j]) + f * static_cast<U>(from[j * lb.column]));
          }
        }
      }
    }
  });
}

// How two inputs of MatMul broadcast: the product of `batch` pairs of matrices.
struct MatMulPlan {
  std::int64_t m, n, k;
  Dims output;
  Dims batch;      // broadcast leading axes
  Dims a_strides;  // per batch axis, in matrices
  Dims b_strides;
};
MatMulPlan plan_matmul(const Dims& a, const Dims& b);

// fn(i, ia, ib): the i-th product multiplies the ia-th and ib-th matrix.
template <typename F>
void for_products(const MatMulPlan& plan, F&& fn) {
  const std::int64_t count = element_count(plan.batch);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, ia = 0, ib = 0;
    for (std::size_t axis = plan.batch.size(); axis-- > 0;) {
      const std::int64_t at = rest % plan.batch[axis];
      rest /= plan.batch[axis];
      ia += at * plan.a_strides[axis];
      ib += at * plan.b_strides[axis];
    }
    fn(i, ia, ib);
  }
}

// y = a b for tensors of one compute type (float, double or an integer).
void multiply_tensors(const KernelContext& context, const Tensor& a, const Tensor& b, Tensor& y);

}  // namespace xrt::native
