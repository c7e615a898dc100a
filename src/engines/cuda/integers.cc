// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/integers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "engines/cuda/plan.h"

namespace xrt::cuda {
namespace integers {
namespace {

bool is(const xrt::Graph& graph, NodeId id, std::string_view op) {
  return id.valid() && graph.node(id).domain.empty() && graph.node(id).op == op;
}
DType dtype_of(const xrt::Graph& graph, ValueId value) { return graph.type(value).dtype; }
Dims dims_of(const xrt::Graph& graph, ValueId value) {
  return graph.type(value).static_dims().value_or(Dims{});
}
bool is_byte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUInt8; }

std::int64_t whole_number(const Tensor& tensor, std::int64_t at) {
  const auto i = static_cast<std::size_t>(at);
  switch (tensor.dtype()) {
    case DType::kInt8:
      return static_cast<const std::int8_t*>(tensor.raw())[i];
    case DType::kUInt8:
      return static_cast<const std::uint8_t*>(tensor.raw())[i];
    default:
      return static_cast<const std::int32_t*>(tensor.raw())[i];
  }
}
float real_number(const Tensor& tensor, std::int64_t at) {
  return static_cast<const float*>(tensor.raw())[static_cast<std::size_t>(at)];
}

// Values per tensor or along one axis, as DequantizeLinear has them.
struct Quantised {
  ValueId value;
  Tensor scale;
  const Tensor* zero = nullptr;
  std::int64_t axis = 0;
  bool is_single() const { return element_count(scale.dims()) == 1; }
};

std::optional<Quantised> dequantised(const xrt::Graph& graph, ValueId value) {
  const NodeId id = graph.value(value).producer;
  if (!is(graph, id, "DequantizeLinear")) return std::nullopt;
  const Node& node = graph.node(id);
  const Tensor* scale = graph.constant(node.inputs[1]);
  if (scale == nullptr || scale->dtype() != DType::kFloat32 || scale->dims().size() > 1 ||
      node.attr_int("block_size", 0) != 0) {
    return std::nullopt;
  }
  Quantised made{node.inputs[0], *scale, nullptr, node.attr_int("axis", 1)};
  if (made.axis < 0) made.axis += static_cast<std::int64_t>(dims_of(graph, value).size());
  if (node.input(2).valid()) {
    made.zero = graph.constant(node.inputs[2]);
    if (made.zero == nullptr) return std::nullopt;
  }
  return made;
}

// The number that all zero points are.
std::optional<std::int64_t> zero_of(const Quantised& quantised) {
  if (quantised.zero == nullptr) return 0;
  const std::int64_t first = whole_number(*quantised.zero, 0);
  for (std::int64_t i = 1; i < element_count(quantised.zero->dims()); ++i) {
    if (whole_number(*quantised.zero, i) != first) return std::nullopt;
  }
  return first;
}

// Bytes of a whole tensor with one scale.
std::optional<Quantised> bytes_behind(const xrt::Graph& graph, ValueId value) {
  auto made = dequantised(graph, value);
  if (!made || !made->is_single() || !is_byte(dtype_of(graph, made->value))) return std::nullopt;
  return made;
}

// --- what only moves elements ---

bool moves_elements(const Node& node) {
  constexpr std::string_view kOps[] = {"MaxPool", "Reshape",   "Flatten",
                                       "Squeeze", "Unsqueeze", "Transpose"};
  return node.domain.empty() &&
         std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps);
}

// op(dequantised(x)) → dequantised(op(x)).
void move_before_dequantising(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const NodeId before = graph.value(node.inputs[0]).producer;
  const auto bytes = bytes_behind(graph, node.inputs[0]);
  if (!bytes || node.output(1).valid()) return;
  const Node dequantise = graph.node(before);
  Type type = graph.type(node.outputs[0]);
  const DType real = type.dtype;
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = bytes->value;
  const ValueId moved = graph.add_op(node.op, std::move(inputs), node.attributes);
  type.dtype = dtype_of(graph, bytes->value);
  graph.set_type(moved, type);
  inputs = dequantise.inputs;
  inputs[0] = moved;
  const ValueId made = graph.add_op("DequantizeLinear", std::move(inputs), dequantise.attributes);
  type.dtype = real;
  graph.set_type(made, type);
  graph.replace_uses(node.outputs[0], made);
}

bool are_equal(const Tensor* a, const Tensor* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->dtype() == b->dtype() && element_count(a->dims()) == 1 &&
         element_count(b->dims()) == 1 && a->bytes() == b->bytes() &&
         std::equal(static_cast<const std::byte*>(a->raw()),
                    static_cast<const std::byte*>(a->raw()) + a->bytes(),
                    static_cast<const std::byte*>(b->raw()));
}

// Quantised as it was before it was dequantised: the same bytes.
void cancel(xrt::Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const auto bytes = bytes_behind(graph, node.inputs[0]);
  if (!bytes || dtype_of(graph, bytes->value) != dtype_of(graph, node.outputs[0])) return;
  const Tensor* zero = node.input(2).valid() ? graph.constant(node.inputs[2]) : nullptr;
  const Tensor* scale = graph.constant(node.inputs[1]);
  if (scale == nullptr || !are_equal(scale, &bytes->scale) || !are_equal(zero, bytes->zero)) return;
  graph.replace_uses(node.outputs[0], bytes->value);
}

// --- products ---

// A factor of int8, by column and term.
struct Factor {
  std::vector<std::int8_t> bytes;
  std::vector<float> scales;
  std::int64_t columns = 0, terms = 0;
};

// By column, the terms of each filled up with zeros to a multiple of sixteen.
Tensor pack_integer_factor(const Factor& factor) {
  const std::int64_t pitch = (factor.terms + 15) / 16 * 16;
  Tensor made = Tensor::allocate(DType::kInt8, {factor.columns * pitch});
  auto* to = static_cast<std::int8_t*>(made.raw());
  std::fill_n(to, factor.columns * pitch, std::int8_t{0});
  for (std::int64_t n = 0; n < factor.columns; ++n) {
    std::copy_n(factor.bytes.begin() + n * factor.terms, factor.terms, to + n * pitch);
  }
  return made;
}

// Bytes of a constant factor without its zero point; none where they are no int8 then.
std::optional<std::vector<std::int8_t>> without_zero(const xrt::Graph& graph,
                                                     const Quantised& weights) {
  const Tensor* constant = graph.constant(weights.value);
  const auto zero = zero_of(weights);
  if (constant == nullptr || !is_byte(constant->dtype()) || !zero) return std::nullopt;
  std::vector<std::int8_t> bytes(static_cast<std::size_t>(element_count(constant->dims())));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::int64_t value = whole_number(*constant, static_cast<std::int64_t>(i)) - *zero;
    if (value < -128 || value > 127) return std::nullopt;
    bytes[i] = static_cast<std::int8_t>(value);
  }
  return bytes;
}

// One scale per column of those along `axis`.
std::optional<std::vector<float>> scales_along(const Quantised& weights, std::int64_t axis,
                                               std::int64_t columns) {
  std::vector<float> scales(static_cast<std::size_t>(columns));
  if (!weights.is_single() &&
      (weights.axis != axis || element_count(weights.scale.dims()) != columns)) {
    return std::nullopt;
  }
  for (std::size_t n = 0; n < scales.size(); ++n) {
    scales[n] = real_number(weights.scale, weights.is_single() ? 0 : static_cast<std::int64_t>(n));
  }
  return scales;
}

// What is added by column: a constant of floats, or dequantised ones of int32.
std::optional<std::vector<float>> bias_of(const xrt::Graph& graph, ValueId value,
                                          std::int64_t columns) {
  std::vector<float> bias(static_cast<std::size_t>(columns));
  if (!value.valid()) return bias;
  const Dims dims = dims_of(graph, value);
  const bool is_row = !dims.empty() && dims.back() == columns && element_count(dims) == columns;
  if (!is_row) return std::nullopt;
  if (const Tensor* constant = graph.constant(value)) {
    if (constant->dtype() != DType::kFloat32) return std::nullopt;
    for (std::int64_t n = 0; n < columns; ++n) {
      bias[static_cast<std::size_t>(n)] = real_number(*constant, n);
    }
    return bias;
  }
  const auto whole = dequantised(graph, value);
  if (!whole || zero_of(*whole) != 0) return std::nullopt;
  const Tensor* constant = graph.constant(whole->value);
  if (constant == nullptr || constant->dtype() != DType::kInt32) return std::nullopt;
  for (std::int64_t n = 0; n < columns; ++n) {
    bias[static_cast<std::size_t>(n)] = static_cast<float>(whole_number(*constant, n)) *
                                        real_number(whole->scale, whole->is_single() ? 0 : n);
  }
  return bias;
}

Tensor floats(const std::vector<float>& values) {
  Tensor made = Tensor::allocate(DType::kFloat32, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), static_cast<float*>(made.raw()));
  return made;
}

void replace(xrt::Graph& graph, NodeId id, const Quantised& x, Factor factor,
             std::vector<float> bias, std::int64_t padded, Attributes attributes) {
  const Node node = graph.node(id);
  const std::int64_t zero = *zero_of(x);
  std::int64_t largest = 0;
  for (std::int64_t n = 0; n < factor.columns; ++n) {
    std::int64_t sum = 0, size = 0;
    for (std::int64_t k = 0; k < factor.terms; ++k) {
      const std::int64_t term = factor.bytes[static_cast<std::size_t>(n * factor.terms + k)];
      sum += term, size += std::abs(term);
    }
    const auto at = static_cast<std::size_t>(n);
    factor.scales[at] *= real_number(x.scale, 0);
    bias[at] -= static_cast<float>(static_cast<double>(zero * sum) * factor.scales[at]);
    largest = std::max(largest, size);
  }
  largest *= dtype_of(graph, x.value) == DType::kInt8 ? 128 : 255;
  attributes["zero"] = zero;
  attributes["padded"] = padded;
  attributes["small"] = std::int64_t{largest < (std::int64_t{1} << 22) ? 1 : 0};
  std::vector<ValueId> inputs{x.value, graph.add_constant("", pack_integer_factor(factor)),
                              graph.add_constant("", floats(factor.scales)),
                              graph.add_constant("", floats(bias))};
  const NodeId made =
      graph.add_node(kIntegerOp.substr(0, kIntegerOp.rfind('.')), "IntegerProduct",
                     std::move(inputs), {""}, std::move(attributes), node.name + "/integers");
  const ValueId output = graph.node(made).outputs[0];
  graph.set_type(output, graph.type(node.outputs[0]));
  graph.replace_uses(node.outputs[0], output);
}

struct Window {
  Dims kernel, strides, dilations, pads;
};
// The same of a picture whose blocks of 2 × 2 elements are taken for the channels of one.
struct Blocks {
  Window window;
  Dims skipped;  // rows and columns of the first block that lie before the window
};

// Of pictures of a few channels, of which windows would be copied four bytes at a time.
std::optional<Blocks> over_blocks(const Window& window, std::int64_t channels, const Dims& from,
                                  const Dims& to) {
  if (channels > 4 || window.strides != Dims{2, 2} || window.dilations != Dims{1, 1}) return {};
  Blocks made{{Dims(2), {1, 1}, {1, 1}, Dims(4)}, Dims(2)};
  for (std::size_t i = 0; i < 2; ++i) {
    if (from[i] % 2 != 0) return std::nullopt;
    const std::int64_t before = (window.pads[i] + 1) / 2;  // blocks
    made.skipped[i] = 2 * before - window.pads[i];
    const std::int64_t size = (window.kernel[i] + made.skipped[i] + 1) / 2;
    const std::int64_t after = to[i] + size - 1 - before - from[i] / 2;
    if (after < 0) return std::nullopt;
    made.window.kernel[i] = size;
    made.window.pads[i] = before, made.window.pads[2 + i] = after;
  }
  return made;
}

void fuse_convolution(xrt::Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Dims dims = dims_of(graph, node.inputs[0]);
  const auto x = bytes_behind(graph, node.inputs[0]);
  const auto weights = dequantised(graph, node.inputs[1]);
  if (!x || !weights || dims.size() != 4 || node.attr_int("group", 1) != 1 ||
      node.attr_string("auto_pad", "NOTSET") != "NOTSET" ||
      dtype_of(graph, node.outputs[0]) != DType::kFloat32) {
    return;
  }
  const Dims sizes = dims_of(graph, weights->value);
  const auto bytes = without_zero(graph, *weights);
  const auto scales = scales_along(*weights, 0, sizes[0]);
  auto bias = bias_of(graph, node.input(2), sizes[0]);
  if (!bytes || !scales || !bias) return;
  const std::int64_t channels = sizes[1];
  const Dims ones(2, 1);
  Window window{{sizes[2], sizes[3]},
                node.attr_ints("strides", ones),
                node.attr_ints("dilations", ones),
                node.attr_ints("pads", Dims(4, 0))};
  const Dims to = dims_of(graph, node.outputs[0]);
  const auto blocks = over_blocks(window, channels, {dims[2], dims[3]}, {to[2], to[3]});
  const std::int64_t padded = blocks ? 16 : (channels + 3) / 4 * 4;
  const Dims before = blocks ? blocks->skipped : Dims(2, 0);
  if (blocks) window = blocks->window;
  const std::int64_t edge = blocks ? 2 : 1;  // of a block
  Factor factor{{}, *scales, sizes[0], window.kernel[0] * window.kernel[1] * padded};
  factor.bytes.assign(static_cast<std::size_t>(factor.columns * factor.terms), 0);
  for (std::int64_t n = 0; n < sizes[0]; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t h = 0; h < sizes[2]; ++h) {
        for (std::int64_t w = 0; w < sizes[3]; ++w) {
          const std::int64_t row = h + before[0], column = w + before[1];
          const std::int64_t at = row / edge * window.kernel[1] + column / edge;
          const std::int64_t of_block = (row % edge * edge + column % edge) * channels + c;
          factor.bytes[static_cast<std::size_t>(n * factor.terms + at * padded + of_block)] =
              (*bytes)[static_cast<std::size_t>(((n * channels + c) * sizes[2] + h) * sizes[3] +
                                                w)];
        }
      }
    }
  }
  Attributes attributes{{"kernel_shape", window.kernel},
                        {"strides", window.strides},
                        {"dilations", window.dilations},
                        {"pads", window.pads}};
  if (blocks) attributes["blocks"] = edge;
  replace(graph, id, *x, std::move(factor), std::move(*bias), padded, std::move(attributes));
}

void fuse_product(xrt::Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const bool is_gemm = node.op == "Gemm";
  const auto x = bytes_behind(graph, node.inputs[0]);
  const auto weights = dequantised(graph, node.inputs[1]);
  if (!x || !weights || dtype_of(graph, node.outputs[0]) != DType::kFloat32) return;
  const Dims dims = dims_of(graph, node.inputs[0]), sizes = dims_of(graph, weights->value);
  if (sizes.size() != 2 || dims.size() < 2 || dims.back() % 4 != 0) return;
  if (is_gemm && (node.attr_int("transA", 0) != 0 || node.attr_float("alpha", 1.0F) != 1.0F ||
                  node.attr_float("beta", 1.0F) != 1.0F)) {
    return;
  }
  const bool turned = is_gemm && node.attr_int("transB", 0) != 0;  // [columns, terms]
  Factor factor;
  factor.columns = turned ? sizes[0] : sizes[1];
  factor.terms = turned ? sizes[1] : sizes[0];
  const auto bytes = without_zero(graph, *weights);
  const auto scales = scales_along(*weights, turned ? 0 : 1, factor.columns);
  auto bias = bias_of(graph, is_gemm ? node.input(2) : ValueId{}, factor.columns);
  if (!bytes || !scales || !bias) return;
  factor.scales = *scales;
  factor.bytes.resize(bytes->size());
  for (std::int64_t n = 0; n < factor.columns; ++n) {
    for (std::int64_t k = 0; k < factor.terms; ++k) {
      factor.bytes[static_cast<std::size_t>(n * factor.terms + k)] =
          (*bytes)[static_cast<std::size_t>(turned ? n * factor.terms + k
                                                   : k * factor.columns + n)];
    }
  }
  replace(graph, id, *x, std::move(factor), std::move(*bias), dims.back(), {});
}

// --- what is behind products ---

bool is_read_once(const xrt::Graph& graph, ValueId value) {
  return !graph.is_output(value) && graph.uses(value).size() == 1;
}

// A product whose result becomes bytes again: scale and bias in steps of these, and what is added
// between, too.
void fold_behind(xrt::Graph& graph, NodeId id) {
  std::vector<NodeId> residuals;
  ValueId value = graph.node(id).outputs[0];
  for (;;) {
    if (!is_read_once(graph, value)) return;
    const NodeId next = graph.uses(value).front().node;
    const Node& node = graph.node(next);
    if (is(graph, next, "QuantizeLinear")) break;
    if (is(graph, next, "Add")) {
      const ValueId other = node.inputs[node.inputs[0] == value ? 1 : 0];
      if (other == value || !is_read_once(graph, other) || !bytes_behind(graph, other) ||
          dims_of(graph, other) != dims_of(graph, node.outputs[0])) {
        return;
      }
      residuals.push_back(graph.value(other).producer);
    } else if (!is(graph, next, "Relu")) {
      return;
    }
    value = node.outputs[0];
  }
  const NodeId last = graph.uses(value).front().node;
  const Tensor* step = graph.constant(graph.node(last).inputs[1]);
  if (step == nullptr || step->dtype() != DType::kFloat32 || element_count(step->dims()) != 1)
    return;
  const float by = 1 / real_number(*step, 0);
  const auto scaled = [&](ValueId constant) {
    const Tensor& from = *graph.constant(constant);
    Tensor made = Tensor::allocate(DType::kFloat32, from.dims());
    for (std::int64_t i = 0; i < element_count(from.dims()); ++i) {
      static_cast<float*>(made.raw())[i] = real_number(from, i) * by;
    }
    return graph.add_constant("", std::move(made));
  };
  for (const std::size_t i : {kScaleInput, kBiasInput}) {
    graph.set_input(id, i, scaled(graph.node(id).inputs[i]));
  }
  for (const NodeId residual : residuals) {
    graph.set_input(residual, 1, scaled(graph.node(residual).inputs[1]));
  }
  graph.set_input(last, 1, scaled(graph.node(last).inputs[1]));
}

// --- QLinear… ---

ValueId add_dequantised(xrt::Graph& graph, ValueId x, ValueId scale, ValueId zero,
                        std::int64_t axis) {
  std::vector<ValueId> inputs{x, scale};
  if (zero.valid()) inputs.push_back(zero);
  Type type = graph.type(x);
  type.dtype = DType::kFloat32;
  const ValueId made = graph.add_op("DequantizeLinear", std::move(inputs),
                                    {{"axis", axis}, {"block_size", std::int64_t{0}}});
  graph.set_type(made, std::move(type));
  return made;
}

void write_out(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const bool is_convolution = node.op == "QLinearConv";
  const ValueId scale_x = node.inputs[1], scale_w = node.inputs[4];
  std::vector<ValueId> inputs{
      add_dequantised(graph, node.inputs[0], scale_x, node.inputs[2], 1),
      add_dequantised(graph, node.inputs[3], scale_w, node.inputs[5], is_convolution ? 0 : 1)};
  if (node.input(8).valid()) {
    const Tensor &of_x = *graph.constant(scale_x), &of_w = *graph.constant(scale_w);
    std::vector<float> scales(static_cast<std::size_t>(element_count(of_w.dims())));
    for (std::size_t n = 0; n < scales.size(); ++n) {
      scales[n] = real_number(of_x, 0) * real_number(of_w, static_cast<std::int64_t>(n));
    }
    Tensor scale = floats(scales);
    if (scales.size() == 1) scale = Tensor::scalar(scales[0]);
    inputs.push_back(
        add_dequantised(graph, node.inputs[8], graph.add_constant("", std::move(scale)), {}, 0));
  }
  Type type = graph.type(node.outputs[0]);
  Type real = type;
  real.dtype = DType::kFloat32;
  const ValueId result = graph.add_op(is_convolution ? "Conv" : "MatMul", std::move(inputs),
                                      is_convolution ? node.attributes : Attributes{});
  graph.set_type(result, std::move(real));
  const ValueId made = graph.add_op(
      "QuantizeLinear", {result, node.inputs[6], node.inputs[7]},
      {{"axis", std::int64_t{1}}, {"block_size", std::int64_t{0}}, {"saturate", std::int64_t{1}}});
  graph.set_type(made, std::move(type));
  graph.replace_uses(node.outputs[0], made);
  graph.remove_node(id);
}

bool is_qlinear(std::string_view domain, std::string_view op) {
  return domain.empty() && (op == "QLinearConv" || op == "QLinearMatMul");
}

}  // namespace
}  // namespace integers

Support supports_quantised(const GraphView& graph, const NodeView& node) {
  constexpr std::size_t kScaleX = 1, kScaleW = 4, kScaleY = 6, kBias = 8;
  for (const std::size_t i : {kScaleX, kScaleX + 1, kScaleW, kScaleW + 1, kScaleY, kScaleY + 1}) {
    const TypeView type = graph.type(node.input(i));
    const bool is_scale = i == kScaleX || i == kScaleW || i == kScaleY;
    if (is_scale && type.dtype() != DType::kFloat32) {
      return Support::no("its scales are no float32");
    }
    if (i != kScaleW && i != kScaleW + 1 && element_count(type.dims()) != 1) {
      return Support::no("its activations have scales along an axis");
    }
    if (type.rank() > 1) return Support::no("its scales are a matrix");
  }
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}}) {
    if (!integers::is_byte(graph.type(node.input(i)).dtype()))
      return Support::no("it is not of bytes");
  }
  if (node.op() == "QLinearConv") {
    if (node.input(kBias).valid() && (!graph.constant(node.input(kScaleX)).defined() ||
                                      !graph.constant(node.input(kScaleW)).defined())) {
      return Support::no("it has a bias, and the scales of its factors are no constants");
    }
    if (node.attr_string("auto_pad", "NOTSET") != "NOTSET") {
      return Support::no("its padding is not written out");
    }
    const std::size_t rank = graph.type(node.input(0)).rank();
    if (rank < 3 || rank > 5) return Support::no("it has one to three spatial axes");
  } else if (element_count(graph.type(node.input(kScaleW)).dims()) != 1 &&
             graph.type(node.input(3)).rank() != 2) {
    return Support::no("its scales along an axis are of no matrix");
  }
  return Support::yes();
}

void write_out_quantised(xrt::Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    if (integers::is_qlinear(graph.node(id).domain, graph.node(id).op))
      integers::write_out(graph, id);
  }
}

void fuse_quantised(xrt::Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    if (integers::moves_elements(graph.node(id))) integers::move_before_dequantising(graph, id);
    if (integers::is(graph, id, "QuantizeLinear")) integers::cancel(graph, id);
  }
  for (const NodeId id : graph.nodes()) {
    if (integers::is(graph, id, "Conv")) {
      integers::fuse_convolution(graph, id);
    } else if (integers::is(graph, id, "MatMul") || integers::is(graph, id, "Gemm")) {
      integers::fuse_product(graph, id);
    }
  }
}

void fold_scales(xrt::Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    if (graph.node(id).domain + "." + graph.node(id).op == kIntegerOp) {
      integers::fold_behind(graph, id);
    }
  }
}

}  // namespace xrt::cuda
