// SPDX-License-Identifier: Apache-2.0
// MatMul, Gemm, Einsum and the integer matrix products.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engines/xla/lowering.h"
#include "engines/xla/lowerings/places.h"

namespace xrt::xla {

namespace {

// NumPy's matmul. Leading dimensions of a matrix that meets a plain matrix become rows, so that one
// large product is made instead of many small ones.
Hlo matmul(NodeContext& c, Hlo a, Hlo b) {
  HloBuilder& h = c.b;
  c.need(a.rank() > 0 && b.rank() > 0, "a scalar operand");
  const bool vector_a = a.rank() == 1;
  const bool vector_b = b.rank() == 1;
  if (vector_a) a = h.reshape(a, {1, a.dims[0]});
  if (vector_b) b = h.reshape(b, {b.dims[0], 1});
  c.need(a.dims.back() == b.dims[at(b.rank() - 2)], "the inner dimensions differ");
  Hlo product;
  if (b.rank() == 2) {
    product = h.dot_general(a, b, {}, {}, {a.rank() - 1}, {0}, a.dtype);
  } else {
    const std::int64_t rank = std::max(a.rank(), b.rank());
    Dims batch(at(rank - 2), 1);
    for (const Hlo* x : {&a, &b}) {
      for (std::int64_t i = 0; i < x->rank() - 2; ++i) {
        std::int64_t& dim = batch[at(rank - x->rank() + i)];
        const std::int64_t mine = x->dims[at(i)];
        c.need(dim == 1 || mine == 1 || dim == mine, "the leading dimensions do not broadcast");
        if (mine != 1) dim = mine;
      }
    }
    const auto widen = [&](const Hlo& x) {
      Dims dims = batch;
      dims.insert(dims.end(), x.dims.end() - 2, x.dims.end());
      return h.broadcast_to(x, dims);
    };
    product = h.matmul(widen(a), widen(b), a.dtype);
  }
  Dims dims = product.dims;
  if (vector_b) dims.pop_back();
  if (vector_a) dims.erase(dims.end() - (vector_b ? 1 : 2));
  return h.reshape(product, dims);
}

void lower_matmul(NodeContext& c) {
  const Hlo a = c.in(0);
  const DType dtype = compute_dtype(a.dtype);
  c.out(c.b.convert(matmul(c, c.b.convert(a, dtype), c.b.convert(c.in(1), dtype)), a.dtype));
}

void lower_gemm(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const DType dtype = compute_dtype(result);
  const bool trans_a = c.attr("transA") != 0;
  const bool trans_b = c.attr("transB") != 0;
  const double alpha = need_float(c.node, "alpha");
  const double beta = need_float(c.node, "beta");
  c.need(c.rank(0) == 2 && c.rank(1) == 2, "operands that are not matrices");
  Hlo y = b.dot_general(b.convert(c.in(0), dtype), b.convert(c.in(1), dtype), {}, {},
                        {trans_a ? 0 : 1}, {trans_b ? 1 : 0}, dtype);
  const auto scaled = [&](const Hlo& x, double factor) {
    if (factor == 1) return x;
    if (!is_integer(dtype)) return b.binary_scalar("multiply", x, factor);
    return cast(b, b.binary_scalar("multiply", b.convert(x, DType::kFloat64), factor), dtype);
  };
  y = scaled(y, alpha);
  if (c.has(2) && beta != 0) {
    y = b.add(y, b.broadcast_to(scaled(b.convert(c.in(2), dtype), beta), y.dims));
  }
  c.out(b.convert(y, result));
}

// A zero point per tensor, or per row (left operand) or column (right operand).
Hlo centred(NodeContext& c, std::size_t operand, std::size_t zero_point, bool per_row) {
  HloBuilder& b = c.b;
  const Hlo x = b.convert(c.in(operand), DType::kInt32);
  if (!c.has(zero_point)) return x;
  Hlo zero = b.convert(c.in(zero_point), DType::kInt32);
  if (zero.rank() == 1 && per_row && zero.dims[0] != 1) zero = b.reshape(zero, {zero.dims[0], 1});
  return b.sub(x, b.broadcast_to(zero, x.dims));
}

void lower_matmul_integer(NodeContext& c) {
  c.out(matmul(c, centred(c, 0, 2, true), centred(c, 1, 3, false)));
}

// --- Einsum -------------------------------------------------------------------------------------

struct Term {
  Hlo value;
  std::string labels;  // one per dimension
};

class Einsum {
 public:
  explicit Einsum(NodeContext& c) : c_(c), b_(c.b) {}

  Hlo run(std::string equation) {
    std::erase(equation, ' ');
    const std::size_t arrow = equation.find("->");
    std::vector<std::string> inputs{""};
    for (const char letter : equation.substr(0, arrow)) {
      if (letter == ',') {
        inputs.emplace_back();
      } else {
        inputs.back().push_back(letter);
      }
    }
    c_.need(inputs.size() == c_.input_count(), "the equation's number of operands");
    std::vector<Term> terms;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Hlo x = c_.in(i);
      terms.push_back({b_.convert(x, compute_dtype(x.dtype)), expand(inputs[i], x.rank())});
    }
    std::string output;
    if (arrow != std::string::npos) {
      output = expand_output(equation.substr(arrow + 2));
    } else {
      output = implicit_output(inputs);
    }
    for (Term& term : terms) diagonal(term);
    measure(terms);
    Term total = terms[0];
    for (std::size_t i = 1; i < terms.size(); ++i) {
      std::set<char> later(output.begin(), output.end());
      for (std::size_t k = i + 1; k < terms.size(); ++k) {
        later.insert(terms[k].labels.begin(), terms[k].labels.end());
      }
      total = contract(total, terms[i], later);
    }
    return arrange(total, output);
  }

 private:
  // Dimensions that "..." stands for are labelled '0', '1', … counted from the right.
  std::string expand(const std::string& labels, std::int64_t rank) {
    const std::size_t dots = labels.find("...");
    if (dots == std::string::npos) {
      c_.need(static_cast<std::int64_t>(labels.size()) == rank, "an operand's rank");
      return labels;
    }
    const auto hidden = rank - static_cast<std::int64_t>(labels.size()) + 3;
    c_.need(hidden >= 0 && hidden < 10, "an operand's rank");
    hidden_ = std::max(hidden_, hidden);
    return labels.substr(0, dots) + dotted(hidden) + labels.substr(dots + 3);
  }
  static std::string dotted(std::int64_t count) {
    std::string out;
    for (std::int64_t i = count; i-- > 0;) out.push_back(static_cast<char>('0' + i));
    return out;
  }
  std::string expand_output(const std::string& labels) const {
    const std::size_t dots = labels.find("...");
    if (dots == std::string::npos) return labels;
    return labels.substr(0, dots) + dotted(hidden_) + labels.substr(dots + 3);
  }
  std::string implicit_output(const std::vector<std::string>& inputs) const {
    std::map<char, int> count;
    for (const std::string& labels : inputs) {
      for (const char label : labels) {
        if (label != '.') ++count[label];
      }
    }
    std::string out = dotted(hidden_);
    for (const auto& [label, times] : count) {
      if (times == 1) out.push_back(label);
    }
    return out;
  }

  // A label twice in one operand keeps only the diagonal.
  void diagonal(Term& term) {
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      const std::size_t k = term.labels.find(term.labels[i], i + 1);
      if (k == std::string::npos) continue;
      const Hlo x = term.value;
      c_.need(x.dims[i] == x.dims[k], "a repeated label's sizes");
      const Hlo on = b_.compare("EQ", b_.iota(DType::kInt64, x.dims, static_cast<std::int64_t>(i)),
                                b_.iota(DType::kInt64, x.dims, static_cast<std::int64_t>(k)));
      term.value =
          b_.reduce(b_.select(on, x, b_.zeros_like(x)), "add", {static_cast<std::int64_t>(k)});
      term.labels.erase(k, 1);
      --i;
    }
  }

  // Sizes of all labels; a dimension of size 1 that another operand broadcasts is dropped.
  void measure(std::vector<Term>& terms) {
    for (const Term& term : terms) {
      for (std::size_t i = 0; i < term.labels.size(); ++i) {
        std::int64_t& size = sizes_.emplace(term.labels[i], 1).first->second;
        const std::int64_t mine = term.value.dims[i];
        c_.need(size == 1 || mine == 1 || size == mine, "a label's sizes");
        if (mine != 1) size = mine;
      }
    }
    for (Term& term : terms) {
      Dims dims;
      std::string labels;
      for (std::size_t i = 0; i < term.labels.size(); ++i) {
        if (term.value.dims[i] == 1 && sizes_[term.labels[i]] != 1) continue;
        dims.push_back(term.value.dims[i]);
        labels.push_back(term.labels[i]);
      }
      term.value = b_.reshape(term.value, dims);
      term.labels = labels;
    }
  }

  Term sum_out(const Term& term, const std::set<char>& needed) {
    Dims axes;
    std::string labels;
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      if (needed.contains(term.labels[i])) {
        labels.push_back(term.labels[i]);
      } else {
        axes.push_back(static_cast<std::int64_t>(i));
      }
    }
    return {b_.reduce(term.value, "add", axes), labels};
  }

  Term contract(const Term& left, const Term& right, const std::set<char>& later) {
    std::set<char> for_left = later;
    for_left.insert(right.labels.begin(), right.labels.end());
    std::set<char> for_right = later;
    for_right.insert(left.labels.begin(), left.labels.end());
    const Term a = sum_out(left, for_left);
    const Term b = sum_out(right, for_right);
    Dims batch_a;
    Dims batch_b;
    Dims contract_a;
    Dims contract_b;
    std::string labels;
    for (std::size_t i = 0; i < a.labels.size(); ++i) {
      const std::size_t k = b.labels.find(a.labels[i]);
      if (k == std::string::npos) continue;
      const bool keep = later.contains(a.labels[i]);
      (keep ? batch_a : contract_a).push_back(static_cast<std::int64_t>(i));
      (keep ? batch_b : contract_b).push_back(static_cast<std::int64_t>(k));
      if (keep) labels.push_back(a.labels[i]);
    }
    for (const char label : a.labels) {
      if (b.labels.find(label) == std::string::npos) labels.push_back(label);
    }
    for (const char label : b.labels) {
      if (a.labels.find(label) == std::string::npos) labels.push_back(label);
    }
    return {
        b_.dot_general(a.value, b.value, batch_a, batch_b, contract_a, contract_b, a.value.dtype),
        labels};
  }

  Hlo arrange(const Term& term, const std::string& output) {
    const Term summed = sum_out(term, {output.begin(), output.end()});
    Dims dims;
    for (std::size_t i = 0; i < output.size(); ++i) {
      c_.need(sizes_.contains(output[i]), "a label of the output is in no operand");
      c_.need(output.find(output[i], i + 1) == std::string::npos, "a repeated label in the output");
      dims.push_back(sizes_[output[i]]);
    }
    // Transposed to the output's order, then broadcast over labels that were dropped.
    Dims permutation;
    Dims kept;
    for (std::size_t i = 0; i < output.size(); ++i) {
      const std::size_t k = summed.labels.find(output[i]);
      if (k == std::string::npos) continue;
      permutation.push_back(static_cast<std::int64_t>(k));
      kept.push_back(static_cast<std::int64_t>(i));
    }
    return b_.broadcast_in_dim(b_.transpose(summed.value, permutation), dims, kept);
  }

  NodeContext& c_;
  HloBuilder& b_;
  std::int64_t hidden_ = 0;
  std::map<char, std::int64_t> sizes_;
};

void lower_einsum(NodeContext& c) {
  Einsum einsum(c);
  c.out(c.b.convert(einsum.run(need_string(c.node, "equation")), c.dtype(0)));
}

// Determinant by elimination with partial pivoting, unrolled: for small matrices.
void lower_det(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo in = c.in(0);
  c.need(in.rank() >= 2 && in.dims.back() == in.dims[at(in.rank() - 2)], "a square matrix");
  const std::int64_t n = in.dims.back();
  c.need(n >= 1 && n <= 16, "a matrix of more than 16 rows");
  const Dims batch(in.dims.begin(), in.dims.end() - 2);
  const std::int64_t count = element_count(batch);
  Hlo m = b.reshape(b.convert(in, compute_dtype(in.dtype)), {count, n, n});
  Hlo det = b.splat(1, m.dtype, {count});
  const Hlo rows = b.iota(DType::kInt64, {count, n}, 1);
  for (std::int64_t k = 0; k < n; ++k) {
    const auto vector_in = [&](const Hlo& v, const Dims& dims) {
      return b.broadcast_in_dim(v, dims, {0});
    };
    // The row of the largest element of column k at or below k.
    const Hlo column = b.reshape(b.slice_axis(m, 2, k, k + 1), {count, n});
    const Hlo below =
        b.compare("GE", rows, b.splat(static_cast<double>(k), DType::kInt64, rows.dims));
    const Hlo size = b.select(below, b.unary("abs", column), b.splat(-1, m.dtype, column.dims));
    const Hlos best = b.reduce_many(
        {size, rows}, {b.scalar(-2, m.dtype), b.scalar(0, DType::kInt64)}, {1}, [&](const Hlos& x) {
          const Hlo keep = b.compare("GE", x[0], x[2]);
          return Hlos{b.select(keep, x[0], x[2]), b.select(keep, x[1], x[3])};
        });
    const Hlo is_pivot = b.compare("EQ", rows, vector_in(best[1], rows.dims));
    const Hlo is_k =
        b.compare("EQ", rows, b.splat(static_cast<double>(k), DType::kInt64, rows.dims));
    const auto row_of = [&](const Hlo& mask) {
      const Hlo wide = b.broadcast_in_dim(mask, m.dims, {0, 1});
      return b.reduce(b.select(wide, m, b.zeros_like(m)), "add", {1});
    };
    const Hlo pivot_row = row_of(is_pivot);
    const Hlo k_row = row_of(is_k);
    const auto spread_row = [&](const Hlo& row) { return b.broadcast_in_dim(row, m.dims, {0, 2}); };
    const auto spread_mask = [&](const Hlo& mask) {
      return b.broadcast_in_dim(mask, m.dims, {0, 1});
    };
    m = b.select(spread_mask(is_pivot), spread_row(k_row), m);
    m = b.select(spread_mask(is_k), spread_row(pivot_row), m);
    const Hlo swapped =
        b.compare("NE", best[1], b.splat(static_cast<double>(k), DType::kInt64, {count}));
    const Hlo pivot = b.reshape(b.slice_axis(pivot_row, 1, k, k + 1), {count});
    det = b.mul(det, b.select(swapped, b.unary("negate", pivot), pivot));
    const Hlo zero = b.compare("EQ", pivot, b.zeros_like(pivot));
    const Hlo divisor = b.select(zero, b.splat(1, m.dtype, {count}), pivot);
    const Hlo now = b.reshape(b.slice_axis(m, 2, k, k + 1), {count, n});
    const Hlo above =
        b.compare("LE", rows, b.splat(static_cast<double>(k), DType::kInt64, rows.dims));
    const Hlo factor = b.select(above, b.zeros_like(now), b.div(now, vector_in(divisor, now.dims)));
    m = b.sub(m, b.mul(b.broadcast_in_dim(factor, m.dims, {0, 1}), spread_row(pivot_row)));
  }
  c.out(b.convert(b.reshape(det, batch), in.dtype));
}

}  // namespace

void register_linear(LoweringTable& t) {
  t.add("MatMul", lower_matmul);
  t.add("Gemm", lower_gemm);
  t.add("MatMulInteger", lower_matmul_integer);
  t.add("Einsum", lower_einsum);
  t.add("Det", lower_det);
}

}  // namespace xrt::xla
