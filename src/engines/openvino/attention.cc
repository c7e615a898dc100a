// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engines/openvino/rules.h"
#include "ir/attributes.h"

namespace xrt::openvino {
namespace {

// Four million elements take it a second or two, and 250 million two minutes. It computes none
// where the sizes are open.
constexpr std::int64_t kLargestMask = std::int64_t{1} << 22;

// Where the sizes of queries and keys, which are at such a place of their shapes, are known.
bool has_large_mask(const Graph& graph, const Node& node, std::size_t place) {
  std::int64_t elements = 1;
  for (const std::size_t i : {0U, 1U}) {
    const auto& shape = graph.type(node.input(i)).shape;
    if (!shape || shape->size() <= place || !(*shape)[place].is_known()) return false;
    const std::int64_t size = std::max<std::int64_t>((*shape)[place].value(), 1);
    if (size > kLargestMask / elements) return true;
    elements *= size;
  }
  return false;
}

}  // namespace

std::optional<std::string> causal_mask_refusal(const Graph& graph, const Node& node) {
  if (node.op != "Attention" || node.attr_int("is_causal", 0) == 0) return std::nullopt;
  const auto& q = graph.type(node.input(0)).shape;
  if (!q || !has_large_mask(graph, node, q->size() == 4 ? 2 : 1)) return std::nullopt;
  return "its compiler computes the causal mask of so many queries and keys, element by element";
}

std::optional<std::string> attention_refusal(const Graph& graph, const Node& node) {
  if (graph.type(node.input(0)).dtype == DType::kBFloat16) {
    return "the CPU plugin may not see that a mask of bfloat16 leaves nothing of a row";
  }
  const auto& q = graph.type(node.input(0)).shape;
  const auto& k = graph.type(node.input(1)).shape;
  const bool has_heads = q && k && q->size() == 4 && k->size() == 4;
  if (has_heads && !is_same_size((*q)[1], (*k)[1]) && !((*q)[1].is_known() && (*k)[1].is_known())) {
    return "the CPU plugin wants to know how many queries share a head of keys";
  }
  if (node.has("scale")) {
    const float scale = need_float(node, "scale");
    if (scale == 0) return "its ONNX frontend takes a scale of 0 for one that is not given";
    if (!std::isfinite(scale) || scale < 0) {
      return "the CPU plugin has another result for a scale without a root";
    }
  }
  if (node.output(3).valid() && need_int(node, "qk_matmul_output_mode") != 0) {
    return "its ONNX frontend takes the products of queries and keys before the mask";
  }
  const std::size_t places = has_heads ? 2 : 1;
  const bool are_as_many = q && k && q->size() > places && k->size() > places &&
                           is_same_size((*q)[places], (*k)[places]);
  if (node.input(4).valid() && need_int(node, "is_causal") != 0 && !are_as_many) {
    return "its ONNX frontend shifts a causal mask by how many more keys than queries there are";
  }
  if (node.input(6).valid()) {
    const bool shares = !has_heads || (*q)[1] != (*k)[1];
    // Seen where the queries come from a rotation: "Incompatible MatMul batch dimension".
    if (shares)
      return "its CPU plugin may not repeat keys that heads share beside nonpad_kv_seqlen";
  }
  if (need_int(node, "left_window_size") < 0 && need_int(node, "right_window_size") < 0) {
    return std::nullopt;
  }
  return "its ONNX frontend ignores the attention window";
}

}  // namespace xrt::openvino
