// SPDX-License-Identifier: Apache-2.0
// What the classifiers and regressors of ai.onnx.ml share: rows of features, scores, labels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engines/native/kernel.h"

namespace xrt::native {

// What is made of the scores of a row at the end; the values are those of TreeEnsemble.
enum class PostTransform : std::uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };

// From the attribute post_transform as text; throws for a name that is not known.
PostTransform post_transform(const Node& node);

// In place. kSoftmaxZero leaves scores of 0 as they are; a row of nothing but zeros becomes halves.
void apply(PostTransform transform, double* scores, std::size_t count);

// The names of classes, integers or strings; empty() where a node gives none.
struct ClassLabels {
  std::vector<std::int64_t> integers;
  std::vector<std::string> strings;

  ClassLabels(const Node& node, const char* integers_name, const char* strings_name)
      : integers(node.attr_ints(integers_name)), strings(node.attr_strings(strings_name)) {}
  std::size_t size() const { return strings.empty() ? integers.size() : strings.size(); }
  DType dtype() const { return strings.empty() ? DType::kInt64 : DType::kString; }
  // Writes the name of class `index` as element `at`; the index itself where there are no names.
  void write(std::size_t index, Tensor& labels, std::int64_t at) const;
  // Writes what stands for none of the classes: 0 or an empty string.
  void write_none(Tensor& labels, std::int64_t at) const;
};

// Rows and columns of a matrix of numbers, or of one row where the input has rank 1; any other rank
// throws.
std::int64_t row_count(const Tensor& x);
std::int64_t column_count(const Tensor& x);

// fn(row, x) for each row, as doubles; in parallel.
void for_each_row(KernelContext& k, const Tensor& x,
                  const std::function<void(std::int64_t row, const double* x)>& fn);

// Index of the highest score; the first of equals.
std::size_t highest(const std::vector<double>& scores);

std::vector<double> to_doubles(const std::vector<float>& values);

}  // namespace xrt::native
