// SPDX-License-Identifier: Apache-2.0
#include "ops/inference_guards.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "onnx/proto.h"
#include "ops/axes.h"
#include "ops/deciding_operands.h"
#include "ops/gate_functions.h"
#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, message);
}

// The rule of Einsum does not move on at a character that it does not know.
void check_einsum(const Node& node) {
  const std::string equation = node.attr_string("equation", "");
  const auto refuse = [&](const char* why) { invalid("its equation '" + equation + "' " + why); };
  std::size_t dots = 0;  // in this term
  for (std::size_t i = 0; i < equation.size(); ++i) {
    const char c = equation[i];
    const std::string_view rest = std::string_view(equation).substr(i);
    if (rest.starts_with("...")) {
      if (++dots > 1) refuse("has two ellipses in one term");
      i += 2;
    } else if (rest.starts_with("->") || c == ',') {
      dots = 0;
      if (c == '-') ++i;
    } else if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ' ')) {
      refuse("holds a character that is no label");
    }
  }
}

// The rule of Split makes a list of 'num_outputs' numbers and reads one for each output.
void check_split(const Node& node) {
  if (!node.attributes.contains("num_outputs")) return;
  constexpr std::int64_t kMaxUnnamed = 1 << 16;
  const std::int64_t count = node.attr_int("num_outputs", 1);
  const auto named = static_cast<std::int64_t>(node.outputs.size());
  if (count < std::max<std::int64_t>(named, 1) || count > std::max(named, kMaxUnnamed)) {
    invalid("'num_outputs' is " + std::to_string(count) + ", but it has " + std::to_string(named) +
            " outputs");
  }
}

// The rule of GatherND copies the dimensions after the first 'batch_dims' and those that are named.
void check_gather_nd(const Graph& graph, const Node& node) {
  const std::int64_t batch = node.attr_int("batch_dims", 0);
  for (const ValueId v : {node.input(0), node.input(1)}) {
    const bool known = v.valid() && graph.type(v).has_rank();
    const auto rank = known ? static_cast<std::int64_t>(graph.type(v).rank()) : batch + 1;
    if (batch >= 0 && batch < rank) continue;
    invalid("'batch_dims' is " + std::to_string(batch) + ", but an operand has " +
            std::to_string(known ? rank : 0) + " axes");
  }
}

// The rule of LRN reads the axis of channels.
void check_lrn(const Graph& graph, const Node& node) {
  if (!node.input(0).valid()) return;
  const Type& type = graph.type(node.input(0));
  if (type.has_rank() && type.rank() < 2) {
    invalid("its input has " + std::to_string(type.rank()) + " axes, but 2 or more are wanted");
  }
}

// The gates of recurrent ops are clipped to -clip and clip; 0 means that they are not. Their
// functions are looked at here, so that no engine has to.
void check_gates(const Node& node) {
  gate_functions(node);
  const float clip = node.attr_float("clip", 0.0F);
  if (!(clip >= 0)) invalid("clip is " + std::to_string(clip) + ", but 0 or more is wanted");
}

// Lists with one entry per axis, pads with two. Some rules (that of ConstantOfShape, in every
// library that has one) make as many dimensions as the list is said to have entries.
void check_lists_per_axis(const Graph& graph, const Node& node) {
  if (node.op == "Split") return;  // one entry per part
  for (const DecidingOperand& operand : deciding_operands(node)) {
    const ValueId v = node.input(operand.operand);
    if (!operand.shapes || !v.valid()) continue;
    const Type& type = graph.type(v);
    if (!type.has_rank() || type.rank() != 1 || !type.shape->front().is_known()) continue;
    const std::int64_t entries = type.shape->front().value();
    if (entries <= 2 * std::int64_t{kMaxRank}) continue;
    invalid("operand " + std::to_string(operand.operand) + " has " + std::to_string(entries) +
            " entries, but a tensor has at most " + std::to_string(kMaxRank) + " axes");
  }
}

const onnx::TensorShapeProto* shape_of(const onnx::InferenceContext& context, std::size_t input) {
  const onnx::TypeProto* type = context.hasInput(input) ? context.getInputType(input) : nullptr;
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) {
    return nullptr;
  }
  return &type->tensor_type().shape();
}

// A dimension of an operand, counted from the end; nothing where it is no number.
std::optional<std::int64_t> size_of(const onnx::InferenceContext& context, std::size_t input,
                                    int from_end) {
  const onnx::TensorShapeProto* shape = shape_of(context, input);
  if (shape == nullptr || from_end > shape->dim_size()) return std::nullopt;
  const auto& dim = shape->dim(shape->dim_size() - from_end);
  return dim.has_dim_value() ? std::optional(dim.dim_value()) : std::nullopt;
}

void set_last(onnx::InferenceContext& context, std::size_t output, int rank,
              std::optional<std::int64_t> size) {
  if (output >= context.getNumOutputs() || !context.hasOutput(output)) return;
  auto* type = context.getOutputType(output)->mutable_tensor_type();
  if (!type->has_shape() || type->shape().dim_size() != rank) return;
  auto* last = type->mutable_shape()->mutable_dim(rank - 1);
  last->clear_value();
  if (size) last->set_dim_value(*size);
}

// Of values with heads side by side the last dimension makes that of the result. The numbers of
// keys, old and new, are the last one of the fourth output; the rule leaves the old ones out where
// keys and values are no results.
void mend_attention(onnx::InferenceContext& context) {
  const onnx::TensorShapeProto* values = shape_of(context, 2);
  if (values == nullptr) return;
  if (values->dim_size() == 3 && !size_of(context, 2, 1)) set_last(context, 0, 3, std::nullopt);
  std::optional<std::int64_t> keys = size_of(context, 2, 2);
  if (keys && context.hasInput(4)) {
    const std::optional<std::int64_t> old = size_of(context, 4, 2);
    const bool fits = old && *old <= std::numeric_limits<std::int64_t>::max() - *keys;
    keys = fits ? std::optional(*keys + *old) : std::nullopt;
  }
  set_last(context, 3, 4, keys);
}

}  // namespace

void mend_inferred(const Node& node, onnx::InferenceContext& context) {
  if (node.domain.empty() && node.op == "Attention") mend_attention(context);
}

void guard_inference(const Graph& graph, const Node& node) {
  if (!node.domain.empty()) return;
  check_axes(graph, node);
  check_lists_per_axis(graph, node);
  if (node.op == "GRU" || node.op == "LSTM" || node.op == "RNN") check_gates(node);
  if (node.op == "GatherND") check_gather_nd(graph, node);
  if (node.op == "LRN") check_lrn(graph, node);
  if (node.op == "Einsum") check_einsum(node);
  if (node.op == "Split") check_split(node);
}

bool may_build_function(const Graph& graph, const Node& node) {
  for (const ValueId v : node.inputs) {
    if (!v.valid()) continue;
    const Type& type = graph.type(v);
    if (type.is_tensor() && type.dtype == DType::kUndefined) return false;
  }
  if (!node.domain.empty() || node.op != "SequenceMap") return true;
  const auto body = node.attr_graph("body");
  if (body == nullptr || body->inputs().empty() || body->outputs().empty()) return false;
  if (body->inputs().size() != node.inputs.size() ||
      body->outputs().size() != node.outputs.size()) {
    return false;
  }
  for (const ValueId v : node.inputs) {
    if (!v.valid()) return false;
  }
  return graph.type(node.inputs[0]).kind == Type::Kind::kSequence;
}

}  // namespace xrt
