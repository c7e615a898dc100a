// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/training.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engines/cuda/plan.h"

namespace xrt::cuda {
namespace training {
namespace {

// Adds ops whose results have known types.
class Writer {
 public:
  Writer(xrt::Graph& graph, DType wide) : graph_(graph), wide_(wide) {}

  ValueId op(std::string_view name, std::vector<ValueId> inputs, const Dims& dims,
             Attributes attributes = {}) {
    return op_of(name, std::move(inputs), wide_, dims, std::move(attributes));
  }
  ValueId widened(ValueId value) { return cast(value, wide_); }
  ValueId cast(ValueId value, DType to) {
    if (graph_.type(value).dtype == to) return value;
    return op_of("Cast", {value}, to, dims(value), {{"to", static_cast<std::int64_t>(to)}});
  }
  ValueId number(double value) {
    if (wide_ == DType::kFloat64) {
      return graph_.add_constant("", Tensor::from(wide_, {}, std::span<const double>(&value, 1)));
    }
    return graph_.add_constant("", Tensor::scalar(static_cast<float>(value)));
  }
  // [C] as [C, 1…], for operands of `rank` axes of which the second is that of channels.
  ValueId by_channel(ValueId value, std::size_t rank) {
    Dims to(rank - 1, 1);
    to[0] = dims(value)[0];
    const ValueId shape = graph_.add_constant("", Tensor::from_int64(to));
    return op("Reshape", {value, shape}, to, {{"allowzero", std::int64_t{0}}});
  }
  // Over all axes but that of channels.
  ValueId reduce(std::string_view name, ValueId value) {
    const Dims from = dims(value);
    Dims axes;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (i != 1) axes.push_back(static_cast<std::int64_t>(i));
    }
    const ValueId given = graph_.add_constant("", Tensor::from_int64(axes));
    return op(name, {value, given}, {from[1]},
              {{"keepdims", std::int64_t{0}}, {"noop_with_empty_axes", std::int64_t{0}}});
  }
  Dims dims(ValueId value) const { return *graph_.type(value).static_dims(); }

  // [N, d…] as [N, 1, d…].
  ValueId with_classes(ValueId value, DType dtype) {
    Dims to = dims(value);
    to.insert(to.begin() + 1, 1);
    return reshape(value, to, dtype);
  }
  ValueId reshape(ValueId value, const Dims& to, DType dtype) {
    const ValueId shape = graph_.add_constant("", Tensor::from_int64(to));
    return op_of("Reshape", {value, shape}, dtype, to, {{"allowzero", std::int64_t{0}}});
  }
  // Of all elements.
  ValueId whole(std::string_view name, ValueId value) {
    Dims axes;
    for (std::size_t i = 0; i < dims(value).size(); ++i) {
      axes.push_back(static_cast<std::int64_t>(i));
    }
    const ValueId given = graph_.add_constant("", Tensor::from_int64(axes));
    return op(name, {value, given}, {},
              {{"keepdims", std::int64_t{0}}, {"noop_with_empty_axes", std::int64_t{0}}});
  }
  ValueId op_of(std::string_view name, std::vector<ValueId> inputs, DType dtype, const Dims& dims,
                Attributes attributes = {}) {
    const ValueId made = graph_.add_op(name, std::move(inputs), std::move(attributes));
    graph_.set_type(made, Type::tensor(dtype, dims));
    return made;
  }

 private:
  xrt::Graph& graph_;
  DType wide_;
};

DType wide_type(const xrt::Graph& graph, ValueId value) {
  const DType given = graph.type(value).dtype;
  return given == DType::kFloat64 ? given : DType::kFloat32;
}

void replace(xrt::Graph& graph, Writer& w, ValueId output, ValueId by) {
  if (output.valid()) graph.replace_uses(output, w.cast(by, graph.type(output).dtype));
}

// The half precision that a value is, or has been widened from.
std::optional<ValueId> narrow_source(const xrt::Graph& graph, ValueId value) {
  if (is_half(graph.type(value).dtype)) return value;
  const Value& given = graph.value(value);
  if (given.origin != Origin::kNode || graph.node(given.producer).qualified_op() != "Cast") {
    return std::nullopt;
  }
  const ValueId from = graph.node(given.producer).inputs[0];
  if (!is_half(graph.type(from).dtype)) return std::nullopt;
  return from;
}

// Two results in float32, by channel.
std::pair<ValueId, ValueId> channel_sums(xrt::Graph& graph, std::string_view op,
                                         std::vector<ValueId> inputs, const Dims& channels) {
  const std::size_t dot = op.rfind('.');
  const NodeId made =
      graph.add_node(op.substr(0, dot), op.substr(dot + 1), std::move(inputs), {"", ""});
  const Node node = graph.node(made);
  for (const ValueId output : node.outputs) {
    graph.set_type(output, Type::tensor(DType::kFloat32, channels));
  }
  return {node.outputs[0], node.outputs[1]};
}

// y = (x - mean) / sqrt(variance + epsilon) · scale + bias, and the running statistics.
void expand_normalization(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  Writer w(graph, wide_type(graph, node.inputs[0]));
  const Dims dims = w.dims(node.inputs[0]);
  const Dims channels{dims[1]};
  const std::size_t rank = dims.size();
  const ValueId x = w.widened(node.inputs[0]);
  const std::optional<ValueId> half = narrow_source(graph, node.inputs[0]);
  ValueId mean, variance;
  if (half) {
    std::tie(mean, variance) = channel_sums(graph, kChannelMomentsOp, {*half}, channels);
  } else {
    mean = w.reduce("ReduceMean", x);
  }
  const ValueId off = w.op("Sub", {x, w.by_channel(mean, rank)}, dims);
  if (!half) variance = w.reduce("ReduceMean", w.op("Mul", {off, off}, dims));
  const double epsilon = double{node.attr_float("epsilon", 1e-5F)};
  const ValueId spread =
      w.op("Sqrt", {w.op("Add", {variance, w.number(epsilon)}, channels)}, channels);
  const ValueId factor = w.op("Div", {w.widened(node.inputs[1]), spread}, channels);
  const ValueId scaled = w.op("Mul", {off, w.by_channel(factor, rank)}, dims);
  const ValueId y = w.op("Add", {scaled, w.by_channel(w.widened(node.inputs[2]), rank)}, dims);
  const double momentum = double{node.attr_float("momentum", 0.9F)};
  const auto running = [&](ValueId before, ValueId now) {
    const ValueId old = w.op("Mul", {w.widened(before), w.number(momentum)}, channels);
    return w.op("Add", {old, w.op("Mul", {now, w.number(1 - momentum)}, channels)}, channels);
  };
  replace(graph, w, node.outputs[0], y);
  if (node.output(1).valid()) {
    replace(graph, w, node.outputs[1], momentum == 0 ? mean : running(node.inputs[3], mean));
  }
  if (node.output(2).valid()) {
    replace(graph, w, node.outputs[2],
            momentum == 0 ? variance : running(node.inputs[4], variance));
  }
  graph.remove_node(id);
}

// docs/reference/gradients.md has the formulas.
void expand_normalization_gradient(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  Writer w(graph, wide_type(graph, node.inputs[0]));
  const Dims dims = w.dims(node.inputs[0]);
  const Dims channels{dims[1]};
  const std::size_t rank = dims.size();
  const ValueId x = w.widened(node.inputs[0]);
  const ValueId dy = w.widened(node.inputs[4]);
  const double epsilon = double{node.attr_float("epsilon", 1e-5F)};
  const ValueId spread = w.op(
      "Sqrt", {w.op("Add", {w.widened(node.inputs[3]), w.number(epsilon)}, channels)}, channels);
  const ValueId off = w.op("Sub", {x, w.by_channel(w.widened(node.inputs[2]), rank)}, dims);
  const ValueId hat = w.op("Div", {off, w.by_channel(spread, rank)}, dims);
  const std::optional<ValueId> half_x = narrow_source(graph, node.inputs[0]);
  const std::optional<ValueId> half_dy = narrow_source(graph, node.inputs[4]);
  ValueId bias, scale;
  if (half_x && half_dy && graph.type(*half_x).dtype == graph.type(*half_dy).dtype) {
    const ValueId mean = w.widened(node.inputs[2]);
    std::tie(bias, scale) =
        channel_sums(graph, kChannelProductsOp, {*half_x, *half_dy, mean}, channels);
    scale = w.op("Div", {scale, spread}, channels);
  } else {
    bias = w.reduce("ReduceSum", dy);
    scale = w.reduce("ReduceSum", w.op("Mul", {dy, hat}, dims));
  }
  const double count = static_cast<double>(element_count(dims)) / static_cast<double>(dims[1]);
  const auto share = [&](ValueId sum) {
    return w.by_channel(w.op("Mul", {sum, w.number(1 / count)}, channels), rank);
  };
  const ValueId less = w.op("Sub", {dy, share(bias)}, dims);
  const ValueId rest = w.op("Sub", {less, w.op("Mul", {hat, share(scale)}, dims)}, dims);
  const ValueId factor = w.op("Div", {w.widened(node.inputs[1]), spread}, channels);
  replace(graph, w, node.output(0), w.op("Mul", {rest, w.by_channel(factor, rank)}, dims));
  replace(graph, w, node.output(1), scale);
  replace(graph, w, node.output(2), bias);
  graph.remove_node(id);
}

// The negative logarithm of the probability of each label's class, weighted and reduced.
void expand_loss(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  Writer w(graph, wide_type(graph, node.inputs[0]));
  ValueId x = w.widened(node.inputs[0]);
  const Dims dims = w.dims(x);
  if (node.op == "SoftmaxCrossEntropyLoss") {
    x = w.op("LogSoftmax", {x}, dims, {{"axis", std::int64_t{1}}});
  }
  ValueId labels = node.inputs[1];
  const DType whole = graph.type(labels).dtype;
  const Dims places = w.dims(labels);
  std::optional<ValueId> ignored;
  if (node.has("ignore_index")) {
    const auto number = [&](std::int64_t value) {
      const ValueId wide = graph.add_constant("", Tensor::scalar(value));
      return whole == DType::kInt64
                 ? wide
                 : w.op_of("Cast", {wide}, whole, {}, {{"to", static_cast<std::int64_t>(whole)}});
    };
    ignored =
        w.op_of("Equal", {labels, number(node.attr_int("ignore_index", 0))}, DType::kBool, places);
    labels = w.op_of("Where", {*ignored, number(0), labels}, whole, places);
  }
  Dims single = dims;
  single[1] = 1;
  const ValueId found = w.op("GatherElements", {x, w.with_classes(labels, whole)}, single,
                             {{"axis", std::int64_t{1}}});
  ValueId loss = w.op("Neg", {w.reshape(found, places, graph.type(x).dtype)}, places);
  std::optional<ValueId> weights;
  if (node.input(2).valid()) {
    weights =
        w.op("Gather", {w.widened(node.inputs[2]), labels}, places, {{"axis", std::int64_t{0}}});
  }
  if (ignored) {
    const ValueId given = weights ? *weights : w.number(1);
    weights = w.op("Where", {*ignored, w.number(0), given}, places);
  }
  if (weights) loss = w.op("Mul", {loss, *weights}, places);
  const std::string reduction = node.attr_string("reduction", "mean");
  if (reduction == "sum" || (reduction == "mean" && weights)) {
    loss = w.whole("ReduceSum", loss);
    if (reduction == "mean") loss = w.op("Div", {loss, w.whole("ReduceSum", *weights)}, {});
  } else if (reduction == "mean") {
    loss = w.whole("ReduceMean", loss);
  }
  replace(graph, w, node.outputs[0], loss);
  replace(graph, w, node.output(1), x);
  graph.remove_node(id);
}

void expand_dropout(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (node.output(1).valid()) {
    Tensor all = Tensor::allocate(DType::kBool, *graph.type(node.inputs[0]).static_dims());
    std::fill_n(static_cast<std::uint8_t*>(all.raw()), all.bytes(), std::uint8_t{1});
    graph.replace_uses(node.outputs[1], graph.add_constant("", std::move(all)));
  }
  graph.replace_uses(node.outputs[0], node.inputs[0]);
  graph.remove_node(id);
}

void expand_layer_normalization(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  Writer w(graph, wide_type(graph, node.inputs[0]));
  const ValueId x = w.widened(node.inputs[0]);
  const Dims dims = w.dims(x);
  std::int64_t axis = node.attr_int("axis", -1);
  if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
  Dims axes, rows = dims;
  for (auto i = static_cast<std::size_t>(axis); i < dims.size(); ++i) {
    axes.push_back(static_cast<std::int64_t>(i));
    rows[i] = 1;
  }
  const auto mean_of = [&](ValueId value) {
    return w.op("ReduceMean", {value, graph.add_constant("", Tensor::from_int64(axes))}, rows,
                {{"keepdims", std::int64_t{1}}, {"noop_with_empty_axes", std::int64_t{0}}});
  };
  const ValueId mean = mean_of(x);
  const ValueId off = w.op("Sub", {x, mean}, dims);
  const ValueId variance = mean_of(w.op("Mul", {off, off}, dims));
  const double epsilon = double{node.attr_float("epsilon", 1e-5F)};
  const ValueId inverse = w.op(
      "Reciprocal", {w.op("Sqrt", {w.op("Add", {variance, w.number(epsilon)}, rows)}, rows)}, rows);
  ValueId y = w.op("Mul", {w.op("Mul", {off, inverse}, dims), w.widened(node.inputs[1])}, dims);
  if (node.input(2).valid()) y = w.op("Add", {y, w.widened(node.inputs[2])}, dims);
  replace(graph, w, node.outputs[0], y);
  replace(graph, w, node.output(1), mean);
  replace(graph, w, node.output(2), inverse);
  graph.remove_node(id);
}

bool all_are(const Dims& values, std::int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v == value; });
}

// Whether each element of the plane is a window of its own, so that a gradient is a product of two
// matrices: cuBLASLt divides its sums over all pictures among the processors.
bool is_pointwise(const xrt::Graph& graph, const Node& node) {
  const std::size_t n = graph.type(node.inputs[0]).static_dims().value_or(Dims{}).size() - 2;
  return is_half(graph.type(node.inputs[0]).dtype) && all_are(node.attr_ints("kernel_shape"), 1) &&
         all_are(node.attr_ints("strides", Dims(n, 1)), 1) &&
         all_are(node.attr_ints("pads", Dims(2 * n, 0)), 0) &&
         all_are(node.attr_ints("output_padding", Dims(n, 0)), 0) && node.attr_int("group", 1) == 1;
}

// [N, C, d…] as [N·d…, C], which moves nothing where channels lie last.
ValueId by_place(Writer& w, ValueId value, DType dtype) {
  const Dims dims = w.dims(value);
  Dims moved{dims[0]}, permutation{0};
  for (std::size_t i = 2; i < dims.size(); ++i) {
    moved.push_back(dims[i]);
    permutation.push_back(static_cast<std::int64_t>(i));
  }
  moved.push_back(dims[1]), permutation.push_back(1);
  const ValueId last = w.op_of("Transpose", {value}, dtype, moved, {{"perm", permutation}});
  return w.reshape(last, {element_count(dims) / dims[1], dims[1]}, dtype);
}

// dw[m, c] = Σ dy[place, m] · x[place, c].
void multiply_weight_gradient(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (!is_pointwise(graph, node)) return;
  const DType dtype = graph.type(node.inputs[0]).dtype;
  Writer w(graph, dtype);
  const ValueId x = by_place(w, node.inputs[0], dtype), dy = by_place(w, node.inputs[1], dtype);
  const std::int64_t places = w.dims(dy)[0], m = w.dims(dy)[1];
  const ValueId turned = w.op("Transpose", {dy}, {m, places}, {{"perm", Dims{1, 0}}});
  const ValueId product = w.op("MatMul", {turned, x}, {m, w.dims(x)[1]});
  const Dims dims = w.dims(node.outputs[0]);
  graph.replace_uses(node.outputs[0], w.reshape(product, dims, dtype));
}

// y[place, c] = Σ x[place, m] · w[m, c].
void multiply_transposed_convolution(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (!is_pointwise(graph, node) || node.input(2).valid()) return;
  const DType dtype = graph.type(node.inputs[0]).dtype;
  Writer w(graph, dtype);
  const ValueId x = by_place(w, node.inputs[0], dtype);
  const Dims factor = w.dims(node.inputs[1]);
  const ValueId matrix = w.reshape(node.inputs[1], {factor[0], factor[1]}, dtype);
  const ValueId product = w.op("MatMul", {x, matrix}, {w.dims(x)[0], factor[1]});
  const Dims dims = w.dims(node.outputs[0]);
  Dims last{dims[0]}, permutation{0, static_cast<std::int64_t>(dims.size()) - 1};
  for (std::size_t i = 2; i < dims.size(); ++i) {
    last.push_back(dims[i]);
    permutation.push_back(static_cast<std::int64_t>(i) - 1);
  }
  last.push_back(dims[1]);
  const ValueId apart = w.reshape(product, last, dtype);
  graph.replace_uses(node.outputs[0], w.op("Transpose", {apart}, dims, {{"perm", permutation}}));
}

// Gradients of pools and of convolutions' weights: which element of a window is the largest is the
// same in half precision, and sums are in float32 in any case. What is widened and narrowed around
// them need not be read and written.
NodeId narrow_gradient(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const ValueId dx = node.outputs[0];
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) {
    const Value& value = graph.value(input);
    if (value.origin != Origin::kNode || graph.node(value.producer).qualified_op() != "Cast")
      return id;
    inputs.push_back(graph.node(value.producer).inputs[0]);
  }
  const Type narrow = graph.type(inputs[0]);
  const std::vector<Use>& uses = graph.uses(dx);
  if (!is_half(narrow.dtype) || graph.type(inputs[1]).dtype != narrow.dtype ||
      graph.is_output(dx) || uses.size() != 1) {
    return id;
  }
  const Node reader = graph.node(uses[0].node);
  if (reader.qualified_op() != "Cast" || graph.type(reader.outputs[0]).dtype != narrow.dtype)
    return id;
  const NodeId made =
      graph.add_node("xrt", node.op, inputs, {""}, node.attributes, node.name + "/narrow");
  const ValueId result = graph.node(made).outputs[0];
  graph.set_type(result, graph.type(reader.outputs[0]));
  graph.replace_uses(reader.outputs[0], result);  // who reads nothing any longer is dropped later
  return made;
}

void sum_bias(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (!node.output(1).valid()) return;
  Writer w(graph, wide_type(graph, node.inputs[1]));
  replace(graph, w, node.outputs[1], w.reduce("ReduceSum", w.widened(node.inputs[1])));
}

}  // namespace
}  // namespace training

Support supports_loss(const GraphView& graph, const NodeView& node) {
  const TypeView x = graph.type(node.input(0)), labels = graph.type(node.input(1));
  if (x.rank() < 2) return Support::no("it has no classes");
  const DType dtype = x.dtype();
  if (!is_half(dtype) && dtype != DType::kFloat32 && dtype != DType::kFloat64) {
    return Support::no("its scores are no floats");
  }
  if (labels.dtype() != DType::kInt64 && labels.dtype() != DType::kInt32) {
    return Support::no("its labels are neither int32 nor int64");
  }
  return Support::yes();
}

Support supports_dropout(const GraphView& graph, const NodeView& node) {
  constexpr std::size_t kTrains = 2;
  if (!node.input(kTrains).valid()) return Support::yes();
  const TensorView trains = graph.constant(node.input(kTrains));
  if (!trains.defined() || *static_cast<const std::uint8_t*>(trains.raw()) != 0) {
    return Support::no("it may drop elements");
  }
  return Support::yes();
}

void expand_training(xrt::Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    const std::string op = graph.node(id).qualified_op();
    if (op == "BatchNormalization" && graph.node(id).attr_int("training_mode", 0) != 0) {
      training::expand_normalization(graph, id);
    } else if (op == "xrt.BatchNormalizationGradient") {
      training::expand_normalization_gradient(graph, id);
    } else if (op == "NegativeLogLikelihoodLoss" || op == "SoftmaxCrossEntropyLoss") {
      training::expand_loss(graph, id);
    } else if (op == "Dropout") {
      training::expand_dropout(graph, id);
    } else if (op == "LayerNormalization" &&
               (graph.node(id).output(1).valid() || graph.node(id).output(2).valid())) {
      training::expand_layer_normalization(graph, id);
    } else if (op == "xrt.MaxPoolGradient") {
      training::narrow_gradient(graph, id);
    } else if (op == "xrt.ConvWeightGradient") {
      training::sum_bias(graph, id);
      training::multiply_weight_gradient(graph, training::narrow_gradient(graph, id));
    } else if (op == "ConvTranspose") {
      training::multiply_transposed_convolution(graph, id);
    }
  }
}

}  // namespace xrt::cuda
