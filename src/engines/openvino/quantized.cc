// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/quantized.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "engines/openvino/rules.h"
#include "engines/openvino/search.h"
#include "ir/attributes.h"
#include "ir/pattern.h"

namespace xrt::openvino {
namespace {

// The product of a constant with its scale takes the constant's place, and the next run multiplies
// that.
std::optional<std::string> scaled_constant(const Graph& graph, const Node& node, std::size_t at) {
  const bool is_constant = node.input(at).valid() && !is_computed(graph, node.input(at));
  const bool is_scaled =
      is_computed(graph, node.input(at + 1)) || is_computed(graph, node.input(at + 2));
  if (!is_constant || !is_scaled) return std::nullopt;
  return "the CPU plugin multiplies a constant anew in every run where its scale or zero point is "
         "not constant";
}

bool is_zero(const Graph& graph, ValueId zero) {
  if (!zero.valid()) return true;
  const Tensor* constant = graph.constant(zero);
  if (constant == nullptr) return false;
  const std::vector<std::int64_t> values = constant->to_int64();
  return std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v == 0; });
}

// Bytes without a sign whose zero is 0.
bool is_unsigned_around_zero(const Graph& graph, ValueId bytes, ValueId zero) {
  return graph.type(bytes).dtype == DType::kUInt8 && is_zero(graph, zero);
}

constexpr const char* kNarrow =
    "the CPU plugin makes bytes of less than 8 bits in a product, in the room of half as many, and "
    "takes none that others made";

constexpr const char* kNoUnsignedWeights =
    "the CPU plugin has no convolution by unsigned weights whose zero point is 0";

// Where the result is one wide the plugin takes a layout by channels for the other: of one channel,
// and of bytes where each channel has several filters of its own.
bool may_be_one_wide_with_steps(const Graph& graph, const Node& node) {
  const Type& x = graph.type(node.input(0));
  const Type& y = graph.type(node.outputs[0]);
  if (!x.shape || x.rank() < 4 || !y.shape || y.rank() != x.rank()) return false;
  const auto may_be_one = [](const Dim& dim) { return !dim.is_known() || dim.value() == 1; };
  const std::vector<std::int64_t> strides = need_ints(node, "strides");
  if (strides.empty() || strides.back() == 1 || !may_be_one(y.shape->back())) return false;
  if (may_be_one((*x.shape)[1]) && node.op == "Conv") return true;
  const bool is_integer_op = node.op == "QLinearConv";
  const auto w = graph.type(node.input(is_integer_op ? 3 : 1)).static_dims();
  const bool is_of_bytes =
      is_integer_op || producer(graph, node.input(0), "DequantizeLinear") != nullptr;
  return is_of_bytes && w && (*w)[1] == 1 && (*w)[0] > need_int(node, "group");
}

constexpr const char* kOneWide =
    "the CPU plugin writes elements of a result that is one wide, of one channel or of bytes with "
    "several filters for each channel, and in steps, to the wrong places";

std::optional<std::string> convolution(const Graph& graph, const Node& node) {
  if (node.op != "Conv" && node.op != "QLinearConv") return std::nullopt;
  if (may_be_one_wide_with_steps(graph, node)) return kOneWide;
  if (node.op != "Conv") return std::nullopt;
  const Node* scaled = producer(graph, node.input(1), "DequantizeLinear");
  if (scaled == nullptr || !is_unsigned_around_zero(graph, scaled->input(0), scaled->input(2))) {
    return std::nullopt;
  }
  return kNoUnsignedWeights;
}

std::optional<std::string> transposed_convolution(const Graph& graph, const Node& node) {
  const Node* scaled = producer(graph, node.input(1), "DequantizeLinear");
  if (scaled == nullptr || is_zero(graph, scaled->input(2))) return std::nullopt;
  return "the CPU plugin takes weights of bytes less their zero point for bytes";
}

// Whether the least difference of an operand shows: a function jumps, or tells numbers apart.
bool jumps(const Graph& graph, const Node& node) {
  constexpr std::string_view kJumping[] = {"Ceil",           "Equal", "Floor",       "Greater",
                                           "GreaterOrEqual", "Less",  "LessOrEqual", "Mod",
                                           "NonZero",        "Round", "Sign"};
  if (!node.domain.empty()) return false;
  if (node.op == "Cast") return !is_floating(graph.type(node.outputs[0]).dtype);
  return std::find(std::begin(kJumping), std::end(kJumping), node.op) != std::end(kJumping);
}

std::optional<std::string> dequantized_for_jump(const Graph& graph, const Node& node) {
  const bool is_exact = is_zero(graph, node.input(2)) || !is_computed(graph, node.input(0));
  if (is_exact || !leads_to(
                      graph, node.outputs[0], [&](const Node& n) { return jumps(graph, n); },
                      /*through_moves=*/true)) {
    return std::nullopt;
  }
  return "the CPU plugin multiplies before it takes the zero point away, which shows where a "
         "reader tells numbers apart";
}

std::optional<std::string> byte_product(const Graph& graph, const Node& node) {
  const Node* scaled = producer(graph, node.input(0), "DequantizeLinear");
  if (scaled == nullptr || is_computed(graph, scaled->input(0))) return std::nullopt;
  return "the CPU plugin takes a first factor of constant bytes less their zero point for bytes";
}

std::optional<std::string> byte_recurrence(const Graph& graph, const Node& node) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (producer(graph, node.input(i), "DequantizeLinear") == nullptr) continue;
    return "the CPU plugin rounds the states of a recurrence to the scale of its input";
  }
  return std::nullopt;
}

}  // namespace

// With a constant scale the plugin has quantised kernels; else its division, a product with the
// rounded inverse, would round values half way between two levels to the wrong one.
std::optional<std::string> quantize_linear(const Graph& graph, const Node& node) {
  const DType to = graph.type(node.outputs[0]).dtype;
  if (bit_width(to) < 8) return kNarrow;
  if (to == DType::kInt16 || to == DType::kUInt16) {
    return "the CPU plugin leaves out roundings to 16 bits";
  }
  if (node.input(1).valid() && graph.constant(node.input(1)) != nullptr) return std::nullopt;
  return "the CPU plugin divides by a scale that is not constant by multiplying with a rounded "
         "inverse, which shows half way between two levels";
}

std::optional<std::string> dequantize_linear(const Graph& graph, const Node& node) {
  const bool is_narrow = bit_width(graph.type(node.input(0)).dtype) < 8;
  if (is_narrow && is_computed(graph, node.input(0))) return kNarrow;
  return scaled_constant(graph, node, 0);
}

// The operands are x, its scale and zero point, w, its scale and zero point, and those of the
// result.
std::optional<std::string> quantized_product(const Graph& graph, const Node& node) {
  if (node.op == "QLinearConv" && is_unsigned_around_zero(graph, node.input(3), node.input(5))) {
    return kNoUnsignedWeights;
  }
  for (const std::size_t i : {1, 2, 4, 5, 6, 7}) {
    if (is_computed(graph, node.input(i))) {
      return "the CPU plugin multiplies a constant anew in every run where its scale or zero point "
             "is not constant";
    }
  }
  return std::nullopt;
}

std::optional<std::string> quantized_refusal(const Graph& graph, const Node& node) {
  if (node.op == "Conv" || node.op == "QLinearConv") return convolution(graph, node);
  if (node.op == "ConvTranspose") return transposed_convolution(graph, node);
  if (node.op == "MatMul" || node.op == "Gemm") return byte_product(graph, node);
  if (node.op == "DequantizeLinear") return dequantized_for_jump(graph, node);
  if (node.op == "GRU" || node.op == "LSTM" || node.op == "RNN")
    return byte_recurrence(graph, node);
  return std::nullopt;
}

}  // namespace xrt::openvino
