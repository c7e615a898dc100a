// SPDX-License-Identifier: Apache-2.0
// MatMulInteger or ConvInteger -> Cast -> Mul by X's scale and that of the weights, where the run
// computes X's scale and zero point (DynamicQuantizeLinear) and the weights are constant: one node
// on bytes (see int8.h), with the bias and the activations that follow.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "engines/native/dnn/fuse/optimize.h"
#include "engines/native/dnn/int8/chain.h"
#include "engines/native/dnn/int8/int8.h"
#include "engines/native/dnn/int8/report.h"
#include "engines/native/dnn/post_ops.h"
#include "ir/attributes.h"
#include "ir/pattern.h"
#include "ops/canonical.h"
#include "ops/quantized.h"

namespace xrt::native::dnn {
namespace {

// float32 holds all whole numbers up to here.
constexpr std::int64_t kExactInFloat = std::int64_t{1} << 24;
constexpr std::size_t kMostParts = 16;
// The largest difference between bytes and their zero point.
constexpr std::int64_t kLargestByte = 255;

// Weights less their zero point, as a sum of int8 numbers: one tensor, or two where a difference
// does not fit into one.
struct SplitWeights {
  Tensor first, second;  // second: empty where the first is all
  std::vector<float> differences;
  std::int32_t zero = 0;  // of `first`
};

// Bytes as int8 with a zero point, one for all; nothing where there are several.
std::optional<SplitWeights> with_zero(const Tensor& w, const Tensor* zero) {
  const bool one = zero == nullptr || (zero->dtype() == DType::kUInt8 && zero->count() == 1);
  if (w.dtype() != DType::kUInt8 || !one) return {};
  const int at = zero == nullptr ? 0 : zero->data<std::uint8_t>()[0];
  SplitWeights result{Tensor::allocate(DType::kInt8, w.dims()), {}, {}, at - 128};
  std::transform(w.data<std::uint8_t>(), w.data<std::uint8_t>() + w.count(),
                 result.first.data<std::int8_t>(),
                 [](std::uint8_t byte) { return static_cast<std::int8_t>(byte - 128); });
  return result;
}

// `axis`: along which zero points vary.
std::optional<SplitWeights> split(const Tensor& w, const Tensor* zero, std::size_t axis) {
  const auto differences = centred(w, zero, axis);
  if (!differences || w.count() == 0) return {};
  SplitWeights result{
      Tensor::allocate(DType::kInt8, w.dims()), Tensor::allocate(DType::kInt8, w.dims()), {}, 0};
  result.differences.assign(differences->begin(), differences->end());
  bool whole = true;
  for (std::size_t i = 0; i < differences->size(); ++i) {
    const std::int32_t difference = (*differences)[i];
    const std::int32_t first = std::clamp(difference, -128, 127);
    result.first.data<std::int8_t>()[i] = static_cast<std::int8_t>(first);
    result.second.data<std::int8_t>()[i] = static_cast<std::int8_t>(difference - first);
    whole = whole && first == difference;
  }
  if (whole) result.second = Tensor();
  return result;
}

// Where parts of the input channels begin, over each of which float32 holds a convolution's sums
// exactly, whatever X is. Nothing where a single channel is too much, there are too many parts, or
// groups and one part is not enough.
std::optional<std::vector<std::int64_t>> exact_parts(const SplitWeights& weights,
                                                     std::int64_t groups) {
  const Dims& dims = weights.first.dims();
  const std::int64_t window = weights.first.count() / (dims[0] * dims[1]);
  const float* difference = weights.differences.data();
  std::vector<std::int64_t> begins{0};
  // Of the part, by output channel.
  std::vector<std::int64_t> sums(static_cast<std::size_t>(dims[0]));
  for (std::int64_t c = 0; c < dims[1]; ++c) {
    std::vector<std::int64_t> more(sums.size());
    for (std::int64_t o = 0; o < dims[0]; ++o) {
      const float* first = difference + (o * dims[1] + c) * window;
      more[static_cast<std::size_t>(o)] = std::accumulate(
          first, first + window, std::int64_t{0}, [](std::int64_t sum, float value) {
            return sum + static_cast<std::int64_t>(std::abs(value)) * kLargestByte;
          });
    }
    if (*std::max_element(more.begin(), more.end()) > kExactInFloat) return std::nullopt;
    std::transform(sums.begin(), sums.end(), more.begin(), sums.begin(), std::plus<>());
    if (*std::max_element(sums.begin(), sums.end()) <= kExactInFloat) continue;
    if (groups != 1 || begins.size() == kMostParts) return std::nullopt;
    begins.push_back(c);
    sums = std::move(more);
  }
  return begins;
}

// What stands behind integer sums: Cast to float32, and Mul by a product of scales.
struct Scaled {
  ValueId cast;    // the sums in float32
  ValueId result;  // what Mul makes
  ValueId x_scale;
  std::vector<float> factors;  // of the weights, one per channel
};

class DynamicFusion {
 public:
  DynamicFusion(Graph& graph, Int8Report& report) : graph_(graph), report_(report) {}

  void run() {
    for (const NodeId id : graph_.topological_order()) {
      if (!graph_.alive(id)) continue;
      const Node& node = graph_.node(id);
      if (!node.domain.empty()) continue;
      // What they add to the graph moves its nodes.
      if (node.op == "MatMulInteger") {
        fuse_product(id);
      } else if (node.op == "ConvInteger") {
        fuse_convolution(id);
      }
    }
  }

 private:
  ValueId make(std::string_view domain, std::string_view op, std::vector<ValueId> inputs,
               Attributes attributes, const Type& like, DType dtype) {
    Type type = like;
    type.dtype = dtype;
    const NodeId made = graph_.add_node(domain, op, std::move(inputs), {""}, std::move(attributes));
    const ValueId out = graph_.node(made).outputs[0];
    graph_.set_type(out, std::move(type));
    canonicalize_node(graph_, made);
    return out;
  }

  // `rank` as in follow().
  std::optional<Scaled> scaled(const Node& node, std::int64_t channels,
                               std::size_t channel_rank) const {
    const auto cast_use = sole_use(graph_, node.outputs[0]);
    if (!cast_use) return std::nullopt;
    const Node& cast = graph_.node(cast_use->node);
    if (!cast.domain.empty() || cast.op != "Cast" ||
        graph_.type(cast.outputs[0]).dtype != DType::kFloat32) {
      return std::nullopt;
    }
    const auto mul_use = sole_use(graph_, cast.outputs[0]);
    if (!mul_use) return std::nullopt;
    const Node& mul = graph_.node(mul_use->node);
    if (!mul.domain.empty() || mul.op != "Mul" ||
        !same_shape(graph_.type(mul.outputs[0]), graph_.type(node.outputs[0]))) {
      return std::nullopt;
    }
    const Node* scales = producer(graph_, other_input(mul, cast.outputs[0]), "Mul");
    if (scales == nullptr) return std::nullopt;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const Tensor* w = graph_.constant(scales->inputs[1 - i]);
      const Type& x = graph_.type(scales->inputs[i]);
      if (w == nullptr || w->dtype() != DType::kFloat32 || !x.has_rank() || x.rank() != 0) continue;
      auto factors = factors_of(*w, channels, channel_rank);
      if (!factors) continue;
      return Scaled{cast.outputs[0], mul.outputs[0], scales->inputs[i], std::move(*factors)};
    }
    return std::nullopt;
  }

  static std::optional<std::vector<float>> factors_of(const Tensor& w, std::int64_t channels,
                                                      std::size_t channel_rank) {
    const float* data = w.data<float>();
    if (w.count() == 1) return std::vector<float>(static_cast<std::size_t>(channels), data[0]);
    const std::size_t axis = channel_rank == 0 ? w.rank() - 1 : 1;
    const Dims dims = padded_dims(w.dims(), channel_rank);
    if (w.count() != channels || dims.size() <= axis || dims[axis] != channels) return std::nullopt;
    return std::vector<float>(data, data + channels);
  }

  // X of uint8 with one zero point.
  bool takes(const Node& node) const {
    const Type& x = graph_.type(node.input(0));
    const auto zero = node.input(2).valid() ? graph_.type(node.input(2)).static_dims() : Dims{};
    return x.dtype == DType::kUInt8 && x.has_rank() && zero && zero->empty() &&
           graph_.type(node.outputs[0]).has_rank();
  }

  const Tensor* zero_of(const Node& node) const {
    return node.input(3).valid() ? graph_.constant(node.input(3)) : nullptr;
  }

  // The fused nodes; false where a convolution on bytes would be slow.
  bool fuse(const Node& node, std::string_view op, const SplitWeights& weights,
            const Scaled& scaled, std::size_t channel_rank) {
    const Chain chain =
        follow(graph_, {scaled.result, std::vector<double>(scaled.factors.size()), {}, {}, {}},
               channel_rank, /*bytes=*/false);
    Int8Terms terms;
    terms.factors = scaled.factors;
    terms.w_zero = weights.zero;
    terms.to = DType::kFloat32;
    const bool two = weights.second.defined();
    const auto described = [&](bool last) {
      Attributes attributes = node.attributes;
      std::vector<PostOp> ops;
      if (two && last) ops.push_back({"Add", 0, 0, 3});
      if (last) ops.insert(ops.end(), chain.ops.begin(), chain.ops.end());
      write_post_ops(attributes, ops);
      const std::int64_t next = two && last ? 4 : 3;
      terms.scale_input = next;
      terms.zero_input = node.input(2).valid() ? next + 1 : -1;
      terms.write(attributes);
      return attributes;
    };
    if (op == "Conv") {
      const auto dims = graph_.type(node.input(0)).static_dims();
      Node probe;
      probe.attributes = described(/*last=*/true);
      if (!int8_convolution_is_fast(probe, DType::kUInt8, dims ? &*dims : nullptr, weights.first,
                                    Instead::kReference)) {
        return false;
      }
    }
    const auto add = [&](const Tensor& w, const std::vector<double>& bias, ValueId addend) {
      std::vector<float> numbers(bias.begin(), bias.end());
      std::vector<ValueId> inputs{
          node.input(0), graph_.add_constant("", w),
          graph_.add_constant(
              "", Tensor::from<float>(DType::kFloat32, {static_cast<std::int64_t>(numbers.size())},
                                      std::span<const float>(numbers)))};
      if (addend.valid()) inputs.push_back(addend);
      inputs.push_back(scaled.x_scale);
      if (node.input(2).valid()) inputs.push_back(node.input(2));
      const bool last = addend.valid() || !two;
      return make(kDomain, op, std::move(inputs), described(last), graph_.type(chain.result),
                  DType::kFloat32);
    };
    ValueId result;
    if (two) result = add(weights.second, std::vector<double>(chain.bias.size()), {});
    result = add(weights.first, chain.bias, result);
    substitute(graph_, chain.result, result);
    return true;
  }

  void fuse_product(NodeId id) {
    const Node node = graph_.node(id);
    const Tensor* w = graph_.constant(node.input(1));
    if (w == nullptr || w->rank() != 2 || !takes(node) ||
        (node.input(3).valid() && zero_of(node) == nullptr) ||
        graph_.type(node.input(0)).rank() < 2) {
      return;
    }
    const auto found = scaled(node, w->dims()[1], 0);
    auto weights = found ? split(*w, zero_of(node), 1) : std::nullopt;
    if (weights && weights->second.defined()) {
      if (auto one = with_zero(*w, zero_of(node))) weights = std::move(one);
    }
    if (weights) fuse(node, "Int8MatMul", *weights, *found, 0);
  }

  void fuse_convolution(NodeId id) {
    const Node node = graph_.node(id);
    const Tensor* w = graph_.constant(node.input(1));
    if (w == nullptr || w->rank() < 3 || w->rank() > 5 || !takes(node) ||
        graph_.type(node.input(0)).rank() != w->rank() ||
        (node.input(3).valid() && zero_of(node) == nullptr)) {
      return;
    }
    const auto weights = split(*w, zero_of(node), 0);
    if (!weights) return;
    const auto found = scaled(node, w->dims()[0], w->rank());
    if (found && fuse(node, "Conv", *weights, *found, w->rank())) return;
    const auto parts = exact_parts(*weights, need_int(node, "group"));
    if (!parts) return;
    report_.stays_float(id, "float32 holds its sums exactly, and is faster here");
    convolve_floats(node, *weights, *parts, found);
  }

  // The sums in float32, which holds those of each part exactly; the parts add up as int32.
  void convolve_floats(const Node& node, const SplitWeights& weights,
                       const std::vector<std::int64_t>& begins,
                       const std::optional<Scaled>& scaled) {
    const ValueId one = graph_.add_constant("", Tensor::scalar(1.0F));
    const Type x_type = graph_.type(node.input(0));
    const Type type = graph_.type(node.outputs[0]);
    const ValueId x = make("", "DequantizeLinear", {node.input(0), one, node.input(2)}, {}, x_type,
                           DType::kFloat32);
    ValueId whole;
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const std::int64_t begin = begins[i];
      const std::int64_t end = i + 1 < begins.size() ? begins[i + 1] : weights.first.dims()[1];
      const bool all = begins.size() == 1;
      const ValueId part = all ? x : channels(x, x_type, begin, end);
      const ValueId sums = make("", "Conv", {part, constant_part(weights, begin, end)},
                                node.attributes, type, DType::kFloat32);
      if (all && scaled) return substitute(graph_, scaled->cast, sums);
      const ValueId integers =
          make("", "Cast", {sums}, {{"to", static_cast<std::int64_t>(DType::kInt32)}}, type,
               DType::kInt32);
      whole =
          whole.valid() ? make("", "Add", {whole, integers}, {}, type, DType::kInt32) : integers;
    }
    substitute(graph_, node.outputs[0], whole);
  }

  ValueId channels(ValueId x, Type type, std::int64_t begin, std::int64_t end) {
    (*type.shape)[1] = Dim(end - begin);
    const auto list = [&](std::int64_t number) {
      return graph_.add_constant("", Tensor::from_int64({{number}}));
    };
    return make("", "Slice", {x, list(begin), list(end), list(1)}, {}, type, DType::kFloat32);
  }

  ValueId constant_part(const SplitWeights& weights, std::int64_t begin, std::int64_t end) {
    Dims dims = weights.first.dims();
    const std::int64_t window = weights.first.count() / (dims[0] * dims[1]);
    const std::int64_t row = dims[1] * window;
    std::vector<float> numbers;
    for (std::int64_t o = 0; o < dims[0]; ++o) {
      const float* of_channel = weights.differences.data() + o * row;
      numbers.insert(numbers.end(), of_channel + begin * window, of_channel + end * window);
    }
    dims[1] = end - begin;
    return graph_.add_constant(
        "", Tensor::from<float>(DType::kFloat32, dims, std::span<const float>(numbers)));
  }

  Graph& graph_;
  Int8Report& report_;
};

}  // namespace

void fuse_dynamic_int8(Graph& graph, Int8Report& report) { DynamicFusion(graph, report).run(); }

}  // namespace xrt::native::dnn
