// SPDX-License-Identifier: Apache-2.0
// MatMul and Gemm for every element type; Det.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/broadcast.h"
#include "engines/native/kernels/common/gemm.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/register.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"

namespace xrt::native {

MatMulPlan plan_matmul(const Dims& a, const Dims& b) {
  if (a.empty() || b.empty()) fail("a scalar cannot be multiplied as a matrix");
  Dims left = a;
  Dims right = b;
  if (a.size() == 1) left.insert(left.begin(), 1);
  if (b.size() == 1) right.push_back(1);
  MatMulPlan plan;
  plan.m = left[left.size() - 2];
  plan.k = left.back();
  plan.n = right.back();
  if (right[right.size() - 2] != plan.k) {
    fail("cannot multiply matrices of shapes " + shape_text(a) + " and " + shape_text(b));
  }
  const Dims left_batch(left.begin(), left.end() - 2);
  const Dims right_batch(right.begin(), right.end() - 2);
  plan.batch = broadcast_dims(left_batch, right_batch);
  plan.a_strides = broadcast_strides(left_batch, plan.batch);
  plan.b_strides = broadcast_strides(right_batch, plan.batch);
  plan.output = plan.batch;
  if (a.size() > 1) plan.output.push_back(plan.m);
  if (b.size() > 1) plan.output.push_back(plan.n);
  return plan;
}

void multiply_tensors(const KernelContext& context, const Tensor& a, const Tensor& b, Tensor& y) {
  if (y.count() == 0) return;
  const MatMulPlan plan = plan_matmul(a.dims(), b.dims());
  dispatch_number(y.dtype(), [&]<typename T>() {
    for_products(plan, [&](std::int64_t i, std::int64_t ia, std::int64_t ib) {
      multiply(context, plan.m, plan.n, plan.k, a.data<T>() + ia * plan.m * plan.k, {plan.k, 1},
               b.data<T>() + ib * plan.k * plan.n, {plan.n, 1}, y.data<T>() + i * plan.m * plan.n);
    });
  });
}

namespace {

using Created = std::unique_ptr<Kernel>;

void run_matmul(KernelContext& k) {
  const Tensor& a = k.input(0);
  const Tensor& b = k.input(1);
  const DType compute = compute_dtype(a.dtype());
  Tensor& y = k.output(0, a.dtype(), plan_matmul(a.dims(), b.dims()).output);
  Tensor wide = compute == a.dtype() ? y : allocate_checked(compute, y.dims());
  multiply_tensors(k, converted(a, compute), converted(b, compute), wide);
  store_result(wide, y);
}

Created create_gemm(const KernelCreateContext& create) {
  const float alpha = need_float(create.node(), "alpha");
  const float beta = need_float(create.node(), "beta");
  const bool trans_a = need_int(create.node(), "transA") != 0;
  const bool trans_b = need_int(create.node(), "transB") != 0;
  return make_kernel([=](KernelContext& k) {
    const Tensor& a = k.input(0);
    const Tensor& b = k.input(1);
    if (a.rank() != 2 || b.rank() != 2) fail("the inputs are not matrices");
    const std::int64_t m = a.dims()[trans_a ? 1 : 0];
    const std::int64_t inner = a.dims()[trans_a ? 0 : 1];
    const std::int64_t n = b.dims()[trans_b ? 0 : 1];
    if (b.dims()[trans_b ? 1 : 0] != inner) {
      fail("cannot multiply matrices of shapes " + shape_text(a.dims()) + " and " +
           shape_text(b.dims()));
    }
    const DType compute = compute_dtype(a.dtype());
    Tensor& y = k.output(0, a.dtype(), {m, n});
    Tensor wide = compute == a.dtype() ? y : allocate_checked(compute, y.dims());
    const Tensor wa = converted(a, compute);
    const Tensor wb = converted(b, compute);
    const Tensor* c = k.optional_input(2);
    const Tensor wc = c != nullptr ? converted(*c, compute) : Tensor();
    dispatch_number(compute, [&]<typename T>() {
      T* out = wide.data<T>();
      multiply(k, m, n, inner, wa.data<T>(), trans_a ? MatrixLayout{1, m} : MatrixLayout{inner, 1},
               wb.data<T>(), trans_b ? MatrixLayout{1, inner} : MatrixLayout{n, 1}, out);
      if (alpha != 1.0F) {
        for (std::int64_t i = 0; i < m * n; ++i) out[i] = static_cast<T>(alpha * out[i]);
      }
      if (c == nullptr || beta == 0.0F || m * n == 0) return;
      if (broadcast_dims(wc.dims(), y.dims()) != y.dims()) {
        fail("C of shape " + shape_text(wc.dims()) + " does not broadcast to the product");
      }
      const Dims strides = broadcast_strides(wc.dims(), y.dims());
      TimeCheck time;
      for (std::int64_t i = 0; i < m; ++i) {
        time.spend(n);
        for (std::int64_t j = 0; j < n; ++j) {
          const T value = wc.data<T>()[i * strides[0] + j * strides[1]];
          out[i * n + j] = static_cast<T>(out[i * n + j] + static_cast<T>(beta * value));
        }
      }
    });
    store_result(wide, y);
  });
}

// --- Det ----------------------------------------------------------------------------------------

double determinant(Scratch<double> a, std::int64_t n) {
  double result = 1;
  TimeCheck time;
  for (std::int64_t c = 0; c < n; ++c) {
    std::int64_t pivot = c;
    for (std::int64_t r = c + 1; r < n; ++r) {
      if (std::fabs(a[r * n + c]) > std::fabs(a[pivot * n + c])) pivot = r;
    }
    if (a[pivot * n + c] == 0) return 0;
    if (pivot != c) {
      std::swap_ranges(a.begin() + c * n, a.begin() + (c + 1) * n, a.begin() + pivot * n);
      result = -result;
    }
    result *= a[c * n + c];
    for (std::int64_t r = c + 1; r < n; ++r) {
      const double factor = a[r * n + c] / a[c * n + c];
      for (std::int64_t j = c; j < n; ++j) a[r * n + j] -= factor * a[c * n + j];
      time.spend(n - c);
    }
  }
  return result;
}

void run_det(KernelContext& k) {
  const Tensor& x = k.input(0);
  if (x.rank() < 2 || x.dims()[x.rank() - 1] != x.dims()[x.rank() - 2]) {
    fail("the input is no square matrix");
  }
  const std::int64_t n = x.dims().back();
  Tensor& y = k.output(0, x.dtype(), Dims(x.dims().begin(), x.dims().end() - 2));
  for (std::int64_t i = 0; i < y.count(); ++i) {
    Scratch<double> matrix(static_cast<std::size_t>(n * n));
    load_double(x.dtype(), x.raw(), i * n * n, n * n, matrix.data());
    const double value = determinant(std::move(matrix), n);
    store_double(y.dtype(), &value, 1, y.raw(), i);
  }
}

Support two_numbers(const NodeView& n) {
  const Support first = n.check_input(0, kNumericTypes);
  return first ? n.check_input(1, kNumericTypes) : first;
}

}  // namespace

void register_matmul_kernels(KernelRegistry& registry) {
  registry.add({.op = "MatMul", .supports = two_numbers, .create = [](const KernelCreateContext&) {
                  return make_kernel(run_matmul);
                }});
  registry.add({.op = "Gemm", .supports = two_numbers, .create = create_gemm});
  registry.add({.op = "Det",
                .supports = [](const NodeView& n) { return n.check_input(0, kFloatTypes); },
                .create = [](const KernelCreateContext&) { return make_kernel(run_det); }});
}

}  // namespace xrt::native
