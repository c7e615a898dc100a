// SPDX-License-Identifier: Apache-2.0
// Rule: y = W x = (W s) (x / s) for a factor s per channel. A tensor has one scale, so that
// channels of small numbers get few of its steps: dividing the large ones gives all of them steps,
// and the weights, which have a scale per output channel, take the factors in. Who makes x divides:
// factors go through ops with f(x / s) = f(x) / s into weights, norms and constants. Where others
// read x, or its maker cannot divide, a Mul is put in before the sums.
//
// The case that the rule prevents from getting worse: weights whose input channels differ much
// would lose more than the activations gain. So both noises are estimated for the whole value, and
// it is left alone where their sum does not get clearly less.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "ir/pattern.h"
#include "ops/shape_inference.h"
#include "quantize/scheme.h"
#include "quantize/weights.h"
#include "xrt/error.h"
#include "xrt/quantize.h"

namespace xrt {
namespace {

using Factors = std::vector<double>;

constexpr double kWorthIt = 0.9;        // of the noise: where dividing costs nothing at run time
constexpr double kWorthAMul = 0.5;      // where it costs a Mul
constexpr double kLargestFactor = 1e4;  // and 1 over it
// Of a channel. The extremes of a few elements say little about those of the next: a factor made of
// them cuts off what the scale of the whole value would have held.
constexpr std::int64_t kFewestElements = 100;

bool is_spatial(const Node& node) { return is_op(node, "Conv") || is_op(node, "ConvTranspose"); }

std::int64_t groups_of(const Node& node) {
  return is_spatial(node) ? node.attr_int("group", 1) : 1;
}

// Which channel of what it reads an element of a sum's weights meets, and which output channel its
// product is added to.
class WeightPlaces {
 public:
  WeightPlaces(const Node& node, const Dims& dims)
      : transposed_(is_op(node, "ConvTranspose")),
        groups_(static_cast<std::size_t>(groups_of(node))),
        to_(dims, quantization::output_axis(node)),
        from_(dims, 1 - quantization::output_axis(node)) {}

  std::size_t from(std::int64_t i) const {
    if (groups_ == 1 || transposed_) return from_(i);
    return to_(i) / (to_.size() / groups_) * from_.size() + from_(i);
  }
  // The index of its scale.
  std::size_t to(std::int64_t i) const { return to_(i); }
  std::size_t channels() const { return transposed_ ? from_.size() : from_.size() * groups_; }
  std::size_t outputs() const { return to_.size(); }

 private:
  bool transposed_;
  std::size_t groups_;
  quantization::AxisIndex to_, from_;
};

// Noise of one sum's outputs. What rounding does to the weights is known; errors of activations are
// uniform within a step, or what there is where all of a channel is less than that. Means do not
// count: biases are corrected by them.
double noise_of(const Graph& graph, const Node& sum, const ChannelRange& x, const Factors& s,
                double step) {
  const Tensor& weights = *graph.constant(sum.input(1));
  const WeightPlaces places(sum, weights.dims());
  std::vector<double> largest(places.outputs(), 0);
  for (std::int64_t i = 0; i < weights.count(); ++i) {
    double& most = largest[places.to(i)];
    most = std::max(most, std::abs(weights.data<float>()[i] * s[places.from(i)]));
  }
  double noise = 0;
  for (std::int64_t i = 0; i < weights.count(); ++i) {
    const std::size_t c = places.from(i);
    const double w = weights.data<float>()[i] * s[c];
    const double weight_step = largest[places.to(i)] / 127;
    const double error = weight_step > 0 ? std::nearbyint(w / weight_step) * weight_step - w : 0;
    const double square = x.square[c] / (s[c] * s[c]);
    const double mean = x.mean[c] / s[c];
    noise += error * error * std::max(0.0, square - mean * mean);
    noise += w * w * std::min(step * step / 12, square);
  }
  return noise;
}

// Of the scale that what `x` holds gets when it is divided by `s`.
double step_of(const ChannelRange& x, const Factors& s, Activations form) {
  double low = 0, high = 0;
  for (std::size_t c = 0; c < s.size(); ++c) {
    low = std::min(low, x.low[c] / s[c]);
    high = std::max(high, x.high[c] / s[c]);
  }
  return form == Activations::kSymmetric ? std::max(-low, high) / 127 : (high - low) / 255;
}

class Smoother {
 public:
  Smoother(Graph& graph, ChannelRanges& channels, const QuantizeOptions& options,
           const SmoothOptions& how)
      : graph_(graph), channels_(channels), options_(options), how_(how) {}

  SmoothSummary run() {
    SmoothSummary done;
    const quantization::Scheme scheme = quantization::make_scheme(graph_, options_);
    std::vector<ValueId> values;
    std::map<ValueId, Activations> forms;
    for (std::size_t i = 0; i < scheme.values.size(); ++i) {
      forms[scheme.values[i]] = scheme.forms[i];
    }
    for (const NodeId id : scheme.sums) {
      const ValueId x = graph_.node(id).input(0);
      std::vector<NodeId>& readers = readers_[x];
      if (readers.empty()) values.push_back(x);
      readers.push_back(id);
    }
    for (const ValueId x : values) {
      const bool spatial = is_spatial(graph_.node(readers_[x].front()));
      if ((spatial ? how_.layers : how_.products) && smooth_value(x, forms.at(x))) {
        ++(spatial ? done.layers : done.products);
      }
    }
    infer_shapes(graph_);
    return done;
  }

 private:
  bool smooth_value(ValueId x, Activations form) {
    const auto known = channels_.find(graph_.value(x).name);
    if (known == channels_.end() || known->second.count < kFewestElements) return false;
    const std::vector<NodeId>& readers = readers_.at(x);
    const Type type = graph_.type(x);
    const std::size_t axis = quantization::channel_axis(graph_.node(readers.front()), type.rank());
    const std::optional<Factors> s = factors_of(known->second, readers, axis, type.rank());
    if (!s) return false;
    const Factors ones(s->size(), 1);
    const double gain =
        noise(known->second, readers, *s, form) / noise(known->second, readers, ones, form);
    if (!(gain < kWorthIt)) return false;
    const bool is_alone = graph_.uses(x).size() == readers.size() && !graph_.is_output(x);
    if (is_alone && divide(x, *s, axis, false)) {
      divide(x, *s, axis, true);
      multiply_weights(readers, *s);
      scale_ranges(known->second, *s);
      return true;
    }
    if (is_spatial(graph_.node(readers.front())) || !(gain < kWorthAMul)) return false;
    ChannelRange range = known->second;
    scale_ranges(range, *s);
    multiply_weights(readers, *s);
    Dims dims(type.rank() - axis, 1);
    dims[0] = static_cast<std::int64_t>(s->size());
    const std::string name = graph_.value(x).name;
    const ValueId factors = graph_.add_constant(name + "/smoothing", inverse(*s, dims));
    const ValueId smoothed = graph_.add_op("Mul", {x, factors}, {}, name + "/smoothed");
    for (const NodeId id : readers) graph_.set_input(id, 0, smoothed);
    channels_[graph_.value(smoothed).name] = std::move(range);
    return true;
  }

  // Nothing where the readers do not agree on what the channels are, or nothing is to be gained.
  std::optional<Factors> factors_of(const ChannelRange& x, const std::vector<NodeId>& readers,
                                    std::size_t axis, std::size_t rank) const {
    std::vector<double> weights(x.low.size(), 0);
    for (const NodeId id : readers) {
      const Node& node = graph_.node(id);
      const Tensor& w = *graph_.constant(node.input(1));
      const WeightPlaces places(node, w.dims());
      if (quantization::channel_axis(node, rank) != axis || places.channels() != weights.size()) {
        return std::nullopt;
      }
      for (std::int64_t i = 0; i < w.count(); ++i) {
        double& most = weights[places.from(i)];
        most = std::max(most, double{std::abs(w.data<float>()[i])});
      }
    }
    Factors s(weights.size(), 1);
    double logs = 0, count = 0;
    for (std::size_t c = 0; c < s.size(); ++c) {
      const double most = std::max(-x.low[c], x.high[c]);
      if (!(most > 0) || !(weights[c] > 0) || !std::isfinite(weights[c])) continue;
      s[c] = std::pow(most, how_.strength) / std::pow(weights[c], 1 - how_.strength);
      logs += std::log(s[c]);
      ++count;
    }
    if (count == 0) return std::nullopt;
    const double middle = std::exp(logs / count);
    for (std::size_t c = 0; c < s.size(); ++c) {
      const double most = std::max(-x.low[c], x.high[c]);
      if (!(most > 0) || !(weights[c] > 0)) continue;  // a dead channel
      s[c] = std::clamp(s[c] / middle, 1 / kLargestFactor, kLargestFactor);
    }
    return s;
  }

  double noise(const ChannelRange& x, const std::vector<NodeId>& readers, const Factors& s,
               Activations form) const {
    const double step = step_of(x, s, form);
    double sum = 0;
    for (const NodeId id : readers) sum += noise_of(graph_, graph_.node(id), x, s, step);
    return sum;
  }

  static Tensor inverse(const Factors& s, const Dims& dims) {
    Tensor t = Tensor::allocate(DType::kFloat32, dims);
    for (std::size_t c = 0; c < s.size(); ++c) t.data<float>()[c] = static_cast<float>(1 / s[c]);
    return t;
  }

  static void scale_ranges(ChannelRange& x, const Factors& s) {
    for (std::size_t c = 0; c < s.size(); ++c) {
      x.low[c] = static_cast<float>(x.low[c] / s[c]);
      x.high[c] = static_cast<float>(x.high[c] / s[c]);
      x.mean[c] /= s[c];
      x.square[c] /= s[c] * s[c];
    }
  }

  // A copy of the constant that a node reads, element by element changed, for that node alone.
  template <typename Factor>
  void rescale(NodeId id, std::size_t input, Factor factor) {
    const ValueId old = graph_.node(id).input(input);
    Tensor t = graph_.constant(old)->clone();
    for (std::int64_t i = 0; i < t.count(); ++i) {
      t.data<float>()[i] = static_cast<float>(t.data<float>()[i] * factor(i));
    }
    graph_.set_input(id, input, graph_.add_constant(graph_.value(old).name, std::move(t)));
    if (graph_.uses(old).empty() && !graph_.is_output(old)) graph_.remove_value(old);
  }

  void multiply_weights(const std::vector<NodeId>& readers, const Factors& s) {
    for (const NodeId id : readers) {
      const WeightPlaces places(graph_.node(id), graph_.constant(graph_.node(id).input(1))->dims());
      rescale(id, 1, [&](std::int64_t i) { return s[places.from(i)]; });
    }
  }

  bool is_numbers(ValueId id) const {
    const Tensor* t = id.valid() ? graph_.constant(id) : nullptr;
    return t != nullptr && t->dtype() == DType::kFloat32;
  }

  // A constant with one number per index of `axis` of a value of that rank, and 1 elsewhere.
  bool is_per_channel(ValueId id, std::size_t axis, std::size_t rank, std::size_t count) const {
    if (!is_numbers(id)) return false;
    const Dims& dims = graph_.constant(id)->dims();
    if (dims.size() > rank || static_cast<std::size_t>(graph_.constant(id)->count()) != count) {
      return false;
    }
    const std::size_t missing = rank - dims.size();
    return axis >= missing && static_cast<std::size_t>(dims[axis - missing]) == count;
  }

  // Makes `x` be divided by `s` where it is made. Without `apply` nothing changes; false where that
  // cannot be.
  bool divide(ValueId x, const Factors& s, std::size_t axis, bool apply) {
    const NodeId id = producer_id(graph_, x);
    if (!id.valid()) return false;
    const Node node = graph_.node(id);
    if (!node.domain.empty() || node.outputs.front() != x) return false;
    const auto by_channel = [&](std::int64_t i) { return 1 / s[static_cast<std::size_t>(i)]; };
    if (is_homogeneous(node, axis)) {
      return is_read_by_it_alone(node.input(0)) && divide(node.input(0), s, axis, apply);
    }
    const std::size_t rank = graph_.type(x).has_rank() ? graph_.type(x).rank() : 0;
    if (node.op == "Add" || node.op == "Mul") {
      const std::size_t place = is_numbers(node.input(0)) ? 0 : 1;
      const ValueId other = node.input(1 - place);
      if (!is_per_channel(node.input(place), axis, rank, s.size()) ||
          !same_shape(graph_.type(other), graph_.type(x))) {
        return false;
      }
      if (node.op == "Add" && !(is_read_by_it_alone(other) && divide(other, s, axis, apply))) {
        return false;
      }
      if (apply) rescale(id, place, by_channel);
      return true;
    }
    if (const auto operands = operands_of_norm(node, axis, rank)) {
      for (const std::size_t i : *operands) {
        if (!node.input(i).valid()) continue;
        if (!is_per_channel(node.input(i), 0, 1, s.size())) return false;
      }
      for (const std::size_t i : *operands) {
        if (apply && node.input(i).valid()) rescale(id, i, by_channel);
      }
      return true;
    }
    return divide_sum(id, s, axis, rank, apply);
  }

  bool divide_sum(NodeId id, const Factors& s, std::size_t axis, std::size_t rank, bool apply) {
    const Node node = graph_.node(id);
    const bool conv = is_op(node, "Conv");
    if (!conv && node.op != "Gemm" && node.op != "MatMul") return false;
    if (axis != (conv ? 1 : rank - 1) || !is_numbers(node.input(1))) return false;
    const Dims& dims = graph_.constant(node.input(1))->dims();
    if (!conv && dims.size() != 2) return false;
    const quantization::AxisIndex to(dims, quantization::output_axis(node));
    if (to.size() != s.size()) return false;
    if (node.input(2).valid() && !is_per_channel(node.input(2), 0, 1, s.size())) return false;
    if (!apply) return true;
    rescale(id, 1, [&](std::int64_t i) { return 1 / s[to(i)]; });
    if (node.input(2).valid()) {
      rescale(id, 2, [&](std::int64_t i) { return 1 / s[static_cast<std::size_t>(i)]; });
    }
    return true;
  }

  bool is_read_by_it_alone(ValueId x) const { return sole_use(graph_, x).has_value(); }

  // f(x / s) = f(x) / s for each channel and s above 0.
  static bool is_homogeneous(const Node& node, std::size_t axis) {
    if (node.op == "Relu" || node.op == "LeakyRelu") return true;
    const bool pools = node.op == "AveragePool" || node.op == "GlobalAveragePool" ||
                       node.op == "GlobalMaxPool" ||
                       (node.op == "MaxPool" && !node.output(1).valid());
    return pools && axis == 1;
  }

  // Which operands of a norm its result is proportional to.
  static std::optional<std::vector<std::size_t>> operands_of_norm(const Node& node,
                                                                  std::size_t axis,
                                                                  std::size_t rank) {
    const bool last = node.op == "LayerNormalization" || node.op == "RMSNormalization";
    if (last) {
      const std::int64_t from = node.attr_int("axis", -1);
      const auto size = static_cast<std::int64_t>(rank);
      if (axis + 1 != rank || (from < 0 ? from + size : from) + 1 != size) return std::nullopt;
      return std::vector<std::size_t>{1, 2};
    }
    const bool channels = node.op == "BatchNormalization" || node.op == "InstanceNormalization" ||
                          node.op == "GroupNormalization";
    if (channels && axis == 1 && node.attr_int("training_mode", 0) == 0) {
      return std::vector<std::size_t>{1, 2};
    }
    return std::nullopt;
  }

  Graph& graph_;
  ChannelRanges& channels_;
  const QuantizeOptions& options_;
  const SmoothOptions& how_;
  std::map<ValueId, std::vector<NodeId>> readers_;  // the sums that read a value
};

}  // namespace

SmoothSummary smooth(Graph& graph, ChannelRanges& channels, const QuantizeOptions& options,
                     const SmoothOptions& how) {
  if (!(how.strength >= 0 && how.strength <= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a strength of {}: it must be from 0 to 1", how.strength));
  }
  if (how.strength == 0) return {};
  return Smoother(graph, channels, options, how).run();
}

}  // namespace xrt
