// SPDX-License-Identifier: Apache-2.0
#include "xrt/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "base/listed.h"
#include "ir/pattern.h"
#include "ops/canonical.h"
#include "ops/quantized.h"
#include "ops/shape_inference.h"
#include "quantize/scheme.h"
#include "quantize/weights.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr double kMostBias = 2147483647;

struct Scale {
  float scale = 1;
  std::int32_t zero = 0;
  DType dtype = DType::kUInt8;
};

// Whether all that it holds becomes 0.
bool vanishes(ValueRange range) {
  return std::max(0.0F, range.high) - std::min(0.0F, range.low) < quantization::kLeastRange;
}

// Zero is one of the 256 steps: padding and Relu are exact.
Scale scale_of(ValueRange range, Activations form) {
  const double low = std::min(0.0, double{range.low}), high = std::max(0.0, double{range.high});
  const bool symmetric = form == Activations::kSymmetric;
  Scale s{1, 0, symmetric ? DType::kInt8 : DType::kUInt8};
  if (vanishes(range)) return s;
  s.scale = static_cast<float>(symmetric ? std::max(-low, high) / 127 : (high - low) / 255);
  if (!symmetric) {
    s.zero = static_cast<std::int32_t>(std::clamp(std::nearbyint(-low / s.scale), 0.0, 255.0));
  }
  return s;
}

// "'a', 'b', 'c' and 7 more".
std::string quoted(std::vector<std::string> names) {
  constexpr std::size_t kMost = 3;
  for (std::string& name : names) name = "'" + name + "'";
  return listed(names, kMost);
}

class Quantizer {
 public:
  Quantizer(Graph& graph, const quantization::Scheme& scheme, const QuantizeOptions& options,
            const ChannelRanges& channels)
      : graph_(graph), scheme_(scheme), options_(options), channels_(channels) {}

  // Names of values whose ranges are zero.
  std::vector<std::string> run(const ValueRanges& ranges) {
    find_scales(ranges);
    // Sums first: they look their input's scale up by the value that they still read.
    for (const NodeId id : scheme_.sums) quantize_factors(id);
    for (std::size_t i = 0; i < scheme_.values.size(); ++i) {
      quantize_value(scheme_.values[i], scales_[scheme_.groups[i]]);
    }
    infer_shapes(graph_);
    if (canonicalize(graph_)) infer_shapes(graph_);
    return std::move(zeros_);
  }

 private:
  void find_scales(const ValueRanges& ranges) {
    std::vector<ValueRange> merged(scheme_.values.size());
    scales_.resize(merged.size());
    for (std::size_t i = 0; i < scheme_.values.size(); ++i) {
      const std::string& name = graph_.value(scheme_.values[i]).name;
      const auto found = ranges.find(name);
      if (found == ranges.end()) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("value '{}' has no range to quantise it by: calibrate the graph as "
                                "it is now",
                                name));
      }
      const auto [low, high] = found->second;
      if (!std::isfinite(low) || !std::isfinite(high) || low > high) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("value '{}' has the range {} to {}, which nothing can be quantised "
                                "by: it must be finite and in order",
                                name, low, high));
      }
      ValueRange& m = merged[scheme_.groups[i]];
      m = {std::min(m.low, low), std::max(m.high, high)};
      groups_[scheme_.values[i]] = scheme_.groups[i];
    }
    for (std::size_t i = 0; i < scheme_.values.size(); ++i) {
      const std::size_t group = scheme_.groups[i];
      scales_[group] = scale_of(merged[group], scheme_.forms[i]);
      if (vanishes(merged[group])) {
        zeros_.push_back(graph_.value(scheme_.values[i]).name);
      }
    }
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
    const auto byte = static_cast<std::uint8_t>(s.zero);
    const ValueId zero = constant(name + "/zero_point", s.dtype, {}, &byte);
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
    const std::string label = fmt::format("node '{}' ({})", node.name, node.op);
    const Tensor weights = *graph_.constant(node.input(1));
    const std::size_t axis = quantization::output_axis(node);
    const auto channels = static_cast<std::size_t>(weights.dims()[axis]);
    const float x_scale = scales_[groups_.at(node.input(0))].scale;
    const std::vector<double> bias = bias_of(node, channels, label);
    // A channel of tiny weights under a large bias gets coarser weights.
    std::vector<float> least(channels, 0);
    for (std::size_t i = 0; !options_.float_biases && i < bias.size(); ++i) {
      float& s = least[i % channels];
      s = std::max(s,
                   static_cast<float>(std::fabs(bias[i]) / (quantization::kLargestBias * x_scale)));
    }
    const quantization::ByteFactors rounded =
        quantization::round_weights(weights, axis, least, label);
    const std::vector<double> errors = errors_of(node, weights, rounded);
    put_weights(id, axis, rounded);
    put_bias(id, bias, errors, rounded.scales, x_scale);
  }

  // One number per output channel; empty without a bias.
  std::vector<double> bias_of(const Node& node, std::size_t channels,
                              const std::string& label) const {
    if (!node.input(2).valid()) return {};
    const Tensor& bias = *graph_.constant(node.input(2));
    const bool one = bias.count() == 1;
    std::vector<double> numbers(one ? channels : static_cast<std::size_t>(bias.count()));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = bias.data<float>()[one ? 0 : i];
      if (!std::isfinite(numbers[i])) {
        throw Error(ErrorCode::kInvalidArgument, label + ": a bias is not finite");
      }
    }
    return numbers;
  }

  std::vector<double> errors_of(const Node& node, const Tensor& weights,
                                const quantization::ByteFactors& rounded) const {
    const auto known = channels_.find(graph_.value(node.input(0)).name);
    if (known == channels_.end() || is_op(node, "ConvTranspose")) return {};
    return quantization::mean_errors(node, weights, rounded, known->second.mean);
  }

  void put_weights(NodeId id, std::size_t axis, const quantization::ByteFactors& rounded) {
    const ValueId weights = graph_.node(id).input(1);
    const std::string name = graph_.value(weights).name;
    const auto channels = static_cast<std::int64_t>(rounded.scales.size());
    const ValueId q = graph_.add_constant(name + "/quantized", rounded.steps);
    const ValueId scale =
        constant(name + "/scale", DType::kFloat32, {channels}, rounded.scales.data());
    std::vector<ValueId> factors{q, scale};
    if (!is_op(graph_.node(id), "Conv")) {
      // ONNX Runtime computes products in integers only if they are given.
      const std::vector<std::int8_t> zeros(rounded.scales.size());
      factors.push_back(constant(name + "/zero_point", DType::kInt8, {channels}, zeros.data()));
    }
    graph_.set_input(
        id, 1,
        graph_.add_op("DequantizeLinear", std::move(factors),
                      {{"axis", static_cast<std::int64_t>(axis)}}, name + "/dequantized"));
    drop_unused(weights);
  }

  // In whole steps of input and weights. Where there is none, one that takes errors off.
  void put_bias(NodeId id, std::vector<double> bias, const std::vector<double>& errors,
                const std::vector<float>& weight_scales, float x_scale) {
    const Node node = graph_.node(id);
    if (!errors.empty() && is_op(node, "MatMul")) return correct_add(node, errors);
    if (bias.empty()) bias.resize(errors.size(), 0);
    if (bias.empty()) return;
    for (std::size_t c = 0; c < errors.size(); ++c) bias[c] -= errors[c];
    if (options_.float_biases) return put_float_bias(id, bias);
    std::vector<float> scales(bias.size());
    std::vector<std::int32_t> whole(bias.size());
    for (std::size_t c = 0; c < bias.size(); ++c) {
      scales[c] = weight_scales[c % weight_scales.size()] * x_scale;
      whole[c] = static_cast<std::int32_t>(std::clamp(
          std::nearbyint(bias[c] / scales[c]), -2.0 * quantization::kLargestBias, kMostBias));
    }
    const ValueId old = node.input(2);
    const std::string name =
        old.valid() ? graph_.value(old).name : graph_.value(node.output(0)).name + "/bias";
    const auto count = static_cast<std::int64_t>(bias.size());
    const ValueId bq = constant(name + "/quantized", DType::kInt32, {count}, whole.data());
    const ValueId bs = constant(name + "/scale", DType::kFloat32, {count}, scales.data());
    graph_.set_input(id, 2,
                     graph_.add_op("DequantizeLinear", {bq, bs}, {{"axis", std::int64_t{0}}},
                                   name + "/dequantized"));
    if (old.valid()) drop_unused(old);
  }

  void put_float_bias(NodeId id, const std::vector<double>& bias) {
    const ValueId old = graph_.node(id).input(2);
    const std::string name =
        old.valid() ? graph_.value(old).name : graph_.value(graph_.node(id).output(0)).name;
    const std::vector<float> numbers(bias.begin(), bias.end());
    graph_.set_input(id, 2,
                     constant(name + (old.valid() ? "/corrected" : "/bias"), DType::kFloat32,
                              {static_cast<std::int64_t>(numbers.size())}, numbers.data()));
    if (old.valid()) drop_unused(old);
  }

  // The bias of a product is the constant of the Add behind it.
  void correct_add(const Node& product, const std::vector<double>& errors) {
    const SumChain chain = chain_behind(graph_, product);
    if (!chain.bias.valid()) return;
    const Tensor& bias = *graph_.constant(chain.bias);
    if (static_cast<std::size_t>(bias.count()) != errors.size()) return;
    Tensor corrected = bias.clone();
    for (std::size_t c = 0; c < errors.size(); ++c) {
      corrected.data<float>()[c] = static_cast<float>(bias.data<float>()[c] - errors[c]);
    }
    const NodeId add = graph_.value(chain.add->output(0)).producer;
    const std::size_t place = chain.add->input(0) == chain.bias ? 0 : 1;
    const ValueId old = chain.bias;
    graph_.set_input(
        add, place,
        graph_.add_constant(graph_.value(old).name + "/corrected", std::move(corrected)));
    drop_unused(old);
  }

  Graph& graph_;
  const quantization::Scheme& scheme_;
  const QuantizeOptions& options_;
  const ChannelRanges& channels_;
  std::map<ValueId, std::size_t> groups_;
  std::vector<Scale> scales_;  // of groups
  std::vector<std::string> zeros_;
};

}  // namespace

std::string too_small_note(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  return names.size() == 1
             ? fmt::format("node {} stays in floating point: its weights are too small for int8",
                           quoted(names))
             : fmt::format("nodes {} stay in floating point: their weights are too small for int8",
                           quoted(names));
}

std::vector<std::string> notes_of(const QuantizeSummary& summary) {
  std::vector<std::string> notes;
  if (!summary.too_small.empty()) notes.push_back(too_small_note(summary.too_small));
  if (!summary.zeros.empty()) {
    notes.push_back(
        fmt::format("the range of {} is below 1e-30 in the samples: all that it holds becomes 0",
                    quoted(summary.zeros)));
  }
  return notes;
}

QuantizeSummary quantize(Graph& graph, const ValueRanges& ranges, const QuantizeOptions& options,
                         const ChannelRanges& channels) {
  const quantization::Scheme scheme = quantization::make_scheme(graph, options);
  std::vector<std::string> zeros = Quantizer(graph, scheme, options, channels).run(ranges);
  return {scheme.nodes.size() - scheme.readers, scheme.kept, scheme.values.size(), scheme.too_small,
          std::move(zeros)};
}

}  // namespace xrt
