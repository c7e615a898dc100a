// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/post_ops.h"

#include <limits>
#include <map>

#include "ir/attributes.h"
#include "ir/pattern.h"

namespace xrt::native::dnn {
namespace {

using dnnl::algorithm;

// Softplus and Mish are left out: the library's soft_relu is off by 2e-6 at large negative numbers,
// where the true value is next to 0.
const std::map<std::string_view, algorithm>& eltwise_algorithms() {
  static const std::map<std::string_view, algorithm> table{
      {"Abs", algorithm::eltwise_abs},
      {"Clip", algorithm::eltwise_clip_v2},
      {"Elu", algorithm::eltwise_elu},
      {"Exp", algorithm::eltwise_exp},
      {"GeluErf", algorithm::eltwise_gelu_erf},
      {"GeluTanh", algorithm::eltwise_gelu_tanh},
      {"HardSigmoid", algorithm::eltwise_hardsigmoid},
      {"HardSwish", algorithm::eltwise_hardswish},
      {"LeakyRelu", algorithm::eltwise_relu},
      {"Linear", algorithm::eltwise_linear},
      {"Log", algorithm::eltwise_log},
      {"Relu", algorithm::eltwise_relu},
      {"Sigmoid", algorithm::eltwise_logistic},
      {"Sqrt", algorithm::eltwise_sqrt},
      {"Square", algorithm::eltwise_square},
      {"Swish", algorithm::eltwise_swish},
      {"Tanh", algorithm::eltwise_tanh},
  };
  return table;
}

std::optional<PostOp> scalar_arithmetic(const Graph& graph, const Node& node,
                                        std::size_t* operand) {
  if (node.inputs.size() != 2) return std::nullopt;
  std::optional<float> left = scalar_constant(graph, node.inputs[0]);
  std::optional<float> right = scalar_constant(graph, node.inputs[1]);
  if (left.has_value() == right.has_value()) return std::nullopt;
  *operand = left ? 1 : 0;
  const float c = left ? *left : *right;
  if (node.op == "Add") return PostOp{"Linear", 1, c};
  if (node.op == "Mul") return PostOp{"Linear", c, 0};
  if (node.op == "Sub") return left ? PostOp{"Linear", -1, c} : PostOp{"Linear", 1, -c};
  if (node.op == "Div" && right && c != 0) return PostOp{"Linear", 1 / c, 0};
  return std::nullopt;
}

}  // namespace

std::vector<PostOp> read_post_ops(const Node& node) {
  const std::vector<std::string> names = node.attr_strings("post_ops");
  const std::vector<float> alpha = node.attr_floats("post_alpha");
  const std::vector<float> beta = node.attr_floats("post_beta");
  const std::vector<std::int64_t> input = node.attr_ints("post_input");
  std::vector<PostOp> ops(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    ops[i] = {names[i], alpha.at(i), beta.at(i), input.at(i)};
  }
  return ops;
}

void write_post_ops(Attributes& attributes, const std::vector<PostOp>& post_ops) {
  std::vector<std::string> names;
  std::vector<float> alpha;
  std::vector<float> beta;
  std::vector<std::int64_t> input;
  for (const PostOp& op : post_ops) {
    names.push_back(op.op);
    alpha.push_back(op.alpha);
    beta.push_back(op.beta);
    input.push_back(op.input);
  }
  attributes["post_ops"] = std::move(names);
  attributes["post_alpha"] = std::move(alpha);
  attributes["post_beta"] = std::move(beta);
  attributes["post_input"] = std::move(input);
}

std::optional<PostOp> unary_post_op(const Graph& graph, const Node& node, std::size_t* operand) {
  if (!node.domain.empty() || node.inputs.empty()) return std::nullopt;
  *operand = 0;
  const std::string& op = node.op;
  if (op == "Relu" || op == "Sigmoid" || op == "Tanh" || op == "Sqrt" || op == "Abs" ||
      op == "Exp") {
    return PostOp{op};
  }
  if (op == "LeakyRelu") return PostOp{op, need_float(node, "alpha")};
  if (op == "Elu") return PostOp{op, need_float(node, "alpha")};
  if (op == "HardSigmoid") {
    return PostOp{op, need_float(node, "alpha"), need_float(node, "beta")};
  }
  if (op == "HardSwish") return PostOp{op, 1.0F / 6, 0.5F};
  if (op == "Swish") return PostOp{op, need_float(node, "alpha")};
  if (op == "Gelu") {
    return PostOp{need_string(node, "approximate") == "tanh" ? "GeluTanh" : "GeluErf"};
  }
  if (op == "Clip") {
    PostOp clip{op, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max()};
    if (node.input(1).valid()) {
      const auto low = scalar_constant(graph, node.input(1));
      if (!low) return std::nullopt;
      clip.alpha = *low;
    }
    if (node.input(2).valid()) {
      const auto high = scalar_constant(graph, node.input(2));
      if (!high) return std::nullopt;
      clip.beta = *high;
    }
    if (clip.alpha > clip.beta) return std::nullopt;
    return clip;
  }
  return scalar_arithmetic(graph, node, operand);
}

algorithm eltwise_algorithm(const PostOp& op) {
  const auto found = eltwise_algorithms().find(op.op);
  if (found == eltwise_algorithms().end()) {
    throw Error(ErrorCode::kInternal, "no elementwise post-op '" + op.op + "'");
  }
  return found->second;
}

algorithm binary_algorithm(const PostOp& op) {
  if (op.op == "Add") return algorithm::binary_add;
  if (op.op == "Sub") return algorithm::binary_sub;
  if (op.op == "Mul") return algorithm::binary_mul;
  if (op.op == "Div") return algorithm::binary_div;
  throw Error(ErrorCode::kInternal, "no binary post-op '" + op.op + "'");
}

std::vector<int> summed_inputs(const std::vector<PostOp>& post_ops) {
  std::vector<int> inputs;
  for (const PostOp& op : post_ops) {
    if (op.op == "Sum") inputs.push_back(static_cast<int>(op.input));
  }
  return inputs;
}

Dims padded_dims(const Dims& dims, std::size_t rank) {
  Dims padded(rank > dims.size() ? rank - dims.size() : 0, 1);
  padded.insert(padded.end(), dims.begin(), dims.end());
  return padded;
}

namespace {

// The second operand as the kernel sees it: a tensor whose memory has the channels last if
// `channels_last`, described in the order of the destination.
Operand binary_operand(const PostOp& op, std::span<const Dims> inputs, std::span<const DType> types,
                       std::size_t rank, bool channels_last) {
  const auto i = static_cast<std::size_t>(op.input);
  Dims dims = padded_dims(inputs[i], rank);
  if (channels_last) {
    // Stored as (batch, spatial …, channels).
    const std::int64_t channels = dims.back();
    dims.pop_back();
    dims.insert(dims.begin() + 1, channels);
  }
  return Plan::input(i, plain_desc(dims, types[i], channels_last));
}

}  // namespace

std::vector<DType> input_types(const NodeView& node) {
  std::vector<DType> types;
  for (std::size_t i = 0; i < node.input_count(); ++i) types.push_back(node.input_dtype(i));
  return types;
}

PostOpChain make_chain(std::span<const PostOp> post_ops, std::span<const Dims> inputs,
                       std::span<const DType> types, const Dims& destination, bool channels_last) {
  PostOpChain chain;
  for (std::size_t i = 0; i < post_ops.size(); ++i) {
    const PostOp& op = post_ops[i];
    if (op.op == "Sum") {  // the destination holds that operand, see Plan::start_from()
      chain.post_ops.append_sum(op.alpha, 0, data_type(static_cast<DType>(op.beta)));
      continue;
    }
    if (!op.is_binary()) {
      chain.post_ops.append_eltwise(eltwise_algorithm(op), op.alpha, op.beta);
      continue;
    }
    Operand operand = binary_operand(op, inputs, types, destination.size(), channels_last);
    chain.post_ops.append_binary(binary_algorithm(op), operand.desc);
    chain.arguments.push_back(
        {DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i)) | DNNL_ARG_SRC_1, std::move(operand)});
  }
  return chain;
}

void add_post_op_steps(Plan& plan, std::span<const PostOp> post_ops, std::span<const Dims> inputs,
                       std::span<const DType> types, const Operand& y, bool channels_last) {
  const auto rank = static_cast<std::size_t>(y.desc.get_ndims());
  for (const PostOp& op : post_ops) {
    if (op.is_binary()) {
      const Operand operand = binary_operand(op, inputs, types, rank, channels_last);
      const dnnl::binary::primitive_desc pd(cpu_engine(), binary_algorithm(op), y.desc,
                                            operand.desc, y.desc, base_attributes());
      plan.add(dnnl::binary(pd), pd.scratchpad_desc(),
               {{DNNL_ARG_SRC_0, y}, {DNNL_ARG_SRC_1, operand}, {DNNL_ARG_DST, y}},
               pd.impl_info_str());
    } else {
      const dnnl::eltwise_forward::primitive_desc pd(
          cpu_engine(), dnnl::prop_kind::forward_inference, eltwise_algorithm(op), y.desc, y.desc,
          op.alpha, op.beta, base_attributes());
      plan.add(dnnl::eltwise_forward(pd), pd.scratchpad_desc(),
               {{DNNL_ARG_SRC, y}, {DNNL_ARG_DST, y}}, pd.impl_info_str());
    }
  }
}

}  // namespace xrt::native::dnn
