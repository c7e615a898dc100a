// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/int8/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/listed.h"
#include "engines/native/dnn/int8/int8.h"
#include "ir/pattern.h"
#include "ops/quantized.h"

namespace xrt::native::dnn {
namespace {

constexpr std::size_t kMostNames = 8;  // of nodes, per reason

bool is_on_bytes(const Node& node) {
  return node.op == "QLinearConv" || node.op == "QLinearMatMul" || node.op == "MatMulInteger" ||
         node.op == "ConvInteger";
}

bool multiplies(const Node& node) {
  return node.op == "Conv" || node.op == "Gemm" || node.op == "MatMul" || is_on_bytes(node);
}

bool is_quantised(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || node.op == "QuantizeLinear" || node.op == "Shape" ||
      node.op == "Size") {
    return false;
  }
  if (is_on_bytes(node)) return true;
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    const Node* source = input.valid() ? producer(graph, input, "DequantizeLinear") : nullptr;
    if (source == nullptr || graph.constant(source->input(0)) != nullptr) return false;
    const DType bytes = graph.type(source->input(0)).dtype;
    return bytes == DType::kUInt8 || bytes == DType::kInt8;
  });
}

// Which input holds the weights.
std::size_t weights_of(const Node& node) {
  return node.op == "QLinearConv" || node.op == "QLinearMatMul" ? 3 : 1;
}

// Of weights that are constant themselves or behind a DequantizeLinear.
bool has_constant_weights(const Graph& graph, const Node& node) {
  const ValueId w = node.input(weights_of(node));
  const Node* source = w.valid() ? producer(graph, w, "DequantizeLinear") : nullptr;
  return graph.constant(source != nullptr ? source->input(0) : w) != nullptr;
}

std::string why_float(const Graph& graph, const Node& node) {
  if (byte_products() == ByteProducts::kNone) {
    return "the processor has neither VNNI nor AMX, without which sums of products of bytes "
           "are not exact, and is none with AVX2 and without AVX-512, where they pay all the same";
  }
  if (multiplies(node)) {
    if (!has_constant_weights(graph, node)) return "both factors are computed by the run";
    if (!is_on_bytes(node)) {
      if (!dequantised_from(graph, node.input(0))) {
        return "the first factor is not quantised with one constant scale";
      }
      if (producer(graph, node.input(1), "DequantizeLinear") == nullptr) {
        return "the weights are not quantised";
      }
    }
    return "there is no fast loop on bytes for its shape, or the weights' scales or zero points "
           "are of no kind that one takes (one, or one per output channel; differences of 8 bits)";
  }
  const bool all = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    return !input.valid() || graph.constant(input) != nullptr ||
           dequantised_from(graph, input).has_value();
  });
  if (!all) return "an input is not quantised with one constant scale";
  const bool to_bytes = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
    return output.valid() && quantised_to(graph, output).has_value();
  });
  if (!to_bytes) return "its result is not quantised, or read as numbers too";
  return "it has no form on bytes here";
}

}  // namespace

Int8Report::Int8Report(const Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (is_quantised(graph, node)) nodes_.push_back({id, node.name, node.op});
  }
}

std::vector<std::string> Int8Report::remarks(const Graph& graph) const {
  if (nodes_.empty()) return {};
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // by reason
  std::size_t floats = 0;
  for (const Quantised& q : nodes_) {
    const auto found = reasons_.find(q.id);
    if (found == reasons_.end() && !graph.alive(q.id)) continue;
    const std::string reason =
        found != reasons_.end() ? found->second : why_float(graph, graph.node(q.id));
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& group) { return group.first == reason; });
    auto& group = same != groups.end() ? *same : groups.emplace_back(reason, 0);
    group.second.push_back(fmt::format("'{}' ({})", q.name, q.op));
    ++floats;
  }
  std::vector<std::string> result{fmt::format("{} of {} quantised nodes run in integers",
                                              nodes_.size() - floats, nodes_.size())};
  for (const auto& [reason, names] : groups) {
    result.push_back(
        fmt::format("in floating point, as {}: {}", reason, listed(names, kMostNames)));
  }
  return result;
}

}  // namespace xrt::native::dnn
