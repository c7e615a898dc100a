// SPDX-License-Identifier: Apache-2.0
// Rule: A·W becomes
//   (MatMulInteger(q, w, zero) as float32) * (scale of A * scales of W)
// with q, scale and zero of A by DynamicQuantizeLinear. The factors are multiplied with each other
// first: so engines recognise it (ONNX Runtime's own quantiser writes the same).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ir/pattern.h"
#include "ir/rewrite.h"
#include "ops/canonical.h"
#include "ops/shape_inference.h"
#include "quantize/weight_blocks.h"
#include "quantize/weights.h"
#include "xrt/error.h"
#include "xrt/quantize_weights.h"

namespace xrt {
namespace {

class DynamicQuantizer {
 public:
  DynamicQuantizer(Graph& graph, const DynamicOptions& options)
      : graph_(graph), options_(options) {}

  DynamicSummary run() {
    DynamicSummary summary;
    for (const NodeId id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      if (!is_op(node, "MatMul") && !is_op(node, "Gemm")) continue;
      const Tensor* w = node.input(1).valid() ? graph_.constant(node.input(1)) : nullptr;
      if (w == nullptr || w->dtype() != DType::kFloat32 || w->count() == 0) continue;
      const Type& a = graph_.type(node.input(0));
      const bool takes = w->rank() == 2 && w->count() >= options_.least_elements &&
                         a.dtype == DType::kFloat32 && !options_.skip.contains(node.name) &&
                         (node.op == "MatMul" ||
                          (node.attr_int("transA", 0) == 0 && node.attr_float("alpha", 1) == 1));
      if (!takes) {
        ++summary.kept;
        continue;
      }
      if (!quantise(id)) {
        ++summary.kept;
        summary.too_small.push_back(node.name);
        continue;
      }
      ++summary.products;
    }
    for (const ValueId v : unused_) {
      if (graph_.uses(v).empty()) graph_.remove_value(v);
    }
    infer_shapes(graph_);
    if (canonicalize(graph_)) infer_shapes(graph_);
    return summary;
  }

 private:
  struct Bytes {
    ValueId q, scale, zero;
  };

  const Bytes& bytes_of(ValueId a) {
    const auto found = bytes_.find(a);
    if (found != bytes_.end()) return found->second;
    const std::string name = graph_.value(a).name;
    const NodeId id = graph_.add_node("", "DynamicQuantizeLinear", {a},
                                      {name + "/quantized", name + "/scale", name + "/zero_point"},
                                      {}, name + "/quantize");
    const std::vector<ValueId> made = graph_.node(id).outputs;
    return bytes_.emplace(a, Bytes{made[0], made[1], made[2]}).first->second;
  }

  using Factors = std::pair<ValueId, ValueId>;
  // int8 numbers [k, n] and a scale per column; none where the weights are too small.
  Factors weights(const Node& node) {
    const ValueId id = node.input(1);
    const bool turned = node.op == "Gemm" && node.attr_int("transB", 0) != 0;
    const auto found = weights_.find({id, turned});
    if (found != weights_.end()) return found->second;
    Tensor w = *graph_.constant(id);
    std::vector<float> numbers = quantization::matrix_numbers(w);
    if (!std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); })) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("node '{}' ({}): a weight is not finite", node.name, node.op));
    }
    if (quantization::all_vanish(numbers)) return weights_[{id, turned}] = {};
    if (turned) {
      const std::int64_t n = w.dims()[0], k = w.dims()[1];
      std::vector<float> across(numbers.size());
      for (std::int64_t i = 0; i < n * k; ++i) {
        across[static_cast<std::size_t>(i % k * n + i / k)] = numbers[static_cast<std::size_t>(i)];
      }
      numbers = std::move(across);
      w = Tensor::from<float>(DType::kFloat32, {k, n}, std::span<const float>(numbers));
    }
    const quantization::QuantisedBlocks blocks =
        quantization::quantise_blocks(w, numbers, 0, {8, 0, true, false});
    const std::string name = graph_.value(id).name;
    return weights_
        .emplace(std::pair(id, turned),
                 std::pair(graph_.add_constant(name + "/quantized", blocks.numbers),
                           graph_.add_constant(name + "/scale", blocks.scales)))
        .first->second;
  }

  // False where the weights are too small.
  bool quantise(NodeId id) {
    const Node node = graph_.node(id);
    const auto [w, w_scale] = weights(node);
    if (!w.valid()) return false;
    const Bytes& a = bytes_of(node.input(0));
    const std::string name = graph_.value(node.output(0)).name;
    const ValueId sums = graph_.add_op("MatMulInteger", {a.q, w, a.zero}, {}, name + "/sums");
    const ValueId whole = graph_.add_op(
        "Cast", {sums}, {{"to", static_cast<std::int64_t>(DType::kFloat32)}}, name + "/float");
    const ValueId factors = graph_.add_op("Mul", {a.scale, w_scale}, {}, name + "/factors");
    ValueId y = graph_.add_op("Mul", {whole, factors}, {}, name + "/product");
    const float beta = node.attr_float("beta", 1);
    if (node.input(2).valid() && node.op == "Gemm" && beta != 0) {
      ValueId c = node.input(2);
      if (beta != 1) {
        c = graph_.add_op("Mul", {c, graph_.add_constant("", Tensor::scalar(beta))}, {},
                          name + "/scaled");
      }
      y = graph_.add_op("Add", {y, c}, {}, name + "/sum");
    }
    graph_.set_type(y, Type(graph_.type(node.output(0))));
    replace_value(graph_, node.output(0), y);
    graph_.remove_node(id);
    if (!graph_.is_output(node.input(1))) unused_.insert(node.input(1));
    return true;
  }

  Graph& graph_;
  const DynamicOptions& options_;
  std::map<ValueId, Bytes> bytes_;
  std::map<std::pair<ValueId, bool>, Factors> weights_;
  std::set<ValueId> unused_;  // weights
};

}  // namespace

DynamicSummary quantize_dynamic(Graph& graph, const DynamicOptions& options) {
  return DynamicQuantizer(graph, options).run();
}

}  // namespace xrt
