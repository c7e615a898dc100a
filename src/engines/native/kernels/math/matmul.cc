// SPDX-License-Identifier: Apache-2.0
// MatMul, Gemm and Einsum for every element type; Det.
#include <algorithm>
#include <array>
#include <cmath>

#include "engines/native/context.h"
#include "engines/native/kernels/common/broadcast.h"
#include "engines/native/kernels/common/gemm.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/register.h"
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

void store_result(const Tensor& wide, Tensor& y) {
  if (wide.raw() == y.raw()) return;
  const Tensor narrow = converted(wide, y.dtype());
  copy_elements(y.dtype(), narrow.raw(), 0, y.raw(), 0, y.count());
}

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
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const T value = wc.data<T>()[i * strides[0] + j * strides[1]];
          out[i * n + j] = static_cast<T>(out[i * n + j] + static_cast<T>(beta * value));
        }
      }
    });
    store_result(wide, y);
  });
}

// --- Einsum -------------------------------------------------------------------------------------

// The subscripts of one operand; an ellipsis stands for as many axes as the operand has left.
struct Term {
  std::vector<int> before, after;  // labels around the ellipsis
  bool ellipsis = false;
};

struct Equation {
  std::vector<Term> inputs;
  Term output;
};

Term parse_term(const std::string& text) {
  Term term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "...") == 0) {
      if (term.ellipsis) fail("two ellipses in '" + text + "'");
      term.ellipsis = true;
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      (term.ellipsis ? term.after : term.before).push_back(static_cast<unsigned char>(text[i]));
    } else {
      fail("'" + text + "' is not a list of subscripts");
    }
  }
  return term;
}

Equation parse_equation(std::string text) {
  std::erase(text, ' ');
  Equation equation;
  const std::size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  for (std::size_t begin = 0; begin <= left.size();) {
    const std::size_t comma = std::min(left.find(',', begin), left.size());
    equation.inputs.push_back(parse_term(left.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  if (arrow != std::string::npos) {
    equation.output = parse_term(text.substr(arrow + 2));
    return equation;
  }
  // Implicit: an ellipsis first, then every label that occurs once, sorted.
  std::array<int, 128> count{};
  for (const Term& term : equation.inputs) {
    equation.output.ellipsis = equation.output.ellipsis || term.ellipsis;
    for (const int label : term.before) ++count[label & 127];
    for (const int label : term.after) ++count[label & 127];
  }
  for (int label = 0; label < 128; ++label) {
    if (count[label] == 1) equation.output.after.push_back(label);
  }
  return equation;
}

// Labels of an operand's axes; axes of the ellipsis are numbered from -1 backwards, the last -1.
std::vector<int> axis_labels(const Term& term, std::size_t ellipsis_rank) {
  std::vector<int> labels = term.before;
  if (term.ellipsis) {
    for (std::size_t i = 0; i < ellipsis_rank; ++i) {
      labels.push_back(-static_cast<int>(ellipsis_rank - i));
    }
  }
  labels.insert(labels.end(), term.after.begin(), term.after.end());
  return labels;
}

void run_einsum(KernelContext& k, const Equation& equation) {
  const std::size_t count = k.input_count();
  if (equation.inputs.size() != count) fail("the equation names another number of inputs");
  const DType dtype = k.input(0).dtype();
  const DType compute = compute_dtype(dtype);
  std::vector<Tensor> inputs;
  std::vector<std::vector<int>> labels;
  std::size_t ellipsis = 0;
  for (std::size_t i = 0; i < count; ++i) {
    inputs.push_back(converted(k.input(i), compute));
    const Term& term = equation.inputs[i];
    const std::size_t named = term.before.size() + term.after.size();
    const std::size_t rank = inputs[i].rank();
    if (rank < named || (rank > named && !term.ellipsis)) {
      fail("input " + std::to_string(i) + " has another rank than its subscripts");
    }
    labels.push_back(axis_labels(term, rank - named));
    ellipsis = std::max(ellipsis, rank - named);
  }
  const std::vector<int> output_labels =
      axis_labels(equation.output, equation.output.ellipsis ? ellipsis : 0);
  std::map<int, std::int64_t> sizes;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t a = 0; a < labels[i].size(); ++a) {
      std::int64_t& size = sizes.emplace(labels[i][a], 1).first->second;
      const std::int64_t own = inputs[i].dims()[a];
      if (own != size && own != 1 && size != 1) fail("two sizes for one subscript");
      if (size == 1) size = own;
    }
  }
  // The loop runs over the output's labels, then over those that are summed.
  std::vector<int> order = output_labels;
  Dims dims;
  for (const int label : output_labels) {
    if (!sizes.contains(label)) fail("a subscript of the output is in no input");
    dims.push_back(sizes[label]);
  }
  std::int64_t summed = 1;
  Dims all = dims;
  for (const auto& [label, size] : sizes) {
    if (std::find(order.begin(), order.end(), label) != order.end()) continue;
    order.push_back(label);
    all.push_back(size);
    summed *= size;
  }
  Tensor& y = k.output(0, dtype, dims);
  Tensor wide = compute == dtype ? y : allocate_checked(compute, dims);
  std::vector<Dims> strides(count, Dims(order.size()));
  for (std::size_t i = 0; i < count; ++i) {
    const Dims dense = dense_strides(inputs[i].dims());
    for (std::size_t a = 0; a < labels[i].size(); ++a) {
      const auto at = static_cast<std::size_t>(std::find(order.begin(), order.end(), labels[i][a]) -
                                               order.begin());
      if (inputs[i].dims()[a] != 1) strides[i][at] += dense[a];
    }
  }
  dispatch_number(compute, [&]<typename T>() {
    std::vector<const T*> data;
    for (const Tensor& input : inputs) data.push_back(input.data<T>());
    k.parallel_for(y.count(), std::max<std::int64_t>(8192 / std::max<std::int64_t>(summed, 1), 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     std::vector<std::int64_t> index(order.size());
                     std::vector<std::int64_t> offset(count);
                     std::int64_t rest = begin;
                     for (std::size_t a = dims.size(); a-- > 0;) {
                       index[a] = rest % dims[a];
                       rest /= dims[a];
                       for (std::size_t i = 0; i < count; ++i)
                         offset[i] += index[a] * strides[i][a];
                     }
                     for (std::int64_t e = begin; e < end; ++e) {
                       T sum{};
                       // A full turn of the summed axes brings them, and the offsets, back to 0,
                       // and carries into the output's axes.
                       for (std::int64_t s = 0; s < summed; ++s) {
                         T value = data[0][offset[0]];
                         for (std::size_t i = 1; i < count; ++i)
                           value = static_cast<T>(value * data[i][offset[i]]);
                         sum = static_cast<T>(sum + value);
                         for (std::size_t a = order.size(); a-- > 0;) {
                           for (std::size_t i = 0; i < count; ++i) offset[i] += strides[i][a];
                           if (++index[a] < all[a]) break;
                           for (std::size_t i = 0; i < count; ++i)
                             offset[i] -= strides[i][a] * all[a];
                           index[a] = 0;
                         }
                       }
                       wide.data<T>()[e] = sum;
                     }
                   });
  });
  store_result(wide, y);
}

// --- Det ----------------------------------------------------------------------------------------

double determinant(std::vector<double> a, std::int64_t n) {
  double result = 1;
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
    std::vector<double> matrix(static_cast<std::size_t>(n * n));
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
  registry.add({.op = "Einsum",
                .supports = [](const NodeView& n) { return n.check_input(0, kNumericTypes); },
                .create =
                    [](const KernelCreateContext& create) {
                      return make_kernel(
                          [equation = parse_equation(need_string(create.node(), "equation"))](
                              KernelContext& k) { run_einsum(k, equation); });
                    }});
  registry.add({.op = "Det",
                .supports = [](const NodeView& n) { return n.check_input(0, kFloatTypes); },
                .create = [](const KernelCreateContext&) { return make_kernel(run_det); }});
}

}  // namespace xrt::native
