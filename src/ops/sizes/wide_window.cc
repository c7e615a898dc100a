// SPDX-License-Identifier: Apache-2.0
#include "ops/sizes/wide_window.h"

#include <algorithm>
#include <array>
#include <vector>

#include "ir/attributes.h"

namespace xrt {
namespace {

double window_elements(const Node& node) {
  double elements = 1;
  for (const std::int64_t size : node.attr_ints("kernel_shape")) {
    elements *= static_cast<double>(size);
  }
  return elements;
}

}  // namespace

bool is_dense_window(const Node& node) {
  const std::vector<std::int64_t> dilations = node.attr_ints("dilations");
  return std::all_of(dilations.begin(), dilations.end(), [](std::int64_t d) { return d == 1; });
}

bool is_strided_window(const Node& node) {
  const std::vector<std::int64_t> strides = node.attr_ints("strides");
  return std::any_of(strides.begin(), strides.end(), [](std::int64_t s) { return s > 1; });
}

bool has_far_window(const Node& node) {
  struct Bound {
    const char* attribute;
    std::int64_t most;
  };
  // Time grows with the square of a stride.
  constexpr auto kBounds = std::to_array<Bound>({{"strides", 1 << 12},
                                                 {"output_padding", 1 << 12},
                                                 {"pads", 1 << 14},
                                                 {"dilations", 1 << 14}});
  return std::ranges::any_of(kBounds, [&](const Bound& bound) {
    return std::ranges::any_of(node.attr_ints(bound.attribute),
                               [&](std::int64_t v) { return v > bound.most; });
  });
}

bool has_wide_window(const Node& node, const Dims& w) {
  constexpr std::int64_t kFewInputs = 16;
  constexpr std::int64_t kFewOutputs = 16;
  constexpr std::int64_t kFewDilatedOutputs = 64;
  constexpr std::int64_t kManyGroups = 8;
  const std::int64_t groups = need_int(node, "group");
  if (w.size() < 3 || groups < 1 || element_count(Dims(w.begin() + 2, w.end())) < kWideWindow) {
    return false;
  }
  // The library has vectors of channels, where windows are dense also of those of groups.
  const bool transposed = node.op == "ConvTranspose";
  const std::int64_t inputs = transposed ? w[0] / groups : w[1];
  const std::int64_t outputs = transposed ? w[1] : w[0] / groups;
  if (inputs >= kFewInputs) return false;
  if (!is_dense_window(node)) return outputs < kFewDilatedOutputs;
  return outputs < kFewOutputs && groups < kManyGroups;
}

bool has_slow_window(const Node& node, const Dims& w) {
  return has_far_window(node) || has_wide_window(node, w);
}

bool is_oversized_window(const Node& node) {
  constexpr double kMaxElements = 1 << 16;
  return window_elements(node) > kMaxElements;
}

bool is_long_pool(const Node& node, const Type& result) {
  constexpr double kSecond = 1e9;  // elements that a library walks over in about a second
  const double window = window_elements(node);
  if (is_oversized_window(node)) return true;
  if (window <= kLargePool) return false;
  if (!result.is_static()) return true;
  return window * static_cast<double>(element_count(*result.static_dims())) > kSecond;
}

bool is_long_norm(const Node& node) { return node.attr_int("size", 1) > kWideWindow; }

}  // namespace xrt
