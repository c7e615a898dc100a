// SPDX-License-Identifier: Apache-2.0
// Channels-last memory for convolutions and what lies between them.
//
// Values keep their meaning; a value in channels-last form is another value that holds the same
// elements with axis 1 moved to the end. The pass walks the graph once, in topological order. A
// convolution makes its result in that form, and a Transpose behind it gives the plain form to
// whoever still reads it. A node that does not care reads the channels-last form of its inputs
// where most of them have one. A Transpose that nobody reads in the end disappears.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "engines/native/dnn/conv_transpose.h"
#include "engines/native/dnn/fuse/optimize.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/common/window.h"
#include "ir/attributes.h"
#include "ir/pattern.h"
#include "ops/sizes/wide_window.h"

namespace xrt::native::dnn {
namespace {

using Perm = std::vector<std::int64_t>;

// stored[i] = plain[perm[i]]
Perm last_perm(std::size_t rank) {
  Perm perm(rank);
  perm[0] = 0;
  for (std::size_t i = 1; i + 1 < rank; ++i) perm[i] = static_cast<std::int64_t>(i) + 1;
  perm[rank - 1] = 1;
  return perm;
}

Perm inverse(const Perm& perm) {
  Perm inv(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) inv[perm[i]] = static_cast<std::int64_t>(i);
  return inv;
}

Type permuted(const Type& type, const Perm& perm) {
  Shape shape;
  for (const std::int64_t p : perm) shape.push_back((*type.shape)[p]);
  return Type::tensor(type.dtype, std::move(shape));
}

bool moves_only_ones(const Dims& dims, const Perm& perm) {
  std::int64_t previous = -1;
  for (const std::int64_t p : perm) {
    if (dims[p] == 1) continue;
    if (p < previous) return false;
    previous = p;
  }
  return true;
}

const std::set<std::string, std::less<>>& indifferent_ops() {
  static const std::set<std::string, std::less<>> ops{
      "Abs",      "Add",  "Ceil",        "Clip",      "Div",        "Elu",  "Erf",  "Exp",
      "Floor",    "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu",  "Log",  "Max",  "Min",
      "Mish",     "Mul",  "Neg",         "Pow",       "Reciprocal", "Relu", "Selu", "Sigmoid",
      "Softplus", "Sqrt", "Sub",         "Swish",     "Tanh"};
  return ops;
}

class ChannelsLast {
 public:
  explicit ChannelsLast(Graph& graph) : graph_(graph) {}

  void run() {
    for (const NodeId id : graph_.topological_order()) {
      if (graph_.alive(id)) visit(id);
    }
    for (const ValueId value : made_) {
      if (graph_.alive(value)) remove_unused(graph_, value);
    }
  }

 private:
  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.inputs.empty() || !node.inputs[0].valid()) return;
    if (node.domain == "xrt" && node.op == "After") return convert_after(id);
    if (convert_training(id) || node.outputs.size() != 1) return;
    const Type& x = graph_.type(node.inputs[0]);
    const Type& y = graph_.type(node.outputs[0]);
    if (!x.has_rank() || !y.has_rank()) return;
    const std::size_t rank = x.rank();
    if (x.dtype == DType::kUInt8 || x.dtype == DType::kInt8) return convert_bytes(id, rank);
    if (is_op(node, "Cast") && is_floating(x.dtype) && is_floating(y.dtype)) {
      if (rank >= 3 && rank <= 5 && last_.contains(node.inputs[0])) convert_elementwise(id, rank);
      return;
    }
    if (x.dtype != DType::kFloat32) return;
    if (node.domain == kDomain && node.op == "Conv") return convert_conv(id, rank);
    if (!node.domain.empty()) return;
    if (node.op == "Conv") {
      // Fusion gives those with constant weights the other name; here weights are being trained.
      const bool trained = graph_.constant(node.input(1)) == nullptr;
      if (trained && graph_.type(node.input(1)).is_static() && x.is_static() &&
          !has_slow_window(node, *graph_.type(node.input(1)).static_dims())) {
        convert_conv(id, rank);
      }
      return;
    }
    if (node.op == "ConvTranspose") {
      if (supports_deconvolution(node, x, graph_.type(node.input(1)))) convert_windowed(id, rank);
      return;
    }
    if (node.op == "Transpose" && graph_.value(node.inputs[0]).origin == Origin::kInput &&
        rank >= 3 && rank <= 5 && node.attr_ints("perm") == inverse(last_perm(rank))) {
      last_[node.outputs[0]] = node.inputs[0];  // it was given with the channels last
      made_.push_back(node.outputs[0]);
      return;
    }
    const bool first_known = last_.contains(node.inputs[0]);
    if (node.op == "Concat") {
      if (rank >= 3 && rank <= 5 && worthwhile(node)) convert_concat(id, rank);
      return;
    }
    if (is_scaling(node)) {
      if (rank >= 3 && rank <= 5 && worthwhile(node)) convert_elementwise(id, rank);
      return;
    }
    if (indifferent_ops().contains(node.op)) {
      if (y.rank() >= 3 && y.rank() <= 5 && worthwhile(node)) convert_elementwise(id, y.rank());
      return;
    }
    if (!first_known) return;
    if (node.op == "Transpose") return compose_transpose(id, rank);
    if (node.op == "MaxPool" || node.op == "AveragePool" || node.op == "LRN" ||
        node.op == "GlobalAveragePool" || node.op == "GlobalMaxPool" ||
        node.op == "BatchNormalization") {
      return convert_windowed(id, rank);
    }
    if (node.op == "ReduceMean") return convert_mean(id, rank);
    if (node.op == "Softmax" || node.op == "LogSoftmax") return convert_axis(id, rank);
    if (node.op == "Resize") return convert_resize(id, rank);
    if (node.op == "Squeeze") return convert_squeeze(id, rank);
    if (node.op == "Slice") return convert_slice(id, rank);
    if (node.op == "Pad") return convert_pad(id, rank);
  }

  // Nodes on bytes: convolutions, what lies between them, and the way back to float32.
  void convert_bytes(NodeId id, std::size_t rank) {
    const Node& node = graph_.node(id);
    if (rank < 3 || rank > 5) return;
    if (node.domain == kDomain && node.op == "Conv") return convert_conv(id, rank);
    if (node.domain == kDomain && (node.op == "Int8Add" || node.op == "Int8Mul")) {
      if (worthwhile(node)) convert_conv(id, rank);
      return;
    }
    // Sums over rows of channels are what their kernel does well.
    if (node.op == "Int8AveragePool" || node.op == "Int8GlobalAverage") {
      return convert_conv(id, rank);
    }
    if (!last_.contains(node.inputs[0])) return;
    if (node.domain == kDomain) {
      if (node.op == "Int8Table") convert_conv(id, rank);
      return;
    }
    if (node.op == "MaxPool") return convert_windowed(id, rank);
    if (node.op == "Resize") return convert_resize(id, rank);
    if (node.op == "Concat" && worthwhile(node)) return convert_concat(id, rank);
    if (node.op == "Transpose") return compose_transpose(id, rank);
    if (is_scaling(node)) return convert_elementwise(id, rank);
  }

  // QuantizeLinear or DequantizeLinear by one scale.
  bool is_scaling(const Node& node) const {
    if (node.op != "QuantizeLinear" && node.op != "DequantizeLinear") return false;
    const Type& scale = graph_.type(node.inputs[1]);
    const auto dims = scale.static_dims();
    return dims && element_count(*dims) == 1 && need_int(node, "block_size") == 0;
  }

  // What the kernel of the plain op would take, too.
  // Hands on the form that there is; the token is not looked at.
  void convert_after(NodeId id) {
    const Node node = graph_.node(id);
    const auto token = last_.find(node.inputs[1]);
    if (token != last_.end()) graph_.set_input(id, 1, token->second);
    const auto x = last_.find(node.inputs[0]);
    if (x == last_.end()) return;
    publish(node.outputs[0], add(node.domain, node.op, {x->second, graph_.node(id).inputs[1]}, {}));
  }

  // Nodes of training (dnn/training.cc). False for any other node.
  bool convert_training(NodeId id) {
    const Node node = graph_.node(id);
    const bool gradient =
        (node.domain == "xrt" && node.op.ends_with("Gradient")) ||
        (node.domain == kDomain && node.op != "Conv" && !node.op.starts_with("Int8"));
    const bool norm = node.domain.empty() && node.op == "BatchNormalization" &&
                      need_int(node, "training_mode") != 0 && need_float(node, "momentum") == 0;
    if (!gradient && !norm) return false;
    const Type& x = graph_.type(node.inputs[0]);
    if (x.dtype != DType::kFloat32 || !x.has_rank() || x.rank() < 3 || x.rank() > 5 ||
        !graph_.type(node.outputs[0]).has_rank()) {
      return true;
    }
    if (node.op == "ReluGradient") {
      if (worthwhile(node)) convert_images(node, kDomain, node.op, {0, 1}, true);
    } else if (node.op == "ConvWeightGradient") {
      if (!is_oversized_window(node)) convert_images(node, kDomain, node.op, {0, 1}, false);
    } else if (!last_.contains(node.inputs[0])) {
      return true;
    } else if (node.op == "MaxPoolGradient") {
      if (!is_oversized_window(node)) convert_images(node, kDomain, node.op, {0, 1}, true);
    } else if (node.op == "BatchNormalizationGradient") {
      convert_images(node, kDomain, node.op, {0, 4}, true);
    } else if (norm) {
      convert_images(node, kDomain, "BatchNormalizationTraining", {0}, true);
    }
    return true;
  }

  // The inputs `images` in channels-last form; so is output 0 where `makes_image`.
  void convert_images(const Node& node, std::string_view domain, std::string_view op,
                      std::initializer_list<std::size_t> images, bool makes_image) {
    std::vector<ValueId> inputs = node.inputs;
    for (const std::size_t i : images) inputs[i] = last_of(inputs[i]);
    std::vector<std::string> names;
    std::vector<Type> types;
    for (const ValueId v : node.outputs) {
      names.emplace_back(v.valid() ? "last" : "");
      types.push_back(v.valid() ? graph_.type(v) : Type{});
    }
    const NodeId made = graph_.add_node(domain, op, std::move(inputs), names, node.attributes, {},
                                        /*omit_empty=*/true);
    const std::vector<ValueId> outputs = graph_.node(made).outputs;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      // The node goes with the last of its outputs that is read.
      if (!outputs[k].valid()) continue;
      graph_.set_type(outputs[k], types[k]);
      if (!graph_.alive(node.outputs[k])) continue;
      if (k == 0 && makes_image) {
        publish(node.outputs[0], outputs[0]);
        continue;
      }
      substitute(graph_, node.outputs[k], outputs[k]);
    }
  }

  // The channels-last form of `value`, made by a Transpose where it is not there yet.
  ValueId last_of(ValueId value) {
    const auto found = last_.find(value);
    if (found != last_.end()) return found->second;
    const Type type = graph_.type(value);
    const ValueId quantized = quantized_last(value);
    const ValueId made = quantized.valid() ? quantized : moved(value, type, last_perm(type.rank()));
    last_[value] = made;
    return made;
  }

  // Of plain numbers that are quantised: both in one go. Not valid for another value.
  ValueId quantized_last(ValueId value) {
    const Node* node = producer(graph_, value, "QuantizeLinear");
    if (node == nullptr || !is_scaling(*node) || node->has("precision")) return {};
    const Type type = graph_.type(value);
    const Type& x = graph_.type(node->inputs[0]);
    const Tensor* scale = graph_.constant(node->input(1));
    const bool bytes = type.dtype == DType::kUInt8 || type.dtype == DType::kInt8;
    if (!bytes || x.dtype != DType::kFloat32 || x.rank() < 3 || scale == nullptr ||
        scale->dtype() != DType::kFloat32 ||
        (node->input(2).valid() && graph_.constant(node->input(2)) == nullptr)) {
      return {};
    }
    const ValueId made =
        add(kDomain, "QuantizeLast", {node->inputs[0], node->input(1), node->input(2)}, {});
    graph_.set_type(made, permuted(type, last_perm(type.rank())));
    made_.push_back(made);
    return made;
  }

  ValueId moved(ValueId value, const Type& type, const Perm& perm) {
    const Type result = permuted(type, perm);
    ValueId made;
    const auto dims = type.static_dims();
    if (dims && moves_only_ones(*dims, perm)) {
      const ValueId shape = graph_.add_constant("", Tensor::from_int64(*result.static_dims()));
      made = graph_.add_op("Reshape", {value, shape}, {{"allowzero", std::int64_t{1}}});
    } else {
      made = graph_.add_op("Transpose", {value}, {{"perm", perm}});
    }
    graph_.set_type(made, result);
    made_.push_back(made);
    return made;
  }

  // `stored` is the channels-last form of `old`: whoever reads `old` reads a transposed copy.
  void publish(ValueId old, ValueId stored) {
    const Type type = graph_.type(old);
    graph_.set_type(stored, permuted(type, last_perm(type.rank())));
    const ValueId plain = moved(stored, graph_.type(stored), inverse(last_perm(type.rank())));
    substitute(graph_, old, plain);
    last_[plain] = stored;
  }

  ValueId add(std::string_view domain, std::string_view op, std::vector<ValueId> inputs,
              Attributes attributes) {
    const NodeId made = graph_.add_node(domain, op, std::move(inputs), {""}, std::move(attributes));
    return graph_.node(made).outputs[0];
  }

  void convert_conv(NodeId id, std::size_t rank) {
    const Node node = graph_.node(id);
    if (rank < 3 || rank > 5) return;
    std::vector<ValueId> inputs = node.inputs;
    if (node.op == "Conv" && !last_.contains(inputs[0])) {
      if (auto attributes = image_convolution(graph_, node)) {
        publish(node.outputs[0], add(kDomain, "ImageConv", inputs, std::move(*attributes)));
        return;
      }
    }
    inputs[0] = last_of(inputs[0]);
    const bool pair = node.op == "Int8Add" || node.op == "Int8Mul";
    const std::size_t operands = pair ? 1 : 3;
    for (std::size_t i = operands; i < inputs.size(); ++i) {
      if (graph_.type(inputs[i]).rank() > 0) inputs[i] = last_of(inputs[i]);  // no scale
    }
    Attributes attributes = node.attributes;
    attributes["channels_last"] = std::int64_t{1};
    publish(node.outputs[0], add(kDomain, node.op, std::move(inputs), std::move(attributes)));
  }

  void convert_windowed(NodeId id, std::size_t rank) {
    const Node node = graph_.node(id);
    if (rank < 3 || rank > 5 ||
        (node.op == "LRN" && (rank != 4 || need_int(node, "size") % 2 == 0)))
      return;
    if (node.op == "BatchNormalization" && need_int(node, "training_mode") != 0) return;
    if (is_long_pool(node, graph_.type(node.outputs[0]))) return;
    if (node.op == "AveragePool" &&
        ((need_int(node, "ceil_mode") != 0 && need_int(node, "count_include_pad") != 0) ||
         !is_dense_window(node))) {
      return;
    }
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = last_of(inputs[0]);
    publish(node.outputs[0], add(kDomain, node.op, std::move(inputs), node.attributes));
  }

  // More inputs have the channels-last form than would have to be transposed for it.
  bool worthwhile(const Node& node) const {
    int have = 0;
    int lack = 0;
    for (const ValueId input : node.inputs) {
      if (!input.valid() || graph_.constant(input) != nullptr) continue;
      const Type& type = graph_.type(input);
      if (!type.has_rank()) return false;
      if (last_.contains(input)) {
        ++have;
      } else {
        const auto dims = type.static_dims();
        if (!dims || element_count(*dims) > 1) ++lack;
      }
    }
    return have > 0 && have >= lack;
  }

  // An operand that broadcasts to `rank` dimensions, in channels-last form.
  std::optional<ValueId> operand(ValueId input, std::size_t rank) {
    if (!input.valid()) return input;
    const Type& type = graph_.type(input);
    if (!type.has_rank() || type.rank() > rank) return std::nullopt;
    if (type.rank() == 0) return input;
    if (const Tensor* tensor = graph_.constant(input)) {
      if (tensor->count() == 1) return input;
      if (tensor->dtype() != DType::kFloat32) return std::nullopt;
      const Dims dims = padded_dims(tensor->dims(), rank);
      return graph_.add_constant("", transposed(*tensor, dims));
    }
    if (type.rank() != rank) return std::nullopt;
    return last_of(input);
  }

  // Of a float32 tensor whose dimensions count as `dims`.
  static Tensor transposed(const Tensor& tensor, const Dims& dims) {
    const Perm perm = last_perm(dims.size());
    Dims to(dims.size());
    Dims strides(dims.size());
    Dims from_strides(dims.size(), 1);
    for (std::size_t i = dims.size(); i-- > 1;) from_strides[i - 1] = from_strides[i] * dims[i];
    for (std::size_t i = 0; i < dims.size(); ++i) {
      to[i] = dims[perm[i]];
      strides[i] = from_strides[perm[i]];
    }
    Tensor result = Tensor::allocate(DType::kFloat32, to);
    Dims index(to.size(), 0);
    const float* from = tensor.data<float>();
    for (std::int64_t n = 0; n < result.count(); ++n) {
      result.data<float>()[n] =
          from[std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0})];
      for (std::size_t d = to.size(); d-- > 0;) {
        if (++index[d] < to[d]) break;
        index[d] = 0;
      }
    }
    return result;
  }

  void convert_elementwise(NodeId id, std::size_t rank) {
    const Node node = graph_.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      const auto converted = operand(input, rank);
      if (!converted) return;
      inputs.push_back(*converted);
    }
    publish(node.outputs[0], add("", node.op, std::move(inputs), node.attributes));
  }

  static std::int64_t stored_axis(std::int64_t axis, std::size_t rank) {
    return inverse(last_perm(rank)).at(axis);
  }

  void convert_axis(NodeId id, std::size_t rank) {
    const Node node = graph_.node(id);
    Attributes attributes = node.attributes;
    attributes["axis"] = stored_axis(need_int(node, "axis"), rank);
    publish(node.outputs[0], add("", node.op, {last_of(node.inputs[0])}, std::move(attributes)));
  }

  void convert_concat(NodeId id, std::size_t rank) {
    const Node node = graph_.node(id);
    for (const ValueId input : node.inputs) {
      if (graph_.type(input).rank() != rank) return;
    }
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(last_of(input));
    Attributes attributes = node.attributes;
    attributes["axis"] = stored_axis(need_int(node, "axis"), rank);
    publish(node.outputs[0], add("", "Concat", std::move(inputs), std::move(attributes)));
  }

  // A mean over all spatial dimensions is a global pool.
  void convert_mean(NodeId id, std::size_t rank) {
    const Node node = graph_.node(id);
    const Tensor* axes = node.input(1).valid() ? graph_.constant(node.input(1)) : nullptr;
    if (axes == nullptr || rank < 3 || rank > 5 || need_int(node, "keepdims") != 1) return;
    const std::vector<std::int64_t> given = axes->to_int64();
    const std::set<std::int64_t> wanted(given.begin(), given.end());
    std::set<std::int64_t> spatial;
    for (std::size_t i = 2; i < rank; ++i) spatial.insert(static_cast<std::int64_t>(i));
    if (wanted != spatial) return;
    publish(node.outputs[0], add(kDomain, "GlobalAveragePool", {last_of(node.inputs[0])}, {}));
  }

  void convert_resize(NodeId id, std::size_t rank) {
    const Node node = graph_.node(id);
    if (rank < 3 || rank > 5 || node.has("axes")) return;
    const Perm perm = last_perm(rank);
    std::vector<ValueId> inputs{last_of(node.inputs[0])};
    if (node.input(1).valid() && graph_.type(node.input(1)).static_dims() != Dims{0}) return;
    inputs.push_back(node.input(1));
    for (const std::size_t i : {2, 3}) {
      const ValueId input = node.input(i);
      if (!input.valid()) {
        inputs.push_back(input);
        continue;
      }
      const Tensor* tensor = graph_.constant(input);
      if (tensor == nullptr) return;
      if (tensor->count() == 0) {
        inputs.push_back(input);
        continue;
      }
      if (tensor->count() != static_cast<std::int64_t>(rank)) return;
      Tensor reordered = Tensor::allocate(tensor->dtype(), tensor->dims());
      const std::size_t size = tensor->bytes() / rank;
      for (std::size_t k = 0; k < rank; ++k) {
        std::memcpy(reordered.data<char>() + k * size, tensor->data<char>() + perm[k] * size, size);
      }
      inputs.push_back(graph_.add_constant("", std::move(reordered)));
    }
    publish(node.outputs[0], add("", "Resize", std::move(inputs), node.attributes));
  }

  void convert_squeeze(NodeId id, std::size_t rank) {
    const Node node = graph_.node(id);
    const Tensor* axes = node.input(1).valid() ? graph_.constant(node.input(1)) : nullptr;
    if (axes == nullptr || graph_.type(node.outputs[0]).rank() < 3) return;
    std::vector<std::int64_t> stored;
    for (const std::int64_t axis : axes->to_int64()) {
      if (axis < 2) return;
      stored.push_back(stored_axis(axis, rank));
    }
    const ValueId constant = graph_.add_constant("", Tensor::from_int64(stored));
    publish(node.outputs[0], add("", "Squeeze", {last_of(node.inputs[0]), constant}, {}));
  }

  // Rows of channels stay whole: a part of the channels is read better where they lie apart.
  void convert_slice(NodeId id, std::size_t rank) {
    const Node node = graph_.node(id);
    const Tensor* axes = node.input(3).valid() ? graph_.constant(node.input(3)) : nullptr;
    if (axes == nullptr || rank < 3 || rank > 5) return;
    std::vector<std::int64_t> stored;
    for (const std::int64_t axis : axes->to_int64()) {
      if (axis < 0 || axis == 1 || axis >= static_cast<std::int64_t>(rank)) return;
      stored.push_back(stored_axis(axis, rank));
    }
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = last_of(inputs[0]);
    inputs[3] = graph_.add_constant("", Tensor::from_int64(stored));
    publish(node.outputs[0], add("", "Slice", std::move(inputs), node.attributes));
  }

  void convert_pad(NodeId id, std::size_t rank) {
    const Node node = graph_.node(id);
    const Tensor* pads = node.input(1).valid() ? graph_.constant(node.input(1)) : nullptr;
    if (pads == nullptr || node.input(3).valid() || rank < 3 || rank > 5) return;
    const std::vector<std::int64_t> plain = pads->to_int64();
    if (plain.size() != 2 * rank || plain[1] != 0 || plain[1 + rank] != 0) return;
    std::vector<std::int64_t> stored;
    for (const std::size_t first : {std::size_t{0}, rank}) {
      for (const std::int64_t p : last_perm(rank)) {
        stored.push_back(plain[first + static_cast<std::size_t>(p)]);
      }
    }
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = last_of(inputs[0]);
    inputs[1] = graph_.add_constant("", Tensor::from_int64(stored));
    publish(node.outputs[0], add("", "Pad", std::move(inputs), node.attributes));
  }

  void compose_transpose(NodeId id, std::size_t rank) {
    const Node node = graph_.node(id);
    Perm perm = node.attr_ints("perm");
    if (perm.empty()) {
      perm.resize(rank);
      std::iota(perm.rbegin(), perm.rend(), 0);
    }
    const Perm inv = inverse(last_perm(rank));
    for (std::int64_t& p : perm) p = inv.at(p);
    const ValueId stored = last_of(node.inputs[0]);
    Perm identity(rank);
    std::iota(identity.begin(), identity.end(), 0);
    // A graph output has a node of its own.
    const bool may_stand_in =
        !graph_.is_output(node.outputs[0]) ||
        (graph_.value(stored).origin == Origin::kNode && !graph_.is_output(stored));
    const ValueId result =
        perm == identity && may_stand_in ? stored : moved(stored, graph_.type(stored), perm);
    substitute(graph_, node.outputs[0], result);
  }

  Graph& graph_;
  std::map<ValueId, ValueId> last_;  // plain form → channels-last form
  std::vector<ValueId> made_;        // results of transposes, some of which nobody needs
};

}  // namespace

void use_channels_last(Graph& graph) { ChannelsLast(graph).run(); }

}  // namespace xrt::native::dnn
