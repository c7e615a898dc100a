// SPDX-License-Identifier: Apache-2.0
// DequantizeLinear -> Conv, Gemm or MatMul -> … -> QuantizeLinear becomes one node on bytes (see
// int8.h). What follows the sum and is taken in: a bias, the residual of an Add, activations.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
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
#include "ops/sizes/wide_window.h"

namespace xrt::native::dnn {
namespace {

// Every output of the QuantizeLinear nodes that read `value` becomes `bytes`.
void replace_quantised(Graph& graph, ValueId value, ValueId bytes) {
  while (!graph.uses(value).empty()) {
    const NodeId reader = graph.uses(value).front().node;
    graph.replace_uses(graph.node(reader).outputs[0], bytes);
    graph.remove_node(reader);
  }
  remove_unused(graph, value);
}

// Whether a convolution pads, or may: auto_pad stays where only the run tells the sizes.
bool has_padding(const Node& node) {
  const std::vector<std::int64_t> pads = node.attr_ints("pads");
  return node.has("auto_pad") ||
         std::any_of(pads.begin(), pads.end(), [](std::int64_t p) { return p != 0; });
}

constexpr double kMostAveraged = 8e6;  // as many bytes add up within 32 bits

class Int8Fusion {
 public:
  explicit Int8Fusion(Graph& graph) : graph_(graph) {}

  void run() {
    dequantise_scalars();
    for (const NodeId id : graph_.topological_order()) {
      if (!graph_.alive(id)) continue;
      const Node& node = graph_.node(id);
      if (!node.domain.empty()) continue;
      if (node.op == "Conv") {
        fuse_convolution(id);
      } else if (node.op == "Gemm" || node.op == "MatMul") {
        fuse_product(id);
      } else if (node.op == "QLinearConv" || node.op == "QLinearMatMul") {
        fuse_qlinear(id);
      } else if (node.op == "MatMulInteger") {
        fuse_sums(id);
      } else if (node.op == "Add" || node.op == "Sub" || node.op == "Mul") {
        fuse_binary(id);
      } else if (node.op == "AveragePool" || node.op == "GlobalAveragePool") {
        fuse_average(id);
      } else if (node.op == "Concat") {
        sink_concat(id);
      } else if (node.op == "Split") {
        sink_split(id);
      } else if (node.op == "Pad" && need_string(node, "mode") == "constant") {
        sink_pad(id);
      } else if (moves_bytes(node)) {
        sink(id);
      } else {
        fuse_table(id);
      }
    }
  }

 private:
  // op(DQ(x)) = DQ(op(x)) for a Split.
  void sink_split(NodeId id) {
    const Node node = graph_.node(id);
    const auto from = dequantised_from(graph_, node.input(0));
    if (!from) return;
    for (const ValueId old : node.outputs) {
      if (!old.valid() || graph_.is_output(old)) return;
    }
    const Node source = *producer(graph_, node.input(0));
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = from->q;
    const NodeId made = graph_.add_node(
        "", node.op, inputs, std::vector<std::string>(node.outputs.size()), node.attributes);
    const std::vector<ValueId> parts = graph_.node(made).outputs;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Type type = graph_.type(node.outputs[i]);
      type.dtype = from->dtype;
      graph_.set_type(parts[i], std::move(type));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!graph_.alive(node.outputs[i])) continue;
      const auto to = quantised_to(graph_, node.outputs[i]);
      if (to && to->same_steps(*from)) {
        replace_quantised(graph_, node.outputs[i], parts[i]);
      } else {
        dequantise_instead(node.outputs[i], parts[i], source);
      }
    }
  }

  // A Pad with a constant: as bytes, that of zero is the zero point.
  void sink_pad(NodeId id) {
    const Node node = graph_.node(id);
    const auto from = dequantised_from(graph_, node.input(0));
    const ValueId given = node.input(2);
    if (!from || (given.valid() && scalar_constant(graph_, given) != 0.0F)) return;
    Tensor byte = Tensor::allocate(from->dtype, {});
    *byte.data<char>() = static_cast<char>(from->zero);
    sink(id, graph_.add_constant("", std::move(byte)));
  }

  // Numbers that are read as one for all are easier to recognise as such.
  void dequantise_scalars() {
    for (const NodeId id : graph_.topological_order()) {
      const Node node = graph_.node(id);
      if (!is_op(node, "DequantizeLinear")) continue;
      const Tensor* bytes = graph_.constant(node.input(0));
      if (bytes == nullptr || bytes->count() != 1) continue;
      const Tensor value = dequantized(graph_, node);
      if (!value.defined()) continue;
      const std::vector<Use> uses = graph_.uses(node.outputs[0]);
      const ValueId constant = graph_.add_constant("", value);
      for (const Use& use : uses) {
        if (use.index < 0) continue;
        const Node& reader = graph_.node(use.node);
        static constexpr std::string_view kOps[] = {"Add", "Sub", "Mul",  "Div",
                                                    "Pow", "Max", "Clip", "Min"};
        if (!reader.domain.empty() ||
            std::find(std::begin(kOps), std::end(kOps), reader.op) == std::end(kOps)) {
          continue;
        }
        graph_.set_input(use.node, static_cast<std::size_t>(use.index), constant);
      }
      remove_unused(graph_, node.outputs[0]);
      if (graph_.uses(constant).empty()) remove_unused(graph_, constant);
    }
  }

  // op(DQ(x)) = DQ(op(x)) where op moves or selects elements.
  void sink(NodeId id, ValueId constant_value = {}) {
    const Node node = graph_.node(id);
    const auto from = dequantised_from(graph_, node.input(0));
    const ValueId old = node.outputs[0];
    if (!from || graph_.is_output(old)) return;
    const Node source = *producer(graph_, node.input(0));
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = from->q;
    if (constant_value.valid()) {
      inputs.resize(std::max<std::size_t>(inputs.size(), 3));
      inputs[2] = constant_value;
    }
    const NodeId made = graph_.add_node("", node.op, inputs, {""}, node.attributes);
    const ValueId bytes = graph_.node(made).outputs[0];
    Type type = graph_.type(old);
    type.dtype = from->dtype;
    graph_.set_type(bytes, type);
    if (const auto to = quantised_to(graph_, old); to && to->same_steps(*from)) {
      replace_quantised(graph_, old, bytes);
      return;
    }
    dequantise_instead(old, bytes, source);
  }

  // Who reads `old` reads the numbers that `bytes` stand for, as those of the node `like`.
  void dequantise_instead(ValueId old, ValueId bytes, const Node& like) {
    std::vector<ValueId> inputs = like.inputs;
    inputs[0] = bytes;
    const ValueId again = graph_.add_op("DequantizeLinear", inputs, like.attributes);
    graph_.set_type(again, Type(graph_.type(old)));
    substitute(graph_, old, again);
  }

  ValueId add(std::string_view domain, std::string_view op, std::vector<ValueId> inputs,
              Attributes attributes, const Type& like, DType dtype) {
    Type type = like;
    type.dtype = dtype;
    const NodeId made = graph_.add_node(domain, op, std::move(inputs), {""}, std::move(attributes));
    graph_.set_type(graph_.node(made).outputs[0], std::move(type));
    canonicalize_node(graph_, made);
    return graph_.node(made).outputs[0];
  }

  // Bytes of one grid as those of another.
  ValueId on_grid(const Grid& from, const Grid& to, const std::vector<PostOp>& ops) {
    if (ops.empty() && from.same_steps(to)) return from.q;
    std::vector<std::int64_t> table;
    for (int byte = 0; byte < 256; ++byte) {
      const int q = from.dtype == DType::kInt8 && byte > 127 ? byte - 256 : byte;
      double value = (q - from.zero) * double{from.scale};
      for (const PostOp& op : ops) value = *applied(op, value);
      const double step = std::nearbyint(value / to.scale) + to.zero;
      table.push_back(
          static_cast<std::int64_t>(std::clamp(step, double{to.low()}, double{to.high()})));
    }
    Attributes attributes{{"table", std::move(table)}, {"to", static_cast<std::int64_t>(to.dtype)}};
    return add(kDomain, "Int8Table", {from.q}, std::move(attributes), graph_.type(from.q),
               to.dtype);
  }

  // A function of one element, or several in a row, between two grids.
  void fuse_table(NodeId id) {
    const Node node = graph_.node(id);
    if (node.inputs.empty() || node.outputs.size() != 1) return;
    std::size_t operand = 0;
    const bool again = node.op == "QuantizeLinear";
    std::optional<PostOp> first = again ? std::nullopt : unary_post_op(graph_, node, &operand);
    if (!again && !first && node.inputs.size() == 1 && node.attributes.empty()) {
      first = PostOp{node.op};
    }
    if (!again && (!first || !applied(*first, 0))) return;
    const auto from = dequantised_from(graph_, node.inputs[operand]);
    if (!from) return;
    if (again) {
      const auto to = quantised_to(graph_, node.inputs[0]);
      if (to) replace_quantised(graph_, node.inputs[0], on_grid(*from, *to, {}));
      return;
    }
    if (!same_shape(graph_.type(node.inputs[operand]), graph_.type(node.outputs[0]))) return;
    const Chain chain = follow(graph_, {node.outputs[0], {}, {*first}, {}, {}}, 0);
    if (!chain.to || !std::all_of(chain.ops.begin(), chain.ops.end(),
                                  [](const PostOp& op) { return applied(op, 0).has_value(); })) {
      return;
    }
    replace_quantised(graph_, chain.result, on_grid(*from, *chain.to, chain.ops));
  }

  // A post-op of a number; nothing for one that is not known here.
  static std::optional<double> applied(const PostOp& op, double x) {
    if (op.op == "Relu") return std::max(x, 0.0);
    if (op.op == "Clip") return std::clamp(x, double{op.alpha}, double{op.beta});
    if (op.op == "Linear") return op.alpha * x + op.beta;
    if (op.op == "LeakyRelu") return x < 0 ? op.alpha * x : x;
    if (op.op == "Sigmoid") return 1 / (1 + std::exp(-x));
    if (op.op == "Tanh") return std::tanh(x);
    if (op.op == "Elu") return x < 0 ? op.alpha * std::expm1(x) : x;
    if (op.op == "Exp") return std::exp(x);
    if (op.op == "Abs") return std::fabs(x);
    if (op.op == "GeluErf") return x * (1 + std::erf(x / std::numbers::sqrt2)) / 2;
    if (op.op == "GeluTanh") {
      const double root = std::sqrt(2 / std::numbers::pi);
      return x * (1 + std::tanh(root * (x + 0.044715 * x * x * x))) / 2;
    }
    if (op.op == "Erf") return std::erf(x);
    if (op.op == "Reciprocal") return 1 / x;
    if (op.op == "Neg") return -x;
    if (op.op == "Softplus") return std::log1p(std::exp(-std::fabs(x))) + std::max(x, 0.0);
    if (op.op == "Softsign") return x / (1 + std::fabs(x));
    if (op.op == "Mish") return x * std::tanh(std::log1p(std::exp(x)));
    if (op.op == "Floor") return std::floor(x);
    if (op.op == "Ceil") return std::ceil(x);
    if (op.op == "Round") return std::nearbyint(x);
    if (op.op == "Sin") return std::sin(x);
    if (op.op == "Cos") return std::cos(x);
    const double slope = std::clamp(op.alpha * x + op.beta, 0.0, 1.0);
    if (op.op == "HardSigmoid") return slope;
    if (op.op == "HardSwish") return x * slope;
    if (op.op == "Swish") return x / (1 + std::exp(-op.alpha * x));
    return std::nullopt;
  }

  void sink_concat(NodeId id) {
    const Node node = graph_.node(id);
    const ValueId old = node.outputs[0];
    std::vector<Grid> grids;
    for (const ValueId input : node.inputs) {
      const auto from = dequantised_from(graph_, input);
      if (!from) return;
      grids.push_back(*from);
    }
    if (graph_.is_output(old)) return;
    const auto to = quantised_to(graph_, old);
    const bool alike = std::all_of(grids.begin(), grids.end(),
                                   [&](const Grid& grid) { return grid.same_steps(grids[0]); });
    if (!to && !alike) return;
    std::vector<ValueId> inputs;
    inputs.reserve(grids.size());
    for (const Grid& grid : grids) inputs.push_back(to ? on_grid(grid, *to, {}) : grid.q);
    const ValueId bytes = add("", "Concat", std::move(inputs), node.attributes, graph_.type(old),
                              to ? to->dtype : grids[0].dtype);
    if (to) return replace_quantised(graph_, old, bytes);
    dequantise_instead(old, bytes, Node(*producer(graph_, node.inputs[0])));
  }

  // Bytes on a grid, constant or not, with ones in front of their shape up to `rank`. Nothing where
  // that takes more than another constant.
  std::optional<Grid> operand_of(ValueId value, std::size_t rank) {
    auto grid = grid_behind(graph_, value);
    if (!grid) return grid;
    const Type& type = graph_.type(grid->q);
    if (type.has_rank() && type.rank() == rank) return grid;
    const Tensor* bytes = graph_.constant(grid->q);
    if (bytes == nullptr || bytes->rank() > rank) return std::nullopt;
    grid->q = graph_.add_constant("", bytes->reshaped(padded_dims(bytes->dims(), rank)));
    return grid;
  }

  // Add, Sub or Mul of two that are on grids, to a grid.
  void fuse_binary(NodeId id) {
    const Node node = graph_.node(id);
    if (!graph_.type(node.outputs[0]).has_rank() || node.inputs.size() != 2) return;
    const std::size_t rank = graph_.type(node.outputs[0]).rank();
    const bool scaled = producer(graph_, node.inputs[0], "DequantizeLinear") != nullptr &&
                        producer(graph_, node.inputs[1], "DequantizeLinear") != nullptr;
    if (!scaled) return fuse_table(id);
    const Chain chain = follow(graph_, {node.outputs[0], {}, {}, {}, {}}, 0);
    if (!chain.to || chain.residual) return;
    auto a = operand_of(node.inputs[0], rank);
    auto b = operand_of(node.inputs[1], rank);
    if (!a || !b) return;
    // The one that is repeated comes second.
    const bool swapped =
        node.op != "Sub" && same_shape(graph_.type(b->q), graph_.type(node.outputs[0]));
    if (swapped) std::swap(a, b);
    const Grid& to = *chain.to;
    double low = to.low(), high = to.high();
    for (const PostOp& op : chain.ops) {
      if (op.op != "Relu" && op.op != "Clip") return;
      const double least = op.op == "Relu" ? 0 : op.alpha;
      const double most = op.op == "Relu" ? std::numeric_limits<float>::max() : op.beta;
      // Rounding is monotone: the bounds may be rounded first.
      const auto step = [&](double v) {
        return std::clamp(std::nearbyint(v / to.scale) + to.zero, low, high);
      };
      const double bottom = step(least), top = step(most);
      low = bottom, high = top;
    }
    Attributes attributes{{"low", static_cast<float>(low)},
                          {"high", static_cast<float>(high)},
                          {"to", static_cast<std::int64_t>(to.dtype)}};
    if (node.op == "Mul") {
      attributes["a_zero"] = std::int64_t{a->zero};
      attributes["b_zero"] = std::int64_t{b->zero};
      attributes["scale"] = static_cast<float>(double{a->scale} * b->scale / to.scale);
      attributes["shift"] = static_cast<float>(to.zero);
    } else {
      const double a_scale = double{a->scale} / to.scale;
      const double b_scale = (node.op == "Sub" ? -1 : 1) * double{b->scale} / to.scale;
      attributes["a_scale"] = static_cast<float>(a_scale);
      attributes["b_scale"] = static_cast<float>(b_scale);
      attributes["shift"] = static_cast<float>(to.zero - a->zero * a_scale - b->zero * b_scale);
    }
    replace_quantised(graph_, chain.result,
                      add(kDomain, node.op == "Mul" ? "Int8Mul" : "Int8Add", {a->q, b->q},
                          std::move(attributes), graph_.type(chain.result), to.dtype));
  }

  // Of a pool's window; too many where that is not known.
  static double window_elements(const Node& node, const Type& x) {
    double count = 1;
    if (node.op == "AveragePool") {
      for (const std::int64_t n : node.attr_ints("kernel_shape")) count *= static_cast<double>(n);
      return count;
    }
    for (std::size_t i = 2; i < x.rank(); ++i) {
      const Dim& dim = (*x.shape)[i];
      count *= dim.is_known() ? static_cast<double>(dim.value()) : kMostAveraged + 1;
    }
    return count;
  }

  void fuse_average(NodeId id) {
    const Node node = graph_.node(id);
    const auto from = dequantised_from(graph_, node.inputs[0]);
    const auto to = quantised_to(graph_, node.outputs[0]);
    const Type& x = graph_.type(node.inputs[0]);
    if (!from || !to || !x.has_rank() || x.rank() < 3 || x.rank() > 5) return;
    const bool global = node.op == "GlobalAveragePool";
    if (!global && (need_int(node, "ceil_mode") != 0 || !is_dense_window(node) ||
                    node.attr_ints("kernel_shape").size() + 2 != x.rank())) {
      return;
    }
    if (window_elements(node, x) > kMostAveraged) return;
    Attributes attributes = node.attributes;
    attributes["x_zero"] = std::int64_t{from->zero};
    attributes["scale"] = static_cast<float>(double{from->scale} / to->scale);
    attributes["shift"] = static_cast<float>(to->zero);
    attributes["to"] = static_cast<std::int64_t>(to->dtype);
    const ValueId bytes = add(kDomain, global ? "Int8GlobalAverage" : "Int8AveragePool", {from->q},
                              std::move(attributes), graph_.type(node.outputs[0]), to->dtype);
    replace_quantised(graph_, node.outputs[0], bytes);
  }

  void fuse_convolution(NodeId id) {
    const Node node = graph_.node(id);
    auto sum = quantised_sum(graph_, node);
    if (!sum) return;
    const std::size_t rank = sum->weights.bytes.rank();
    const Type& x = graph_.type(node.input(0));
    if (rank < 3 || rank > 5 || !x.has_rank() || x.rank() != rank ||
        !graph_.type(node.outputs[0]).has_rank()) {
      return;
    }
    convolve(node, follow(graph_, {node.outputs[0], std::move(sum->bias), {}, {}, {}}, rank),
             sum->from, sum->weights, Instead::kFloats);
  }

  void convolve(const Node& node, const Chain& chain, const Grid& from, const ByteWeights& weights,
                Instead instead) {
    std::vector<ValueId> inputs;
    Attributes attributes = node.attributes;
    write_terms(chain, from, weights, 0, has_padding(node), inputs, attributes);
    Node probe;
    probe.attributes = attributes;
    const auto dims = graph_.type(from.q).static_dims();
    if (!int8_convolution_is_fast(probe, from.dtype, dims ? &*dims : nullptr, weights.bytes,
                                  instead)) {
      return;
    }
    replace(chain, "Conv", std::move(inputs), std::move(attributes));
  }

  // Sums in int32, of constant weights whose zero point is taken out here.
  void fuse_sums(NodeId id) {
    const Node node = graph_.node(id);
    const Tensor* b = graph_.constant(node.input(1));
    const Tensor* zero = node.input(3).valid() ? graph_.constant(node.input(3)) : nullptr;
    const Type& a = graph_.type(node.input(0));
    const auto a_zero = node.input(2).valid() ? graph_.type(node.input(2)).static_dims() : Dims{};
    if (b == nullptr || b->rank() != 2 || b->count() == 0 || !a.has_rank() || a.rank() < 2 ||
        (node.input(3).valid() && zero == nullptr) || !a_zero || element_count(*a_zero) != 1) {
      return;
    }
    // Of int8 the library adds 128 and takes it off again in float32, unless the CPU has AMX.
    if (a.dtype != DType::kUInt8 && b->dims()[0] > 512 &&
        byte_products() == ByteProducts::kLibrary) {
      return;
    }
    auto weights = centred_bytes(*b, zero, 1);
    if (!weights) return;
    const std::int64_t n = weights->dims()[1];
    std::vector<std::int32_t> columns(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < weights->count(); ++i) {
      columns[static_cast<std::size_t>(i % n)] += weights->data<std::int8_t>()[i];
    }
    const ValueId old = node.outputs[0];
    const Type type = graph_.type(old);
    const ValueId w = graph_.add_constant("", std::move(*weights));
    ValueId sums = add(kDomain, "Int8Sums", {node.input(0), w}, {}, type, DType::kInt32);
    if (node.input(2).valid()) {  // less the zero point of A times the sums of the columns
      const ValueId totals = graph_.add_constant(
          "",
          Tensor::from<std::int32_t>(DType::kInt32, {n}, std::span<const std::int32_t>(columns)));
      const Type row = Type::tensor(DType::kInt32, Dims{n});
      const ValueId shape = graph_.add_constant("", Tensor::from_int64(Dims{1}));
      const ValueId one =
          add("", "Reshape", {node.input(2), shape}, {}, Type::tensor(DType::kInt32, Dims{1}),
              graph_.type(node.input(2)).dtype);
      const ValueId zero_point =
          add("", "Cast", {one}, {{"to", static_cast<std::int64_t>(DType::kInt32)}},
              Type::tensor(DType::kInt32, Dims{1}), DType::kInt32);
      const ValueId shift = add("", "Mul", {totals, zero_point}, {}, row, DType::kInt32);
      sums = add("", "Sub", {sums, shift}, {}, type, DType::kInt32);
    }
    substitute(graph_, old, sums);
  }

  // Inputs: x, its scale and zero point, w, its scale and zero point, those of y, perhaps a bias in
  // steps of x and w.
  void fuse_qlinear(NodeId id) {
    const Node node = graph_.node(id);
    const bool is_conv = node.op == "QLinearConv";
    const std::size_t axis = is_conv ? 0 : 1;
    const auto from = grid_of(graph_, node.input(0), node.input(1), node.input(2),
                              graph_.type(node.input(0)).dtype);
    const auto to = grid_of(graph_, node.outputs[0], node.input(6), node.input(7),
                            graph_.type(node.outputs[0]).dtype);
    auto weights = byte_weights(graph_, node.input(3), node.input(4), node.input(5), axis);
    if (!from || !to || !weights || graph_.constant(from->q) != nullptr) return;
    const Type& x = graph_.type(from->q);
    const std::size_t rank = weights->bytes.rank();
    if (!x.has_rank() || !graph_.type(node.outputs[0]).has_rank()) return;
    if (is_conv ? (rank < 3 || rank > 5 || x.rank() != rank) : (rank != 2 || x.rank() < 2)) return;
    Chain chain{node.outputs[0], std::vector<double>(weights->scales.size()), {}, {}, *to};
    if (const Tensor* bias = node.input(8).valid() ? graph_.constant(node.input(8)) : nullptr) {
      if (bias->count() != static_cast<std::int64_t>(chain.bias.size())) return;
      for (std::size_t c = 0; c < chain.bias.size(); ++c) {
        chain.bias[c] = bias->data<std::int32_t>()[c] * double{from->scale} * weights->scales[c];
      }
    } else if (node.input(8).valid()) {
      return;
    }
    if (is_conv) return convolve(node, chain, *from, *weights, Instead::kReference);
    std::vector<ValueId> inputs;
    Attributes attributes;
    write_terms(chain, *from, *weights, axis, /*needs_zero=*/false, inputs, attributes);
    replace(chain, "Int8MatMul", std::move(inputs), std::move(attributes));
  }

  void fuse_product(NodeId id) {
    const Node node = graph_.node(id);
    auto sum = quantised_sum(graph_, node);
    if (!sum) return;
    const Type& x = graph_.type(node.input(0));
    if (!x.has_rank() || x.rank() < 1 || !graph_.type(node.outputs[0]).has_rank() ||
        !int8_product_is_fast(static_cast<std::int64_t>(sum->weights.scales.size()))) {
      return;
    }
    const Chain chain = follow(graph_, {node.outputs[0], std::move(sum->bias), {}, {}, {}}, 0);
    std::vector<ValueId> inputs;
    Attributes attributes;
    if (sum->axis == 0) attributes["trans_b"] = std::int64_t{1};
    write_terms(chain, sum->from, sum->weights, sum->axis, /*needs_zero=*/false, inputs,
                attributes);
    replace(chain, "Int8MatMul", std::move(inputs), std::move(attributes));
  }

  // Inputs and attributes of the fused node. `axis` is that of the weights' channels.
  void write_terms(const Chain& chain, const Grid& from, const ByteWeights& weights,
                   std::size_t axis, bool needs_zero, std::vector<ValueId>& inputs,
                   Attributes& attributes) {
    Steps steps(chain);
    Int8Terms terms;
    terms.to = chain.to ? chain.to->dtype : DType::kFloat32;
    const double scale = steps.scale();
    const double zero = steps.zero();
    double offset = 0;
    write_post_ops(attributes, steps.translate(&offset));
    const std::size_t channels = weights.scales.size();
    std::vector<float> bias(channels);
    std::vector<std::int64_t> sums(channels);
    if (needs_zero) {
      terms.x_zero = from.zero;
    } else if (from.zero != 0) {  // without padding it is one number per channel
      std::int64_t inner = 1;
      for (std::size_t i = axis + 1; i < weights.bytes.rank(); ++i) {
        inner *= weights.bytes.dims()[i];
      }
      for (std::int64_t i = 0; i < weights.bytes.count(); ++i) {
        sums[i / inner % static_cast<std::int64_t>(channels)] +=
            weights.bytes.data<std::int8_t>()[i];
      }
    }
    for (std::size_t c = 0; c < channels; ++c) {
      const double factor = double{from.scale} * weights.scales[c] / scale;
      terms.factors.push_back(static_cast<float>(factor));
      bias[c] = static_cast<float>(chain.bias[c] / scale + zero + offset -
                                   factor * from.zero * static_cast<double>(sums[c]));
    }
    terms.write(attributes);
    inputs = {from.q, graph_.add_constant("", weights.bytes),
              graph_.add_constant(
                  "", Tensor::from<float>(DType::kFloat32, {static_cast<std::int64_t>(channels)},
                                          std::span<const float>(bias)))};
    if (chain.residual) inputs.push_back(chain.residual->q);
  }

  void replace(const Chain& chain, std::string_view op, std::vector<ValueId> inputs,
               Attributes attributes) {
    const ValueId named = chain.to ? chain.to->q : chain.result;
    const NodeId made = graph_.add_node(kDomain, op, std::move(inputs), {graph_.value(named).name},
                                        std::move(attributes));
    const ValueId out = graph_.node(made).outputs[0];
    graph_.set_type(out, Type(graph_.type(named)));
    if (chain.to && chain.to->q != chain.result) {
      replace_quantised(graph_, chain.result, out);
    } else {
      substitute(graph_, chain.result, out);
    }
  }

  Graph& graph_;
};

}  // namespace

std::vector<std::string> fuse_int8(Graph& graph) {
  if (byte_products() == ByteProducts::kNone) return Int8Report(graph).remarks(graph);
  fuse_formulas(graph);  // functions of one element that are spelled out
  Int8Report report(graph);
  fuse_dynamic_int8(graph, report);
  Int8Fusion(graph).run();
  return report.remarks(graph);
}

}  // namespace xrt::native::dnn
