// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/int8/pattern.h"

#include <algorithm>
#include <cmath>

#include "engines/native/dequantize.h"
#include "engines/native/dnn/fuse/pattern.h"

namespace xrt::native::dnn {
namespace {

bool is_byte(DType dtype) { return dtype == DType::kUInt8 || dtype == DType::kInt8; }

// The scale and zero point of a node that has one of each, both constant.
std::optional<Grid> steps_of(const Graph& graph, const Node& node, DType bytes) {
  if (node.attr_int("block_size", 0) != 0) return std::nullopt;
  return grid_of(graph, {}, node.input(1), node.input(2), bytes);
}

}  // namespace

std::optional<Grid> grid_of(const Graph& graph, ValueId q, ValueId scale_value, ValueId zero_value,
                            DType bytes) {
  const std::optional<float> scale = scalar_constant(graph, scale_value);
  if (!is_byte(bytes) || !scale || !std::isnormal(*scale) || *scale <= 0) return std::nullopt;
  Grid grid{q, *scale, 0, bytes};
  if (!zero_value.valid()) return grid;
  const Tensor* zero = graph.constant(zero_value);
  if (zero == nullptr || zero->count() != 1 || zero->dtype() != bytes) return std::nullopt;
  grid.zero = bytes == DType::kUInt8 ? std::int32_t{zero->data<std::uint8_t>()[0]}
                                     : std::int32_t{zero->data<std::int8_t>()[0]};
  return grid;
}

std::optional<Grid> dequantised_from(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value, "DequantizeLinear");
  if (node == nullptr || graph.constant(node->input(0)) != nullptr) return std::nullopt;
  const DType bytes = graph.type(node->input(0)).dtype;
  if (!is_byte(bytes) || graph.type(value).dtype != DType::kFloat32) return std::nullopt;
  std::optional<Grid> grid = steps_of(graph, *node, bytes);
  if (grid) grid->q = node->input(0);
  return grid;
}

std::optional<Grid> quantised_to(const Graph& graph, ValueId value) {
  if (graph.is_output(value) || graph.uses(value).empty()) return std::nullopt;
  std::optional<Grid> first;
  for (const Use& use : graph.uses(value)) {
    const Node& node = graph.node(use.node);
    if (use.index != 0 || !node.domain.empty() || node.op != "QuantizeLinear") return std::nullopt;
    const auto precision = static_cast<DType>(node.attr_int("precision", 0));
    const DType bytes = graph.type(node.outputs[0]).dtype;
    if (!is_byte(bytes) || (precision != DType::kUndefined && precision != DType::kFloat32)) {
      return std::nullopt;
    }
    std::optional<Grid> grid = steps_of(graph, node, bytes);
    if (!grid || (first && !grid->same_steps(*first))) return std::nullopt;
    grid->q = node.outputs[0];
    if (!first) first = grid;
  }
  return first;
}

void replace_quantised(Graph& graph, ValueId value, ValueId bytes) {
  while (!graph.uses(value).empty()) {
    const NodeId reader = graph.uses(value).front().node;
    graph.replace_uses(graph.node(reader).outputs[0], bytes);
    graph.remove_node(reader);
  }
  remove_unused(graph, value);
}

std::optional<Tensor> centred_bytes(const Tensor& w, const Tensor* zero, std::size_t axis) {
  if (!is_byte(w.dtype()) || axis >= w.rank()) return std::nullopt;
  const std::int64_t channels = w.dims()[axis];
  if (zero != nullptr &&
      (zero->dtype() != w.dtype() ||
       (zero->count() != 1 && (zero->count() != channels || zero->rank() != 1)))) {
    return std::nullopt;
  }
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < w.rank(); ++i) inner *= w.dims()[i];
  const auto number = [](const Tensor& t, std::int64_t i) {
    return t.dtype() == DType::kUInt8 ? std::int32_t{t.data<std::uint8_t>()[i]}
                                      : std::int32_t{t.data<std::int8_t>()[i]};
  };
  const bool whole = zero == nullptr || zero->count() == 1;
  Tensor result = Tensor::allocate(DType::kInt8, w.dims());
  for (std::int64_t i = 0; i < w.count(); ++i) {
    const std::int64_t channel = whole ? 0 : i / inner % channels;
    const std::int32_t difference = number(w, i) - (zero == nullptr ? 0 : number(*zero, channel));
    if (difference < -128 || difference > 127) return std::nullopt;
    result.data<std::int8_t>()[i] = static_cast<std::int8_t>(difference);
  }
  return result;
}

std::optional<ByteWeights> byte_weights(const Graph& graph, ValueId value, std::size_t axis) {
  const Node* node = producer(graph, value, "DequantizeLinear");
  if (node == nullptr || node->attr_int("block_size", 0) != 0 ||
      graph.type(value).dtype != DType::kFloat32) {
    return std::nullopt;
  }
  const Tensor* w = graph.constant(node->input(0));
  std::int64_t along = node->attr_int("axis", 1);
  if (along < 0 && w != nullptr) along += static_cast<std::int64_t>(w->rank());
  auto weights = byte_weights(graph, node->input(0), node->input(1), node->input(2), axis);
  const bool whole = weights && graph.constant(node->input(1))->count() == 1;
  if (!whole && along != static_cast<std::int64_t>(axis)) return std::nullopt;
  return weights;
}

std::optional<ByteWeights> byte_weights(const Graph& graph, ValueId bytes, ValueId scales,
                                        ValueId zeros, std::size_t axis) {
  const Tensor* w = graph.constant(bytes);
  const Tensor* scale = scales.valid() ? graph.constant(scales) : nullptr;
  const Tensor* zero = zeros.valid() ? graph.constant(zeros) : nullptr;
  if (w == nullptr || scale == nullptr || !is_byte(w->dtype()) ||
      scale->dtype() != DType::kFloat32 || w->count() == 0 || axis >= w->rank() ||
      (zeros.valid() && zero == nullptr)) {
    return std::nullopt;
  }
  const std::int64_t channels = w->dims()[axis];
  const bool whole = scale->count() == 1;
  if (!whole && scale->count() != channels) return std::nullopt;
  if (zero != nullptr && (zero->count() != scale->count() || zero->dtype() != w->dtype())) {
    return std::nullopt;
  }
  auto centred = centred_bytes(*w, zero, axis);
  if (!centred) return std::nullopt;
  ByteWeights result{std::move(*centred), {}};
  for (std::int64_t c = 0; c < channels; ++c) {
    result.scales.push_back(scale->data<float>()[whole ? 0 : c]);
  }
  return result;
}

bool has_padding(const Node& node) {
  const std::vector<std::int64_t> pads = node.attr_ints("pads");
  return node.has("auto_pad") ||
         std::any_of(pads.begin(), pads.end(), [](std::int64_t p) { return p != 0; });
}

std::optional<std::vector<double>> channel_terms(const Graph& graph, ValueId value,
                                                 std::int64_t channels) {
  std::vector<double> terms(static_cast<std::size_t>(channels));
  if (!value.valid()) return terms;
  Tensor numbers;
  if (const Node* node = producer(graph, value, "DequantizeLinear")) {
    numbers = dequantized(graph, *node);
  } else if (const Tensor* constant = graph.constant(value)) {
    numbers = *constant;
  }
  if (!numbers.defined() || numbers.dtype() != DType::kFloat32) return std::nullopt;
  const bool one = numbers.count() == 1;
  if (!one && (numbers.count() != channels || numbers.dims().back() != channels)) {
    return std::nullopt;
  }
  for (std::int64_t c = 0; c < channels; ++c) terms[c] = numbers.data<float>()[one ? 0 : c];
  return terms;
}

}  // namespace xrt::native::dnn
