// SPDX-License-Identifier: Apache-2.0
#include "measure/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/element.h"

namespace xrt {

Difference compare(const Tensor& actual, const Tensor& expected, double rtol, double atol) {
  Difference difference;
  if (actual.dtype() != expected.dtype() || actual.dims() != expected.dims()) {
    difference.text = fmt::format("{}{} was expected, {}{} came out", to_string(expected.dtype()),
                                  to_string(expected.dims()), to_string(actual.dtype()),
                                  to_string(actual.dims()));
    return difference;
  }
  if (actual.dtype() == DType::kString) {
    difference.within = actual.identical(expected);
    difference.text = difference.within ? "equal" : "the strings differ";
    return difference;
  }
  std::int64_t outside = 0;
  std::int64_t first = -1;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (std::int64_t i = 0; i < actual.count(); ++i) {
    const double a = element_as_double(actual, i);
    const double e = element_as_double(expected, i);
    if (std::isfinite(e)) {
      low = std::min(low, e);
      high = std::max(high, e);
    }
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    const double distance = std::abs(a - e);
    if (std::isfinite(distance)) {
      difference.max_absolute = std::max(difference.max_absolute, distance);
    }
    if (!(distance <= atol + rtol * std::abs(e))) {
      if (first < 0) first = i;
      ++outside;
    }
  }
  const double range = high > low ? high - low : std::max(std::abs(high), 1e-30);
  difference.max_of_range = std::isfinite(range) ? difference.max_absolute / range : 0.0;
  difference.within = outside == 0;
  if (difference.within) {
    difference.text = fmt::format("agrees, largest difference {:.3g}", difference.max_absolute);
  } else {
    difference.text = fmt::format(
        "{} of {} elements differ, the first at index {}: {:.6g}, expected {:.6g}; largest "
        "difference {:.3g}",
        outside, actual.count(), first, element_as_double(actual, first),
        element_as_double(expected, first), difference.max_absolute);
  }
  return difference;
}

}  // namespace xrt
