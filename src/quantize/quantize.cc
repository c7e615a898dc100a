// SPDX-License-Identifier: Apache-2.0
#include "xrt/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "ops/canonical.h"
#include "ops/shape_inference.h"
#include "quantize/scheme.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr float kLargestWeight = 127;     // -128 is not used: symmetric
constexpr double kLargestBias = 1 << 30;  // an int32 sum of products has room beside it

struct Scale {
  float scale = 1;
  std::uint8_t zero = 0;
};

// Zero is one of the 256 steps: padding and Relu are exact.
Scale scale_of(ValueRange range) {
  const double low = std::min(0.0, double{range.low}), high = std::max(0.0, double{range.high});
  if (high - low < 1e-30) return {};
  Scale s;
  s.scale = static_cast<float>((high - low) / 255);
  s.zero = static_cast<std::uint8_t>(std::clamp(std::nearbyint(-low / s.scale), 0.0, 255.0));
  return s;
}

class Quantizer {
 public:
  Quantizer(Graph& graph, const quantization::Scheme& scheme) : graph_(graph), scheme_(scheme) {}

  void run(const ValueRanges& ranges) {
    find_scales(ranges);
    // Sums first: they look their input's scale up by the value that they still read.
    for (const NodeId id : scheme_.sums) quantize_factors(id);
    for (std::size_t i = 0; i < scheme_.values.size(); ++i) {
      quantize_value(scheme_.values[i], scales_[scheme_.groups[i]]);
    }
    infer_shapes(graph_);
    if (canonicalize(graph_)) infer_shapes(graph_);
  }

 private:
  void find_scales(const ValueRanges& ranges) {
    std::vector<ValueRange> merged(scheme_.values.size());
    for (std::size_t i = 0; i < scheme_.values.size(); ++i) {
      const std::string& name = graph_.value(scheme_.values[i]).name;
      const auto found = ranges.find(name);
      if (found == ranges.end() || !std::isfinite(found->second.low) ||
          !std::isfinite(found->second.high) || found->second.low > found->second.high) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("value '{}' has no range to quantise it by: calibrate the graph as "
                                "it is now",
                                name));
      }
      ValueRange& m = merged[scheme_.groups[i]];
      m = {std::min(m.low, found->second.low), std::max(m.high, found->second.high)};
      groups_[scheme_.values[i]] = scheme_.groups[i];
    }
    for (const ValueRange& m : merged) scales_.push_back(scale_of(m));
  }

  ValueId constant(const std::string& name, DType dtype, Dims dims, const void* data) {
    Tensor t = Tensor::allocate(dtype, std::move(dims));
    std::copy_n(static_cast<const char*>(data), t.bytes(), t.data<char>());
    return graph_.add_constant(name, std::move(t));
  }

  // value -> QuantizeLinear -> DequantizeLinear -> everything that read the value.
  void quantize_value(ValueId id, const Scale& s) {
    const std::string name = graph_.value(id).name;
    const bool renamed = graph_.is_output(id) && graph_.value(id).origin == Origin::kNode;
    const ValueId scale = constant(name + "/scale", DType::kFloat32, {}, &s.scale);
    const ValueId zero = constant(name + "/zero_point", DType::kUInt8, {}, &s.zero);
    const ValueId q = graph_.add_op("QuantizeLinear", {id, scale, zero}, {}, name + "/quantized");
    const ValueId dq =
        graph_.add_op("DequantizeLinear", {q, scale, zero}, {}, name + "/dequantized");
    std::vector<std::size_t> outputs;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (graph_.outputs()[i] == id) outputs.push_back(i);
    }
    graph_.replace_uses(id, dq);
    graph_.set_input(graph_.value(q).producer, 0, id);
    if (renamed) {  // the name of an output is the graph's interface
      graph_.set_value_name(id, name + "/float");
      graph_.set_value_name(dq, name);
    } else {
      for (const std::size_t i : outputs) graph_.replace_output(i, id);
    }
  }

  void drop_unused(ValueId constant) {
    if (graph_.uses(constant).empty() && !graph_.is_output(constant)) graph_.remove_value(constant);
  }

  // int8 weights with a scale per channel, an int32 bias.
  void quantize_factors(NodeId id) {
    const Node node = graph_.node(id);
    const Tensor weights = *graph_.constant(node.input(1));
    const float x_scale = scales_[groups_.at(node.input(0))].scale;
    const bool by_row = node.op == "Conv" || node.attr_int("transB", 0) != 0;
    const std::size_t axis = by_row ? 0 : 1;
    const std::int64_t channels = weights.dims()[axis];
    const std::int64_t inner = by_row ? weights.count() / channels : 1;
    const auto channel = [&](std::int64_t i) { return i / inner % channels; };
    const float* w = weights.data<float>();
    std::vector<float> scales(static_cast<std::size_t>(channels), 0);
    for (std::int64_t i = 0; i < weights.count(); ++i) {
      if (!std::isfinite(w[i])) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("node '{}' ({}): a weight is not finite", node.name, node.op));
      }
      float& s = scales[static_cast<std::size_t>(channel(i))];
      s = std::max(s, std::fabs(w[i]) / kLargestWeight);
    }
    const bool has_bias = node.input(2).valid();
    const Tensor bias = has_bias ? *graph_.constant(node.input(2)) : Tensor();
    for (std::int64_t c = 0; c < channels; ++c) {
      float& s = scales[static_cast<std::size_t>(c)];
      // A channel of tiny weights under a large bias gets coarser weights.
      if (has_bias) {
        const double b = std::fabs(bias.data<float>()[bias.count() == 1 ? 0 : c]);
        if (!std::isfinite(b)) {
          throw Error(ErrorCode::kInvalidArgument,
                      fmt::format("node '{}' ({}): a bias is not finite", node.name, node.op));
        }
        s = std::max(s, static_cast<float>(b / (kLargestBias * x_scale)));
      }
      if (s < 1e-30F) s = 1;
    }
    Tensor steps = Tensor::allocate(DType::kInt8, weights.dims());
    for (std::int64_t i = 0; i < weights.count(); ++i) {
      const float q = std::nearbyint(w[i] / scales[static_cast<std::size_t>(channel(i))]);
      steps.data<std::int8_t>()[i] =
          static_cast<std::int8_t>(std::clamp(q, -kLargestWeight, kLargestWeight));
    }
    const std::string name = graph_.value(node.input(1)).name;
    const ValueId q = graph_.add_constant(name + "/quantized", std::move(steps));
    const ValueId scale = constant(name + "/scale", DType::kFloat32, {channels}, scales.data());
    std::vector<ValueId> factors{q, scale};
    if (node.op != "Conv") {  // ONNX Runtime computes products in integers only if they are given
      const std::vector<std::int8_t> zeros(static_cast<std::size_t>(channels));
      factors.push_back(constant(name + "/zero_point", DType::kInt8, {channels}, zeros.data()));
    }
    graph_.set_input(
        id, 1,
        graph_.add_op("DequantizeLinear", std::move(factors),
                      {{"axis", static_cast<std::int64_t>(axis)}}, name + "/dequantized"));
    drop_unused(node.input(1));
    if (!has_bias) return;
    std::vector<std::int32_t> whole(static_cast<std::size_t>(channels));
    for (std::size_t c = 0; c < whole.size(); ++c) {
      const double b = bias.data<float>()[bias.count() == 1 ? 0 : c];
      scales[c] *= x_scale;
      whole[c] = static_cast<std::int32_t>(std::nearbyint(b / scales[c]));
    }
    const std::string bias_name = graph_.value(node.input(2)).name;
    const ValueId bq = constant(bias_name + "/quantized", DType::kInt32, {channels}, whole.data());
    const ValueId bs = constant(bias_name + "/scale", DType::kFloat32, {channels}, scales.data());
    graph_.set_input(id, 2,
                     graph_.add_op("DequantizeLinear", {bq, bs}, {{"axis", std::int64_t{0}}},
                                   bias_name + "/dequantized"));
    drop_unused(node.input(2));
  }

  Graph& graph_;
  const quantization::Scheme& scheme_;
  std::map<ValueId, std::size_t> groups_;
  std::vector<Scale> scales_;  // of groups
};

}  // namespace

QuantizeSummary quantize(Graph& graph, const ValueRanges& ranges, const QuantizeOptions& options) {
  const quantization::Scheme scheme = quantization::make_scheme(graph, options);
  Quantizer(graph, scheme).run(ranges);
  return {scheme.sums.size(), scheme.kept, scheme.values.size()};
}

}  // namespace xrt
