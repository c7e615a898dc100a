// SPDX-License-Identifier: Apache-2.0
// Products: MatMul, Gemm, Einsum, Det.
#include <algorithm>
#include <set>
#include <string>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

Var swapped(Var x, std::int64_t rank) {
  Dims perm = range(0, rank);
  std::swap(perm[rank - 1], perm[rank - 2]);
  return transpose(x, perm);
}

Type with_batch(const Type& y, const Type& x) {
  // The shape of a product gradient before it is summed: y's batch, x's matrix.
  Shape shape(y.shape->begin(), y.shape->end() - 2);
  shape.insert(shape.end(), x.shape->end() - 2, x.shape->end());
  return Type::tensor(x.dtype, std::move(shape));
}

void matmul_rule(Rule& r) {
  const std::int64_t a_rank = r.x_rank(0);
  const std::int64_t b_rank = r.x_rank(1);
  Var a = r.x(0);
  Var b = r.x(1);
  Var dy = r.dy();
  Type a_type = r.x_type(0);
  Type b_type = r.x_type(1);
  Type y_type = r.y_type();
  // Vectors are matrices of one row or column.
  if (a_rank == 1) {
    a = unsqueeze(a, {0});
    a_type.shape->insert(a_type.shape->begin(), Dim(1));
    dy = unsqueeze(dy, {b_rank == 1 ? -1 : -2});
    y_type.shape->insert(y_type.shape->end() - (b_rank == 1 ? 0 : 1), Dim(1));
  }
  if (b_rank == 1) {
    b = unsqueeze(b, {1});
    b_type.shape->push_back(Dim(1));
    dy = unsqueeze(dy, {-1});
    y_type.shape->push_back(Dim(1));
  }
  const auto ar = static_cast<std::int64_t>(a_type.rank());
  const auto br = static_cast<std::int64_t>(b_type.rank());
  const auto yr = static_cast<std::int64_t>(y_type.rank());
  if (r.needs(0)) {
    const Var g = r.sum_to(matmul(dy, swapped(b, br)), with_batch(y_type, a_type), a_type, a);
    r.give(0, a_rank == 1 ? squeeze(g, {0}) : g);
  }
  if (r.needs(1)) {
    // A batch of rows times one matrix: one product over all rows instead of a sum of products.
    const auto a_dims = a_type.static_dims();
    const auto y_dims = y_type.static_dims();
    if (br == 2 && yr > 2 && a_dims && y_dims && ar == yr) {
      const Var rows = reshape(a, {-1, a_dims->back()});
      const Var g = matmul(transpose(rows, {1, 0}), reshape(dy, {-1, y_dims->back()}));
      r.give(1, b_rank == 1 ? squeeze(g, {1}) : g);
      return;
    }
    const Var g = r.sum_to(matmul(swapped(a, ar), dy), with_batch(y_type, b_type), b_type, b);
    r.give(1, b_rank == 1 ? squeeze(g, {1}) : g);
  }
}

Var gemm(Var a, Var b, bool a_turned, bool b_turned, double alpha) {
  Attributes attributes;
  if (a_turned) attributes["transA"] = std::int64_t{1};
  if (b_turned) attributes["transB"] = std::int64_t{1};
  if (alpha != 1) attributes["alpha"] = static_cast<float>(alpha);
  return a.e->op("Gemm", {a, b}, std::move(attributes));
}

void gemm_rule(Rule& r) {
  const bool ta = r.attr("transA") != 0;
  const bool tb = r.attr("transB") != 0;
  const double alpha = need_float(r.node, "alpha");
  const double beta = need_float(r.node, "beta");
  const Var a = r.x(0);
  const Var b = r.x(1);
  const Var dy = r.dy();
  if (r.needs(0)) r.give(0, ta ? gemm(b, dy, tb, true, alpha) : gemm(dy, b, false, !tb, alpha));
  if (r.needs(1)) r.give(1, tb ? gemm(dy, a, true, ta, alpha) : gemm(a, dy, !ta, false, alpha));
  if (r.needs(2)) r.give_broadcast(2, beta == 1 ? dy : dy * beta);
}

struct Equation {
  std::vector<std::string> terms;
  std::string result;
};

// Letters stand for one axis each; "..." is replaced by upper-case letters that are not used.
Equation parse_equation(Rule& r) {
  std::string text;
  for (const char c : need_string(r.node, "equation")) {
    if (c != ' ') text += c;
  }
  Equation equation;
  const std::size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= left.size(); ++i) {
    if (i == left.size() || left[i] == ',') {
      equation.terms.push_back(left.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (equation.terms.size() != r.input_count()) r.refuse("the equation does not fit the inputs");
  std::size_t widest = 0;
  for (std::size_t i = 0; i < equation.terms.size(); ++i) {
    const std::string& term = equation.terms[i];
    if (term.find("...") == std::string::npos) continue;
    const auto rank = static_cast<std::size_t>(r.x_rank(i));
    if (rank + 3 < term.size()) r.refuse("the equation does not fit the ranks");
    widest = std::max(widest, rank + 3 - term.size());
  }
  std::string spare;
  for (char c = 'A'; c <= 'Z' && spare.size() < widest; ++c) {
    if (text.find(c) == std::string::npos) spare += c;
  }
  if (spare.size() < widest) r.refuse("the equation has no letters left for '...'");
  const auto spell = [&](std::string term, std::size_t covered) {
    const std::size_t at = term.find("...");
    if (at != std::string::npos) term.replace(at, 3, spare.substr(widest - covered));
    return term;
  };
  if (arrow == std::string::npos) {
    std::string once;
    std::set<char> letters(left.begin(), left.end());
    for (const char c : letters) {
      if (c != ',' && c != '.' && std::count(left.begin(), left.end(), c) == 1) once += c;
    }
    equation.result = (widest > 0 ? spare : "") + once;
  } else {
    equation.result = spell(text.substr(arrow + 2), widest);
  }
  for (std::size_t i = 0; i < equation.terms.size(); ++i) {
    const std::string term = equation.terms[i];
    const bool dots = term.find("...") != std::string::npos;
    equation.terms[i] =
        spell(term, dots ? static_cast<std::size_t>(r.x_rank(i)) + 3 - term.size() : 0);
  }
  return equation;
}

void einsum_rule(Rule& r) {
  const Equation equation = parse_equation(r);
  for (std::size_t i = 0; i < r.input_count(); ++i) {
    if (!r.needs(i)) continue;
    const std::string& own = equation.terms[i];
    if (std::set<char>(own.begin(), own.end()).size() != own.size()) {
      r.refuse("a diagonal (a letter twice in one operand)");
    }
    // The product of the result's gradient and all other operands, summed over what is not ours.
    std::vector<Var> operands{r.dy()};
    std::string left = equation.result;
    std::string seen = left;
    for (std::size_t k = 0; k < r.input_count(); ++k) {
      if (k == i) continue;
      operands.push_back(r.x(k));
      left += "," + equation.terms[k];
      seen += equation.terms[k];
    }
    std::string shared;
    Dims missing;
    const Dims dims = r.x_dims(i);
    for (std::size_t k = 0; k < own.size(); ++k) {
      if (seen.find(own[k]) != std::string::npos) {
        shared += own[k];
      } else {
        missing.push_back(static_cast<std::int64_t>(k));
      }
    }
    Var g = r.e.op("Einsum", operands, {{"equation", left + "->" + shared}});
    // A letter that nobody else has was summed over alone: its gradient is the same all along it.
    if (!missing.empty()) g = expand(unsqueeze(g, missing), dims);
    r.give(i, g);
  }
}

// d det(A) = det(A) * inverse(A)^T, by solving with the adjugate for sizes up to 3.
void det_rule(Rule& r) {
  const Dims dims = r.x_dims();
  const std::int64_t n = dims.back();
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (n > 3) r.refuse("matrices larger than 3 x 3");
  const Var dy = unsqueeze(r.dy(), {-2, -1});
  if (n == 1) return r.give(0, reshape(r.dy(), dims));
  const Var a = r.x();
  const auto at = [&](std::int64_t i, std::int64_t k) {
    return slice(a, {i % n, k % n}, {i % n + 1, k % n + 1}, {rank - 2, rank - 1});
  };
  std::vector<Var> rows;
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<Var> row;
    for (std::int64_t k = 0; k < n; ++k) {
      if (n == 2) {
        row.push_back(i == k ? at(i + 1, k + 1) : -at(i + 1, k + 1));
      } else {
        row.push_back(at(i + 1, k + 1) * at(i + 2, k + 2) - at(i + 1, k + 2) * at(i + 2, k + 1));
      }
    }
    rows.push_back(concat(row, rank - 1));
  }
  r.give(0, concat(rows, rank - 2) * dy);
}

}  // namespace

void register_matrix(RuleRegistry& registry) {
  registry.add("MatMul", matmul_rule);
  registry.add("Gemm", gemm_rule);
  registry.add("Einsum", einsum_rule);
  registry.add("Det", det_rule);
}

}  // namespace xrt::autodiff
