// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/pattern.h"
#include "ops/canonical.h"
#include "ops/shape_inference.h"
#include "quantize/weight_blocks.h"
#include "quantize/weights.h"
#include "xrt/error.h"
#include "xrt/quantize_weights.h"

namespace xrt {
namespace {

using quantization::BlockForm;
using quantization::QuantisedBlocks;

// Where a node has its weights, and along which axis blocks lie.
struct WeightPlace {
  std::size_t input;
  std::size_t axis;
};

std::optional<WeightPlace> weights_of(const Graph& graph, const Node& node) {
  std::optional<WeightPlace> place;
  if (is_op(node, "MatMul")) place = {1, 0};
  if (is_op(node, "Gemm")) place = {1, node.attr_int("transB", 0) != 0 ? 1UL : 0UL};
  if (is_op(node, "Gather") && node.attr_int("axis", 0) == 0) place = {0, 1};
  if (!place) return std::nullopt;
  const ValueId v = node.input(place->input);
  const Tensor* w = v.valid() ? graph.constant(v) : nullptr;
  const bool fits = w != nullptr && w->rank() == 2 && w->count() > 0 &&
                    (w->dtype() == DType::kFloat32 || w->dtype() == DType::kFloat16);
  return fits ? place : std::nullopt;
}

class WeightQuantizer {
 public:
  WeightQuantizer(Graph& graph, const WeightOptions& options) : graph_(graph), options_(options) {
    const std::int64_t block = options.block;
    if (options.bits != 4 && options.bits != 8) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("weights of {} bits: 4 and 8 are possible", options.bits));
    }
    if (block != 0 && (block < 16 || (block & (block - 1)) != 0)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("blocks of {} weights: a power of two from 16 on, or 0 for one scale "
                              "per output channel",
                              block));
    }
  }

  WeightSummary run() {
    double worst = std::numeric_limits<double>::infinity();
    for (const NodeId id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      const auto place = weights_of(graph_, node);
      if (!place) continue;
      const ValueId w = node.input(place->input);
      if (options_.skip.contains(node.name) ||
          graph_.constant(w)->count() < options_.least_elements) {
        ++summary_.kept;
        continue;
      }
      auto found = made_.find({w, place->axis});
      if (found == made_.end()) {
        found =
            made_.emplace(std::pair(w, place->axis), quantise(node, w, place->axis, worst)).first;
      }
      if (!found->second.valid()) {
        ++summary_.kept;
        summary_.too_small.push_back(node.name);
        continue;
      }
      ++(place->input == 0 ? summary_.tables : summary_.products);
      graph_.set_input(id, place->input, found->second);
    }
    for (const auto& [key, unused] : made_) {
      if (graph_.uses(key.first).empty() && !graph_.is_output(key.first)) {
        graph_.remove_value(key.first);
      }
    }
    summary_.decibels = std::isinf(worst) ? 0 : worst;
    infer_shapes(graph_);
    if (canonicalize(graph_)) infer_shapes(graph_);
    return summary_;
  }

 private:
  // None where the weights are too small.
  ValueId quantise(const Node& node, ValueId id, std::size_t axis, double& worst) {
    const Tensor w = *graph_.constant(id);
    const std::vector<float> numbers = quantization::matrix_numbers(w);
    if (!std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); })) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("node '{}' ({}): a weight is not finite", node.name, node.op));
    }
    if (quantization::all_vanish(numbers)) return ValueId();
    const BlockForm form{options_.bits, options_.block, options_.symmetric, options_.search};
    const QuantisedBlocks blocks = quantization::quantise_blocks(w, numbers, axis, form);
    if (blocks.signal > 0) {
      worst = std::min(worst, 10 * std::log10(blocks.signal / std::max(blocks.noise, 1e-300)));
    }
    summary_.bytes_before += w.bytes();
    summary_.bytes_after += blocks.numbers.bytes() + blocks.scales.bytes() +
                            (blocks.zeros.defined() ? blocks.zeros.bytes() : 0);
    const std::string name = graph_.value(id).name;
    std::vector<ValueId> inputs{graph_.add_constant(name + "/quantized", blocks.numbers),
                                graph_.add_constant(name + "/scale", blocks.scales)};
    if (blocks.zeros.defined()) {
      inputs.push_back(graph_.add_constant(name + "/zero_point", blocks.zeros));
    }
    const bool blocked = blocks.scales.rank() == 2;
    return graph_.add_op("DequantizeLinear", std::move(inputs),
                         {{"axis", static_cast<std::int64_t>(blocked ? axis : 1 - axis)},
                          {"block_size", blocked ? options_.block : std::int64_t{0}}},
                         name + "/dequantized");
  }

  Graph& graph_;
  const WeightOptions& options_;
  WeightSummary summary_;
  std::map<std::pair<ValueId, std::size_t>, ValueId> made_;  // by weights and axis
};

}  // namespace

WeightSummary quantize_weights(Graph& graph, const WeightOptions& options) {
  return WeightQuantizer(graph, options).run();
}

}  // namespace xrt
