// SPDX-License-Identifier: Apache-2.0
#include "cli/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/element.h"
#include "cli/text.h"

namespace xrt::cli {
namespace {

std::string elements_text(const Tensor& tensor) {
  constexpr std::int64_t kShown = 6;
  std::string text;
  const std::int64_t count = std::min(tensor.count(), kShown);
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    if (tensor.dtype() == DType::kString) {
      text += fmt::format("\"{}\"", tensor.strings()[i]);
    } else {
      text += fmt::format("{:.5g}", element_as_double(tensor, i));
    }
  }
  return tensor.count() > kShown ? text + ", …" : text;
}

}  // namespace

void print_data(const std::string& name, const Data& data, int top, int indent) {
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  if (data.is_none()) {
    fmt::print("{}{}: none\n", margin, name);
    return;
  }
  if (data.is_sequence()) {
    fmt::print("{}{}: sequence of {}\n", margin, name, plural(data.items().size(), "item"));
    for (std::size_t i = 0; i < data.items().size(); ++i) {
      print_data(fmt::format("[{}]", i), data.items()[i], top, indent + 2);
    }
    return;
  }
  const Tensor& tensor = data.tensor();
  fmt::print("{}{}: {}{} {}\n", margin, name, to_string(tensor.dtype()), to_string(tensor.dims()),
             elements_text(tensor));
  if (top <= 0 || tensor.dtype() == DType::kString) return;
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.count()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  const auto shown = std::min(order.size(), static_cast<std::size_t>(top));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](std::int64_t a, std::int64_t b) {
                      return element_as_double(tensor, a) > element_as_double(tensor, b);
                    });
  for (std::size_t i = 0; i < shown; ++i) {
    fmt::print("{}  {:>6}  {:.6g}\n", margin, order[i], element_as_double(tensor, order[i]));
  }
}

}  // namespace xrt::cli
