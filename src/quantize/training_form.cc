// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "ir/attributes.h"
#include "ir/pattern.h"
#include "ir/rewrite.h"
#include "ops/canonical.h"
#include "ops/quantized.h"
#include "ops/shape_inference.h"
#include "quantize/scheme.h"
#include "xrt/error.h"
#include "xrt/quantize_training.h"

namespace xrt {
namespace {

constexpr float kLeastWeight = 1e-8F;  // of a channel whose weights are all zero

// The name that the quantiser gave to the bytes, without what it added.
std::string plain_name(const Graph& graph, ValueId v) {
  const std::string& name = graph.value(v).name;
  constexpr std::string_view kEnd = "/quantized";
  return name.ends_with(kEnd) ? name.substr(0, name.size() - kEnd.size()) : name + "/float";
}

class Opening {
 public:
  explicit Opening(Graph& graph) : graph_(graph) {}

  std::size_t run() {
    std::size_t opened = 0;
    for (const NodeId id : graph_.topological_order()) {
      const Node node = graph_.node(id);
      if (!is_op(node, "DequantizeLinear")) continue;
      const Tensor* q = graph_.constant(node.input(0));
      if (q == nullptr || (!is_byte(q->dtype()) && q->dtype() != DType::kInt32)) continue;
      Tensor numbers = dequantized(graph_, node);
      if (!numbers.defined()) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("node '{}' (DequantizeLinear): its scales or zero points do not "
                                "fit its constant",
                                node.name));
      }
      const bool is_weight = is_byte(q->dtype());
      const DType dtype = q->dtype();
      const std::string name = plain_name(graph_, node.input(0));
      graph_.set_value_name(node.input(0), name + "/before");  // its name is the new bytes'
      const ValueId w = graph_.add_constant(name, std::move(numbers));
      replace_value(graph_, node.output(0), is_weight ? rounded(node, w, dtype) : w);
      graph_.remove_node(id);
      if (is_weight) ++opened;
    }
    if (opened == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the graph has no quantised weights: quantise it first");
    }
    infer_shapes(graph_);
    if (canonicalize(graph_)) infer_shapes(graph_);
    return opened;
  }

 private:
  static bool is_zero(const Tensor& t) {
    const auto* bytes = static_cast<const char*>(t.raw());
    return std::all_of(bytes, bytes + t.bytes(), [](char c) { return c == 0; });
  }

  ValueId rounded(const Node& node, ValueId w, DType dtype) {
    const std::string name = graph_.value(w).name;
    ValueId scale = node.input(1);
    ValueId zero = node.input(2);
    if (!zero.valid()) {
      Tensor zeros = Tensor::allocate(dtype, graph_.constant(scale)->dims());
      std::memset(zeros.raw(), 0, zeros.bytes());
      zero = graph_.add_constant(name + "/zero_point", std::move(zeros));
    }
    const bool blocked = need_int(node, "block_size") != 0;
    // With a zero point, or in blocks, the scale stays.
    if (dtype == DType::kInt8 && is_zero(*graph_.constant(zero)) && !blocked) {
      scale = following(node, w, name);
    }
    const Attributes attributes{{"axis", need_int(node, "axis")},
                                {"block_size", need_int(node, "block_size")}};
    const ValueId q =
        graph_.add_op("QuantizeLinear", {w, scale, zero}, attributes, name + "/quantized");
    return graph_.add_op("DequantizeLinear", {q, scale, zero}, attributes, name + "/dequantized");
  }

  // max |w| / 127, of each channel.
  ValueId following(const Node& node, ValueId w, const std::string& name) {
    const Tensor& scale = *graph_.constant(node.input(1));
    const auto rank = static_cast<std::int64_t>(graph_.constant(w)->rank());
    std::vector<std::int64_t> axes;
    std::int64_t axis = need_int(node, "axis");
    if (axis < 0) axis += rank;
    for (std::int64_t i = 0; i < rank; ++i) {
      if (scale.rank() == 0 || i != axis) axes.push_back(i);
    }
    const ValueId size = graph_.add_op("Abs", {w}, {}, name + "/size");
    const ValueId most = graph_.add_op(
        "ReduceMax", {size, graph_.add_constant(name + "/axes", Tensor::from_int64(axes))},
        {{"keepdims", std::int64_t{0}}}, name + "/largest");
    const ValueId least = graph_.add_constant("", Tensor::scalar(kLeastWeight));
    const ValueId divisor = graph_.add_constant("", Tensor::scalar(127.0F));
    return graph_.add_op("Div", {graph_.add_op("Max", {most, least}), divisor}, {},
                         name + "/scale");
  }

  Graph& graph_;
};

// int32 in steps of the products'; nothing where a number does not fit.
std::optional<Tensor> whole_bias(const Tensor& bias, const std::vector<float>& steps) {
  Tensor whole = Tensor::allocate(DType::kInt32, bias.dims());
  for (std::int64_t c = 0; c < bias.count(); ++c) {
    const double number = bias.data<float>()[c] / double{steps[static_cast<std::size_t>(c)]};
    if (!(std::fabs(number) < quantization::kLargestBias)) return std::nullopt;
    whole.data<std::int32_t>()[c] = static_cast<std::int32_t>(std::nearbyint(number));
  }
  return whole;
}

bool close_bias(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (!is_op(node, "Conv") && !is_op(node, "Gemm")) return false;
  const Tensor* bias = node.input(2).valid() ? graph.constant(node.input(2)) : nullptr;
  const Node* dq =
      node.input(1).valid() ? producer(graph, node.input(1), "DequantizeLinear") : nullptr;
  const auto from = dequantised_from(graph, node.input(0));
  if (bias == nullptr || bias->dtype() != DType::kFloat32 || bias->rank() != 1 || dq == nullptr ||
      !from || need_int(*dq, "block_size") != 0 ||
      (node.op == "Gemm" && (need_float(node, "alpha") != 1 || need_float(node, "beta") != 1))) {
    return false;
  }
  const Tensor* scales = graph.constant(dq->input(1));
  if (scales == nullptr || (scales->count() != 1 && scales->count() != bias->count())) {
    return false;
  }
  std::vector<float> steps;
  for (std::int64_t c = 0; c < bias->count(); ++c) {
    steps.push_back(from->scale * scales->data<float>()[scales->count() == 1 ? 0 : c]);
  }
  auto whole = whole_bias(*bias, steps);
  if (!whole) return false;
  const std::string name = graph.value(node.input(2)).name;
  const Dims dims = bias->dims();
  const ValueId old = node.input(2);
  const ValueId q = graph.add_constant(name + "/quantized", std::move(*whole));
  const ValueId scale = graph.add_constant(
      name + "/scale", Tensor::from<float>(DType::kFloat32, dims, std::span<const float>(steps)));
  graph.set_input(id, 2,
                  graph.add_op("DequantizeLinear", {q, scale}, {{"axis", std::int64_t{0}}},
                               name + "/dequantized"));
  if (graph.uses(old).empty() && !graph.is_output(old)) graph.remove_value(old);
  return true;
}

}  // namespace

std::size_t open_quantised_weights(Graph& graph) { return Opening(graph).run(); }

std::size_t close_quantised_weights(Graph& graph) {
  std::size_t closed = 0;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (is_op(node, "QuantizeLinear")) {
      const Node* size = producer(graph, node.input(1));
      if (size != nullptr) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("node '{}' (QuantizeLinear): its scale is computed; the weights "
                                "are no constants, or were not folded",
                                node.name));
      }
    }
    if (close_bias(graph, id)) ++closed;
  }
  infer_shapes(graph);
  if (canonicalize(graph)) infer_shapes(graph);
  return closed;
}

}  // namespace xrt
