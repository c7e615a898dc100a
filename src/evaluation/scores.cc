// SPDX-License-Identifier: Apache-2.0
#include "evaluation/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/element.h"
#include "measure/difference.h"
#include "xrt/error.h"

namespace xrt {
namespace {

std::vector<double> as_doubles(const Tensor& tensor, std::int64_t begin, std::int64_t end) {
  if (tensor.dtype() == DType::kFloat32) {
    const auto* data = tensor.data<float>();
    return {data + begin, data + end};
  }
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t i = begin; i < end; ++i) values.push_back(element_as_double(tensor, i));
  return values;
}

}  // namespace

Scores scores_of(const Tensor& output, std::int64_t batch) {
  if (output.rank() == 0 || output.dims()[0] != batch) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the scores are {}{}: their first dimension is not the batch of {}",
                            to_string(output.dtype()), to_string(output.dims()), batch));
  }
  const std::int64_t classes = output.count() / batch;
  if (classes < 2) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the scores are {}{}: a score per class is wanted, for two or more",
                            to_string(output.dtype()), to_string(output.dims())));
  }
  return {batch, classes, as_doubles(output, 0, output.count())};
}

Scores scores_of_steps(const Tensor& output, std::int64_t row) {
  const std::int64_t steps = output.dims()[1], classes = output.dims()[2];
  return {steps, classes, as_doubles(output, row * steps * classes, (row + 1) * steps * classes)};
}

std::int64_t best_class(const Scores& scores, std::int64_t row) {
  const double* begin = scores.row(row);
  return std::max_element(begin, begin + scores.classes) - begin;
}

std::int64_t place_of(const Scores& scores, std::int64_t row, std::int64_t label) {
  const double* values = scores.row(row);
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < scores.classes; ++i) {
    before += values[i] > values[label] || (values[i] == values[label] && i < label) ? 1 : 0;
  }
  return before;
}

bool has_no_order(const Scores& scores, std::int64_t row) {
  const double* values = scores.row(row);
  return std::any_of(values, values + scores.classes, [](double value) {
    return std::isnan(value) || value == std::numeric_limits<double>::infinity();
  });
}

}  // namespace xrt
