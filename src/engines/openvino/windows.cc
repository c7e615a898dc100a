// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/windows.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "engines/openvino/rules.h"
#include "ir/attributes.h"
#include "ops/sizes/padding.h"
#include "ops/sizes/wide_window.h"

namespace xrt::openvino {
namespace {

// Whether a window of a convolution may lie in the padding alone: what the plugin reads and writes
// for it lies outside of the image.
bool may_leave_image(const Graph& graph, const Node& node) {
  const std::vector<std::int64_t> pads = node.attr_ints("pads");
  if (std::all_of(pads.begin(), pads.end(), [](std::int64_t pad) { return pad <= 0; }))
    return false;
  const std::size_t axes = pads.size() / 2;
  std::vector<std::int64_t> sizes = node.attr_ints("kernel_shape");
  const auto w = graph.type(node.input(node.op == "QLinearConv" ? 3 : 1)).static_dims();
  if (sizes.empty() && w && w->size() > 2) sizes.assign(w->begin() + 2, w->end());
  const auto dilations = node.attr_ints("dilations", std::vector<std::int64_t>(axes, 1));
  if (sizes.size() != axes || dilations.size() != axes) return true;
  for (std::size_t a = 0; a < axes; ++a) {
    if (std::max(pads[a], pads[a + axes]) > (sizes[a] - 1) * dilations[a]) return true;
  }
  return false;
}

// Whether for some sizes a last window that is not whole has nothing but padding.
bool may_begin_behind_end(const Node& node) {
  const std::vector<std::int64_t> kernel = node.attr_ints("kernel_shape");
  const std::size_t n = kernel.size();
  const std::vector<std::int64_t> strides =
      node.attr_ints("strides", std::vector(n, std::int64_t{1}));
  const std::vector<std::int64_t> pads =
      node.attr_ints("pads", std::vector(2 * n, std::int64_t{0}));
  for (std::size_t i = 0; i < n && i < strides.size() && n + i < pads.size(); ++i) {
    if (strides[i] + pads[n + i] > kernel[i]) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> long_pool(const Graph& graph, const Node& node) {
  if (!is_long_pool(node, graph.type(node.outputs[0]))) return std::nullopt;
  return "the CPU plugin pools large windows in one call, which nobody can end";
}

std::optional<std::string> average_pool(const Graph& graph, const Node& node) {
  if (auto reason = long_pool(graph, node)) return reason;
  if (need_int(node, "ceil_mode") == 0 || need_int(node, "count_include_pad") == 0) {
    return std::nullopt;
  }
  return "OpenVINO counts other elements of a last window that reaches beyond the padding";
}

std::optional<std::string> max_pool(const Graph& graph, const Node& node) {
  if (auto reason = long_pool(graph, node)) return reason;
  const bool with_indices = node.outputs.size() > 1 && node.outputs[1].valid();
  if (with_indices && is_same(auto_pad(node)) && !graph.type(node.input(0)).is_static()) {
    return "the CPU plugin keeps the padding of the sizes of an earlier run";
  }
  if (need_int(node, "ceil_mode") != 0 && may_begin_behind_end(node)) {
    return "OpenVINO has a last window that begins behind the end";
  }
  if (need_int(node, "storage_order") == 0) return std::nullopt;
  return "OpenVINO exchanges rows and columns of the result with those of its indices";
}

std::optional<std::string> conv(const Graph& graph, const Node& node) {
  if (is_computed(graph, node.input(0)) || is_computed(graph, node.input(1))) return std::nullopt;
  return "the CPU plugin keeps the first result of a convolution of constants, whatever the bias";
}

// What the canonical form leaves of it has sizes that only a run knows.
std::optional<std::string> conv_transpose(const Graph& graph, const Node& node) {
  if (!node.has("output_shape")) return conv(graph, node);
  return "OpenVINO shares the padding that output_shape asks for by another rule";
}

std::optional<std::string> window_refusal(const Graph& graph, const Node& node) {
  constexpr std::string_view kConvolutions[] = {"Conv", "ConvInteger", "QLinearConv"};
  if (std::find(std::begin(kConvolutions), std::end(kConvolutions), node.op) !=
          std::end(kConvolutions) &&
      may_leave_image(graph, node)) {
    return "the CPU plugin reads and writes outside of the image where a window has nothing but "
           "padding";
  }
  if (node.op != "Conv" && node.op != "ConvTranspose") return std::nullopt;
  const auto w = graph.type(node.input(1)).static_dims();
  if (!w || w->size() < 3) return std::nullopt;
  if (node.op == "ConvTranspose" && has_far_window(node)) {
    return "the CPU plugin takes time with the square of a stride, in which nobody can end it";
  }
  if (!has_wide_window(node, *w)) return std::nullopt;
  // The plugin has a slow loop for some windows, in which nobody can end it.
  constexpr std::int64_t kMostElements = 4096;
  const std::int64_t elements = element_count(Dims(w->begin() + 2, w->end()));
  const bool has_gaps = !is_dense_window(node) && is_strided_window(node);
  if (elements <= kMostElements && !has_gaps) return std::nullopt;
  return "the CPU plugin has no fast convolution by a window of " + std::to_string(elements) +
         " elements over few channels";
}

}  // namespace xrt::openvino
