// SPDX-License-Identifier: Apache-2.0
#include "autodiff/training_mode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autodiff/emitter.h"
#include "ir/attributes.h"
#include "ir/rewrite.h"
#include "xrt/error.h"

namespace xrt::autodiff {
namespace {

bool is_standard(const Node& node, std::string_view op) {
  return node.domain.empty() && node.op == op;
}

[[noreturn]] void refuse(const Node& node, const char* reason) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("training of node '{}' ({}): {}", node.name, node.op, reason));
}

// Of a Dropout; 0.5 where it is left out.
double drop_ratio(const Graph& graph, const Node& node) {
  if (!node.input(1).valid()) return 0.5;
  const Tensor* ratio = graph.constant(node.input(1));
  if (ratio == nullptr) refuse(node, "the ratio is not a constant");
  double value = 0;
  if (ratio->dtype() == DType::kFloat32) {
    value = *ratio->data<float>();
  } else if (ratio->dtype() == DType::kFloat64) {
    value = *ratio->data<double>();
  } else {
    refuse(node, "the ratio is neither float32 nor float64");
  }
  if (!(value >= 0 && value < 1)) refuse(node, "the ratio is not in [0, 1)");
  return value;
}

// The number of each element, uint32, as a sum of two constants so that neither is large.
Var element_numbers(Emitter& e, const Dims& dims) {
  const std::int64_t columns = dims.empty() ? 1 : dims.back();
  const std::int64_t rows = columns == 0 ? 0 : element_count(dims) / columns;
  Dims outer = dims;
  if (!outer.empty()) outer.back() = 1;
  Tensor high = Tensor::allocate(DType::kUInt32, outer);
  for (std::int64_t i = 0; i < rows; ++i) {
    high.data<std::uint32_t>()[i] = static_cast<std::uint32_t>(i * columns);
  }
  Tensor low = Tensor::allocate(DType::kUInt32, dims.empty() ? Dims{} : Dims{columns});
  for (std::int64_t i = 0; i < columns; ++i) {
    low.data<std::uint32_t>()[i] = static_cast<std::uint32_t>(i);
  }
  return e.constant(high) + e.constant(low);
}

Var uint32(Emitter& e, std::uint32_t value) {
  return e.scalar(static_cast<double>(value), DType::kUInt32);
}

Var mixed(Var h, std::uint32_t shift) {
  Emitter& e = *h.e;
  const Var shifted =
      e.op("BitShift", {h, uint32(e, shift)}, {{"direction", std::string("RIGHT")}});
  return e.op("BitwiseXor", {h, shifted});
}

// The finaliser of MurmurHash3 (Appleby, public domain) over element number and key.
Var random_bits(Emitter& e, const Dims& dims, Var key, std::uint32_t salt) {
  Var h = element_numbers(e, dims) * uint32(e, 0x9E3779B1U) + (key + uint32(e, salt));
  h = mixed(h, 16) * uint32(e, 0x85EBCA6BU);
  h = mixed(h, 13) * uint32(e, 0xC2B2AE35U);
  return mixed(h, 16);
}

void drop(Graph& graph, Emitter& e, NodeId id, Var key, std::uint32_t salt) {
  const Node node = graph.node(id);
  const double ratio = drop_ratio(graph, node);
  const Type type = graph.type(node.inputs[0]);
  const auto dims = type.static_dims();
  if (!dims) refuse(node, "the shape of its input is not known");
  e.set_prefix(node.name);
  const Var x = e.var(node.inputs[0]);
  const auto threshold = static_cast<std::uint32_t>(std::min(std::ldexp(ratio, 32), 4294967295.0));
  const Var keep = greater_equal(random_bits(e, *dims, key, salt), uint32(e, threshold));
  graph.set_type(keep.id, Type::tensor(DType::kBool, *dims));
  const Var y = masked(keep, x * (1 / (1 - ratio)));
  graph.set_type(y.id, type);
  replace_value(graph, node.outputs[0], y.id);
  if (node.output(1).valid()) replace_value(graph, node.outputs[1], keep.id);
  graph.remove_node(id);
}

// With the batch's own statistics; returns the next running ones.
std::pair<ValueId, ValueId> use_batch_statistics(Graph& graph, Emitter& e, NodeId id) {
  const Node node = graph.node(id);
  const auto dims = graph.type(node.inputs[0]).static_dims();
  if (!dims || dims->size() < 2) refuse(node, "the shape of its input is not known");
  const double count = static_cast<double>(element_count(*dims)) /
                       static_cast<double>(std::max<std::int64_t>((*dims)[1], 1));
  if (count < 2) refuse(node, "a batch of one element per channel has no variance");
  const double momentum = need_float(node, "momentum");
  Attributes attributes = node.attributes;
  attributes["training_mode"] = std::int64_t{1};
  // With no momentum the outputs are the batch's own statistics, which the gradient wants too.
  attributes["momentum"] = 0.0F;
  e.set_prefix(node.name);
  std::vector<Var> inputs;
  for (const ValueId v : node.inputs) inputs.push_back(e.var(v));
  const DType dtype = inputs[0].dtype;
  const DType statistics = inputs[3].dtype;
  const std::vector<Var> made = e.node("", "BatchNormalization", inputs,
                                       {dtype, statistics, statistics}, std::move(attributes));
  graph.set_type(made[0].id, graph.type(node.outputs[0]));
  const Var center = inputs[3] * momentum + made[1] * (1 - momentum);
  const Var variance = inputs[4] * momentum + made[2] * ((1 - momentum) * count / (count - 1));
  for (const Var v : {made[1], made[2], center, variance}) {
    graph.set_type(v.id, graph.type(node.inputs[3]));
  }
  replace_value(graph, node.outputs[0], made[0].id);
  graph.remove_node(id);
  return {center.id, variance.id};
}

}  // namespace

void leave_training_mode(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    const Node node = graph.node(id);
    if (is_standard(node, "Dropout") && node.input(2).valid()) {
      graph.set_input(id, 2, ValueId{});
    }
    if (!is_standard(node, "BatchNormalization") || need_int(node, "training_mode") == 0) {
      continue;
    }
    for (const std::size_t k : {1U, 2U}) {
      if (node.output(k).valid()) replace_value(graph, node.outputs[k], node.inputs[k + 2]);
    }
    Attributes attributes = node.attributes;
    attributes["training_mode"] = std::int64_t{0};
    const ValueId y =
        graph.add_op("BatchNormalization", node.inputs, std::move(attributes), node.name);
    graph.set_type(y, graph.type(node.outputs[0]));
    replace_value(graph, node.outputs[0], y);
    graph.remove_node(id);
  }
}

std::vector<ValueId> running_statistics(const Graph& graph) {
  std::vector<ValueId> found;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (!is_standard(node, "BatchNormalization")) continue;
    for (const std::size_t i : {3U, 4U}) {
      const ValueId v = node.input(i);
      if (graph.constant(v) == nullptr || std::find(found.begin(), found.end(), v) != found.end()) {
        continue;
      }
      found.push_back(v);
    }
  }
  return found;
}

TrainingMode enter_training_mode(Graph& graph) {
  TrainingMode mode;
  Emitter e(graph);
  std::uint32_t salt = 0;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (is_standard(node, "Dropout") && drop_ratio(graph, node) > 0) {
      if (!mode.key.valid()) {
        mode.key = graph.add_input("dropout_key", Type::tensor(DType::kUInt32, Shape{}));
      }
      drop(graph, e, id, e.var(mode.key), salt += 0x6C8E9CF5U);
    } else if (is_standard(node, "BatchNormalization")) {
      const ValueId mean = node.inputs[3];
      const ValueId variance = node.inputs[4];
      const auto next = use_batch_statistics(graph, e, id);
      const bool seen = std::any_of(mode.running.begin(), mode.running.end(),
                                    [&](const auto& pair) { return pair.first == mean; });
      if (graph.value(mean).origin == Origin::kInput && !seen) {
        mode.running.emplace_back(mean, next.first);
        mode.running.emplace_back(variance, next.second);
      }
    }
  }
  return mode;
}

}  // namespace xrt::autodiff
