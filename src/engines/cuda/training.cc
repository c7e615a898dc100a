// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/training.h"

#include <string>
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

 private:
  ValueId op_of(std::string_view name, std::vector<ValueId> inputs, DType dtype, const Dims& dims,
                Attributes attributes) {
    const ValueId made = graph_.add_op(name, std::move(inputs), std::move(attributes));
    graph_.set_type(made, Type::tensor(dtype, dims));
    return made;
  }

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

// y = (x - mean) / sqrt(variance + epsilon) · scale + bias, and the running statistics.
void expand_normalization(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  Writer w(graph, wide_type(graph, node.inputs[0]));
  const Dims dims = w.dims(node.inputs[0]);
  const Dims channels{dims[1]};
  const std::size_t rank = dims.size();
  const ValueId x = w.widened(node.inputs[0]);
  const ValueId mean = w.reduce("ReduceMean", x);
  const ValueId off = w.op("Sub", {x, w.by_channel(mean, rank)}, dims);
  const ValueId variance = w.reduce("ReduceMean", w.op("Mul", {off, off}, dims));
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
  const ValueId bias = w.reduce("ReduceSum", dy);
  const ValueId scale = w.reduce("ReduceSum", w.op("Mul", {dy, hat}, dims));
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

void sum_bias(xrt::Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (!node.output(1).valid()) return;
  Writer w(graph, wide_type(graph, node.inputs[1]));
  replace(graph, w, node.outputs[1], w.reduce("ReduceSum", w.widened(node.inputs[1])));
}

}  // namespace
}  // namespace training

void expand_training(xrt::Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    const std::string op = graph.node(id).qualified_op();
    if (op == "BatchNormalization" && graph.node(id).attr_int("training_mode", 0) != 0) {
      training::expand_normalization(graph, id);
    } else if (op == "xrt.BatchNormalizationGradient") {
      training::expand_normalization_gradient(graph, id);
    } else if (op == "xrt.ConvWeightGradient") {
      training::sum_bias(graph, id);
    }
  }
}

}  // namespace xrt::cuda
