// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/ml/ml_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/text.h"
#include "engines/native/scratch.h"

namespace xrt::native {

namespace {

// The inverse of the normal distribution's cumulative function, by bisection.
double probit(double p) {
  if (p <= 0) return -std::numeric_limits<double>::infinity();
  if (p >= 1) return std::numeric_limits<double>::infinity();
  double low = -40, high = 40;
  for (int i = 0; i < 200 && high - low > 1e-13; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

void softmax(double* scores, std::size_t count, bool keep_zeros) {
  // As small as these count as zero: the accumulated error of sums in float.
  constexpr double kZero = 1e-7;
  const double most = *std::max_element(scores, scores + count);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (keep_zeros && std::fabs(scores[i]) <= kZero) {
      scores[i] *= std::exp(-most);
    } else {
      scores[i] = std::exp(scores[i] - most);
    }
    sum += scores[i];
  }
  for (std::size_t i = 0; i < count; ++i) scores[i] = sum == 0 ? 0.5 : scores[i] / sum;
}

}  // namespace

PostTransform post_transform(const Node& node) {
  const std::string name = node.attr_string("post_transform", "NONE");
  if (name == "NONE") return PostTransform::kNone;
  if (name == "SOFTMAX") return PostTransform::kSoftmax;
  if (name == "LOGISTIC") return PostTransform::kLogistic;
  if (name == "SOFTMAX_ZERO") return PostTransform::kSoftmaxZero;
  if (name == "PROBIT") return PostTransform::kProbit;
  fail("post_transform '" + name + "' is not known");
}

void apply(PostTransform transform, double* scores, std::size_t count) {
  if (count == 0) return;
  double* const end = scores + count;
  switch (transform) {
    case PostTransform::kNone:
      return;
    case PostTransform::kLogistic:
      std::transform(scores, end, scores, [](double v) { return 1 / (1 + std::exp(-v)); });
      return;
    case PostTransform::kProbit:
      std::transform(scores, end, scores, probit);
      return;
    case PostTransform::kSoftmax:
    case PostTransform::kSoftmaxZero:
      softmax(scores, count, transform == PostTransform::kSoftmaxZero);
      return;
  }
}

void ClassLabels::write(std::size_t index, Tensor& labels, std::int64_t at) const {
  if (!strings.empty()) {
    assign_element(labels.strings()[at], strings.at(index));
  } else if (!integers.empty()) {
    labels.data<std::int64_t>()[at] = integers.at(index);
  } else {
    labels.data<std::int64_t>()[at] = static_cast<std::int64_t>(index);
  }
}

void ClassLabels::write_none(Tensor& labels, std::int64_t at) const {
  if (!strings.empty()) {
    labels.strings()[at].clear();
  } else {
    labels.data<std::int64_t>()[at] = 0;
  }
}

std::int64_t row_count(const Tensor& x) { return x.rank() == 1 ? 1 : x.dims().at(0); }

std::int64_t column_count(const Tensor& x) {
  if (x.rank() != 1 && x.rank() != 2) fail("the input is neither a matrix nor a list");
  return x.dims().back();
}

void for_each_row(KernelContext& k, const Tensor& x,
                  const std::function<void(std::int64_t row, const double* x)>& fn) {
  const std::int64_t width = column_count(x);
  k.parallel_for(row_count(x), 64, [&](std::int64_t begin, std::int64_t end) {
    Scratch<double> row(static_cast<std::size_t>(width));
    for (std::int64_t i = begin; i < end; ++i) {
      load_double(x.dtype(), x.raw(), i * width, width, row.data());
      fn(i, row.data());
    }
  });
}

std::size_t highest(const std::vector<double>& scores) {
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

std::vector<double> to_doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

}  // namespace xrt::native
