// SPDX-License-Identifier: Apache-2.0
#include "ops/quantized.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/attributes.h"
#include "ir/pattern.h"
#include "ops/op_facts.h"

namespace xrt {
namespace {

// Null for an input that is left out or no constant.
const Tensor* constant_of(const Graph& graph, ValueId value) {
  return value.valid() ? graph.constant(value) : nullptr;
}

// Of uint8, int8 or int32.
std::int32_t number_at(const Tensor& t, std::int64_t i) {
  if (t.dtype() == DType::kUInt4 || t.dtype() == DType::kInt4) {
    const std::uint8_t byte = static_cast<const std::uint8_t*>(t.raw())[i / 2];
    const std::int32_t number = i % 2 == 0 ? byte & 15 : byte >> 4;
    return t.dtype() == DType::kInt4 && number > 7 ? number - 16 : number;
  }
  if (t.dtype() == DType::kUInt8) return t.data<std::uint8_t>()[i];
  if (t.dtype() == DType::kInt8) return t.data<std::int8_t>()[i];
  return t.data<std::int32_t>()[i];
}

std::int64_t elements_behind(const Dims& dims, std::size_t axis) {
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  return inner;
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
  grid.zero = number_at(*zero, 0);
  return grid;
}

std::optional<Grid> grid_behind(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value, "DequantizeLinear");
  if (node == nullptr || graph.type(value).dtype != DType::kFloat32 ||
      need_int(*node, "block_size") != 0) {
    return std::nullopt;
  }
  const ValueId q = node->input(0);
  return grid_of(graph, q, node->input(1), node->input(2), graph.type(q).dtype);
}

std::optional<Grid> dequantised_from(const Graph& graph, ValueId value) {
  const auto grid = grid_behind(graph, value);
  return grid && graph.constant(grid->q) == nullptr ? grid : std::nullopt;
}

std::optional<Grid> grid_made(const Graph& graph, const Node& node) {
  if (!is_op(node, "QuantizeLinear") || need_int(node, "block_size") != 0) return std::nullopt;
  const auto precision = static_cast<DType>(need_int(node, "precision"));
  if (precision != DType::kUndefined && precision != DType::kFloat32) return std::nullopt;
  const ValueId q = node.outputs[0];
  return grid_of(graph, q, node.input(1), node.input(2), graph.type(q).dtype);
}

std::optional<Grid> quantised_to(const Graph& graph, ValueId value) {
  if (graph.is_output(value)) return std::nullopt;
  std::optional<Grid> first;
  for (const Use& use : graph.uses(value)) {
    if (use.index != 0) return std::nullopt;
    const std::optional<Grid> grid = grid_made(graph, graph.node(use.node));
    if (!grid || (first && !grid->same_steps(*first))) return std::nullopt;
    if (!first) first = grid;
  }
  return first;
}

bool moves_bytes(const Node& node) {
  if (op_facts(node).moves != Moves::kNo) return node.op != "MaxPool" || !node.output(1).valid();
  if (is_op(node, "Resize")) {
    return need_string(node, "mode") == "nearest" &&
           need_string(node, "coordinate_transformation_mode") != "tf_crop_and_resize";
  }
  return is_op(node, "Pad") && need_string(node, "mode") != "constant";
}

namespace {

// With a scale for each block of an axis.
Tensor dequantized_blocks(const Tensor& x, const Tensor& scale, const Tensor* zero,
                          std::int64_t axis, std::int64_t block) {
  const auto rank = static_cast<std::int64_t>(x.rank());
  if (axis < 0 || axis >= rank || scale.rank() != x.rank() ||
      (zero != nullptr && (zero->dims() != scale.dims() || zero->dtype() != x.dtype()))) {
    return {};
  }
  const auto at_axis = static_cast<std::size_t>(axis);
  Dims blocks = x.dims();
  const std::int64_t size = blocks[at_axis];
  blocks[at_axis] = (size + block - 1) / block;
  if (scale.dims() != blocks || x.count() == 0) return {};
  const std::int64_t inner = elements_behind(x.dims(), at_axis);
  Tensor result = Tensor::allocate(DType::kFloat32, x.dims());
  float* to = result.data<float>();
  const float* scales = scale.data<float>();
  for (std::int64_t line = 0; line < x.count() / inner; ++line) {
    const std::int64_t first = (line / size * blocks[at_axis] + line % size / block) * inner;
    for (std::int64_t i = 0; i < inner; ++i) {
      const std::int32_t shift = zero != nullptr ? number_at(*zero, first + i) : 0;
      *to++ = static_cast<float>(number_at(x, line * inner + i) - shift) * scales[first + i];
    }
  }
  return result;
}

}  // namespace

Tensor dequantized(const Graph& graph, const Node& node) {
  const Tensor* x = constant_of(graph, node.input(0));
  const Tensor* scale = constant_of(graph, node.input(1));
  const Tensor* zero = constant_of(graph, node.input(2));
  if (x == nullptr || scale == nullptr || (node.input(2).valid() && zero == nullptr)) return {};
  const bool known = is_byte(x->dtype()) || x->dtype() == DType::kInt32 ||
                     x->dtype() == DType::kUInt4 || x->dtype() == DType::kInt4;
  if (!known || scale->dtype() != DType::kFloat32 || need_int(node, "output_dtype") != 0) {
    return {};
  }
  if (const std::int64_t block = need_int(node, "block_size"); block != 0) {
    return dequantized_blocks(*x, *scale, zero, need_int(node, "axis"), block);
  }
  std::int64_t inner = x->count(), size = 1;
  if (scale->rank() == 1 && scale->count() != 1) {
    const std::int64_t axis = need_int(node, "axis");
    if (axis < 0 || axis >= static_cast<std::int64_t>(x->rank())) return {};
    size = x->dims()[static_cast<std::size_t>(axis)];
    inner = elements_behind(x->dims(), static_cast<std::size_t>(axis));
  }
  if (scale->count() != size || x->count() == 0 ||
      (zero != nullptr && (zero->count() != size || zero->dtype() != x->dtype()))) {
    return {};
  }
  Tensor result = Tensor::allocate(DType::kFloat32, x->dims());
  for (std::int64_t i = 0; i < x->count(); ++i) {
    const std::int64_t at = i / inner % size;
    const double shift = zero != nullptr ? number_at(*zero, at) : 0;
    const double steps = number_at(*x, i) - shift;
    result.data<float>()[i] = static_cast<float>(steps * scale->data<float>()[at]);
  }
  return result;
}

Tensor constant_numbers(const Graph& graph, ValueId value) {
  if (const Tensor* constant = constant_of(graph, value)) return *constant;
  const Node* node = producer(graph, value, "DequantizeLinear");
  return node != nullptr ? dequantized(graph, *node) : Tensor();
}

std::optional<std::vector<std::int16_t>> centred(const Tensor& w, const Tensor* zero,
                                                 std::size_t axis) {
  if (!is_byte(w.dtype()) || axis >= w.rank()) return std::nullopt;
  const std::int64_t channels = w.dims()[axis];
  if (zero != nullptr &&
      (zero->dtype() != w.dtype() ||
       (zero->count() != 1 && (zero->count() != channels || zero->rank() != 1)))) {
    return std::nullopt;
  }
  const std::int64_t inner = elements_behind(w.dims(), axis);
  const bool whole = zero == nullptr || zero->count() == 1;
  std::vector<std::int16_t> result(static_cast<std::size_t>(w.count()));
  for (std::int64_t i = 0; i < w.count(); ++i) {
    const std::int32_t shift =
        zero == nullptr ? 0 : number_at(*zero, whole ? 0 : i / inner % channels);
    result[static_cast<std::size_t>(i)] = static_cast<std::int16_t>(number_at(w, i) - shift);
  }
  return result;
}

std::optional<Tensor> centred_bytes(const Tensor& w, const Tensor* zero, std::size_t axis) {
  const auto differences = centred(w, zero, axis);
  if (!differences) return std::nullopt;
  Tensor result = Tensor::allocate(DType::kInt8, w.dims());
  std::int8_t* to = result.data<std::int8_t>();
  for (const std::int16_t difference : *differences) {
    if (difference < -128 || difference > 127) return std::nullopt;
    *to++ = static_cast<std::int8_t>(difference);
  }
  return result;
}

std::optional<ByteWeights> byte_weights(const Graph& graph, ValueId bytes, ValueId scales,
                                        ValueId zeros, std::size_t axis) {
  const Tensor* w = constant_of(graph, bytes);
  const Tensor* scale = constant_of(graph, scales);
  const Tensor* zero = constant_of(graph, zeros);
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

std::optional<std::vector<double>> channel_terms(const Graph& graph, ValueId value,
                                                 std::int64_t channels) {
  std::vector<double> terms(static_cast<std::size_t>(channels));
  if (!value.valid()) return terms;
  const Tensor numbers = constant_numbers(graph, value);
  if (!numbers.defined() || numbers.dtype() != DType::kFloat32) return std::nullopt;
  const bool one = numbers.count() == 1;
  if (!one && (numbers.count() != channels || numbers.dims().back() != channels)) {
    return std::nullopt;
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    terms[static_cast<std::size_t>(c)] = numbers.data<float>()[one ? 0 : c];
  }
  return terms;
}

std::optional<QuantisedSum> quantised_sum(const Graph& graph, const Node& node) {
  const bool conv = is_op(node, "Conv"), gemm = is_op(node, "Gemm");
  if (!conv && !gemm && !is_op(node, "MatMul")) return std::nullopt;
  if (gemm && need_int(node, "transA") != 0) return std::nullopt;
  const auto from = dequantised_from(graph, node.input(0));
  const Node* w = producer(graph, node.input(1), "DequantizeLinear");
  if (!from || w == nullptr || need_int(*w, "block_size") != 0 ||
      graph.type(node.input(1)).dtype != DType::kFloat32) {
    return std::nullopt;
  }
  const std::size_t axis = conv || (gemm && need_int(node, "transB") != 0) ? 0 : 1;
  auto weights = byte_weights(graph, w->input(0), w->input(1), w->input(2), axis);
  if (!weights || (!conv && weights->bytes.rank() != 2)) return std::nullopt;
  if (graph.constant(w->input(1))->count() != 1 &&
      need_int(*w, "axis") != static_cast<std::int64_t>(axis)) {
    return std::nullopt;
  }
  auto bias = channel_terms(graph, node.input(2), weights->bytes.dims()[axis]);
  if (!bias) return std::nullopt;
  if (gemm) {
    for (float& scale : weights->scales) scale *= need_float(node, "alpha");
    for (double& term : *bias) term *= need_float(node, "beta");
  }
  return QuantisedSum{*from, std::move(*weights), axis, std::move(*bias)};
}

SumChain chain_behind(const Graph& graph, const Node& sum) {
  SumChain chain;
  chain.end = sum.output(0);
  const auto reader = [&] {
    const auto use = sole_use(graph, chain.end);
    return use ? &graph.node(use->node) : nullptr;
  };
  const Node* next = reader();
  if (next != nullptr && is_op(*next, "Add")) {
    const ValueId other = other_input(*next, chain.end);
    const Tensor* constant = graph.constant(other);
    if (graph.type(other).dtype != DType::kFloat32) return chain;
    if (constant == nullptr && same_shape(graph.type(other), graph.type(chain.end))) {
      chain.residual = other;
    } else if (constant != nullptr && constant->rank() == 1 && is_op(sum, "MatMul")) {
      chain.bias = other;
    } else {
      return chain;
    }
    chain.add = next;
    chain.end = next->output(0);
    next = reader();
  }
  if (next == nullptr) return chain;
  const bool clips = is_op(*next, "Clip") &&
                     std::all_of(next->inputs.begin() + 1, next->inputs.end(), [&](ValueId bound) {
                       return !bound.valid() || scalar_constant(graph, bound);
                     });
  if (clips || is_op(*next, "Relu")) {
    chain.activation = next;
    chain.end = next->output(0);
  }
  return chain;
}

}  // namespace xrt
