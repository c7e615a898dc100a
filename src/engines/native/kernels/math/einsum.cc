// SPDX-License-Identifier: Apache-2.0
// Einsum for every element type.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/register.h"
#include "ir/attributes.h"

namespace xrt::native {
namespace {

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

// An operand of the compute type, and the label of each of its axes. An axis of size 1 is read for
// all of a label's.
struct Labelled {
  Tensor data;
  std::vector<int> labels;
};

using Labels = std::vector<int>;

bool is_in(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::map<int, std::int64_t> label_sizes(std::span<const Labelled> operands) {
  std::map<int, std::int64_t> sizes;
  for (const Labelled& operand : operands) {
    for (std::size_t a = 0; a < operand.labels.size(); ++a) {
      std::int64_t& size = sizes.emplace(operand.labels[a], 1).first->second;
      const std::int64_t own = operand.data.dims()[a];
      if (own != size && own != 1 && size != 1) fail("two sizes for one subscript");
      if (size == 1) size = own;
    }
  }
  return sizes;
}

Dims sizes_of(const Labels& labels, const std::map<int, std::int64_t>& sizes) {
  Dims dims;
  for (const int label : labels) {
    const auto found = sizes.find(label);
    if (found == sizes.end()) fail("a subscript of the output is in no input");
    dims.push_back(found->second);
  }
  return dims;
}

// y, with the axes `kept`: of the products of the operands' elements, the sums over all other
// labels.
void sum_products(const KernelContext& k, std::span<const Labelled> operands, const Labels& kept,
                  Tensor& y) {
  const std::size_t count = operands.size();
  const std::map<int, std::int64_t> sizes = label_sizes(operands);
  const Dims& dims = y.dims();
  // The loop runs over the labels that are kept, then over those that are summed.
  Labels order = kept;
  std::int64_t summed = 1;
  Dims all = dims;
  for (const auto& [label, size] : sizes) {
    if (is_in(kept, label)) continue;
    order.push_back(label);
    all.push_back(size);
    summed *= size;
  }
  std::vector<Dims> strides(count, Dims(order.size()));
  for (std::size_t i = 0; i < count; ++i) {
    const Labelled& operand = operands[i];
    const Dims dense = dense_strides(operand.data.dims());
    for (std::size_t a = 0; a < operand.labels.size(); ++a) {
      const auto at = std::find(order.begin(), order.end(), operand.labels[a]) - order.begin();
      if (operand.data.dims()[a] != 1) strides[i][static_cast<std::size_t>(at)] += dense[a];
    }
  }
  dispatch_number(y.dtype(), [&]<typename T>() {
    std::vector<const T*> data;
    for (const Labelled& operand : operands) data.push_back(operand.data.data<T>());
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
                     TimeCheck time;
                     for (std::int64_t e = begin; e < end; ++e) {
                       T sum{};
                       // A full turn of the summed axes brings them, and the offsets, back to 0,
                       // and carries into the output's axes.
                       for (std::int64_t s = 0; s < summed; ++s) {
                         T value = data[0][offset[0]];
                         for (std::size_t i = 1; i < count; ++i)
                           value = static_cast<T>(value * data[i][offset[i]]);
                         sum = static_cast<T>(sum + value);
                         time.spend(static_cast<std::int64_t>(count));
                         for (std::size_t a = order.size(); a-- > 0;) {
                           for (std::size_t i = 0; i < count; ++i) offset[i] += strides[i][a];
                           if (++index[a] < all[a]) break;
                           for (std::size_t i = 0; i < count; ++i)
                             offset[i] -= strides[i][a] * all[a];
                           index[a] = 0;
                         }
                       }
                       y.data<T>()[e] = sum;
                     }
                   });
  });
}

// The labels of operands `i` and `j` (which may be one) that the output or another operand has.
Labels still_needed(std::span<const Labelled> operands, std::size_t i, std::size_t j,
                    const Labels& output) {
  Labels needed;
  for (const std::size_t of : {i, j}) {
    for (const int label : operands[of].labels) {
      bool is_needed = is_in(output, label);
      for (std::size_t o = 0; o < operands.size() && !is_needed; ++o) {
        is_needed = o != i && o != j && is_in(operands[o].labels, label);
      }
      if (is_needed && !is_in(needed, label)) needed.push_back(label);
    }
  }
  return needed;
}

// Sums what only one operand has, then takes operands together two by two, each time those with the
// smallest result, until two are left: one loop over all labels is exponential in their number.
void contract(const KernelContext& k, std::vector<Labelled>& operands, const Labels& output) {
  const auto merged = [&](std::size_t i, std::size_t j) {
    const std::array<Labelled, 2> both{operands[i], operands[j]};
    const std::span<const Labelled> used(both.data(), i == j ? 1 : 2);
    Labels kept = still_needed(operands, i, j, output);
    const Dims dims = sizes_of(kept, label_sizes(used));
    Tensor sums = allocate_checked(operands[i].data.dtype(), dims);
    sum_products(k, used, kept, sums);
    return Labelled{std::move(sums), std::move(kept)};
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (still_needed(operands, i, i, output).size() < operands[i].labels.size()) {
      operands[i] = merged(i, i);
    }
  }
  while (operands.size() > 2) {
    std::size_t first = 0, second = 1;
    double least = HUGE_VAL;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (std::size_t j = i + 1; j < operands.size(); ++j) {
        const std::array<Labelled, 2> both{operands[i], operands[j]};
        double elements = 1;
        for (const std::int64_t size :
             sizes_of(still_needed(operands, i, j, output), label_sizes(both))) {
          elements *= static_cast<double>(size);
        }
        if (elements >= least) continue;
        least = elements;
        first = i;
        second = j;
      }
    }
    operands[first] = merged(first, second);
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(second));
  }
}

void run_einsum(KernelContext& k, const Equation& equation) {
  // Beyond, looking for the best two takes longer than it saves.
  constexpr std::size_t kMostToContract = 32;
  const std::size_t count = k.input_count();
  if (equation.inputs.size() != count) fail("the equation names another number of inputs");
  const DType dtype = k.input(0).dtype();
  const DType compute = compute_dtype(dtype);
  std::vector<Labelled> operands;
  std::size_t ellipsis = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Term& term = equation.inputs[i];
    const std::size_t named = term.before.size() + term.after.size();
    const std::size_t rank = k.input(i).rank();
    if (rank < named || (rank > named && !term.ellipsis)) {
      fail("input " + std::to_string(i) + " has another rank than its subscripts");
    }
    operands.push_back({converted(k.input(i), compute), axis_labels(term, rank - named)});
    ellipsis = std::max(ellipsis, rank - named);
  }
  const Labels output = axis_labels(equation.output, equation.output.ellipsis ? ellipsis : 0);
  const Dims dims = sizes_of(output, label_sizes(operands));
  Tensor& y = k.output(0, dtype, dims);
  if (y.count() == 0) return;
  Tensor wide = compute == dtype ? y : allocate_checked(compute, dims);
  if (count > 1 && count <= kMostToContract) contract(k, operands, output);
  sum_products(k, operands, output, wide);
  store_result(wide, y);
}

}  // namespace

void register_einsum_kernels(KernelRegistry& registry) {
  registry.add({.op = "Einsum",
                .supports = [](const NodeView& n) { return n.check_input(0, kNumericTypes); },
                .create =
                    [](const KernelCreateContext& create) {
                      return make_kernel(
                          [equation = parse_equation(need_string(create.node(), "equation"))](
                              KernelContext& k) { run_einsum(k, equation); });
                    }});
}

}  // namespace xrt::native
