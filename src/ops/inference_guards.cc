// SPDX-License-Identifier: Apache-2.0
#include "ops/inference_guards.h"

#include <onnx/defs/tensor_proto_util.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "onnx/proto.h"
#include "ops/axes.h"
#include "ops/gate_functions.h"
#include "ops/sizes/deciding_operands.h"
#include "ops/sizes/resize_places.h"
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

struct LabelSizes {
  std::map<char, std::int64_t> known;
  bool repeats = false;  // an operand of size 1 beside a larger one
};

// Of the labels whose sizes are known. Throws where two operands disagree.
LabelSizes label_sizes(const Graph& graph, const Node& node) {
  std::string terms = node.attr_string("equation", "");
  terms = terms.substr(0, terms.find('-'));
  std::erase(terms, ' ');
  LabelSizes sizes;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < node.inputs.size() && begin <= terms.size(); ++i) {
    const std::size_t end = std::min(terms.find(',', begin), terms.size());
    const std::string_view term = std::string_view(terms).substr(begin, end - begin);
    begin = end + 1;
    if (!node.inputs[i].valid() || !graph.type(node.inputs[i]).has_rank()) continue;
    const std::vector<Dim>& dims = *graph.type(node.inputs[i]).shape;
    const std::size_t dots = term.find("...");
    for (std::size_t k = 0; k < term.size(); ++k) {
      if (term[k] == '.') continue;
      // Behind an ellipsis labels are counted from the end.
      const std::size_t axis = k < dots ? k : dims.size() - (term.size() - k);
      if (axis >= dims.size() || !dims[axis].is_known()) continue;
      const std::int64_t size = dims[axis].value();
      const auto [known, is_new] = sizes.known.emplace(term[k], size);
      if (is_new || known->second == size) continue;
      if (known->second != 1 && size != 1) {
        invalid("the label '" + std::string(1, term[k]) + "' of its equation stands for " +
                std::to_string(known->second) + " and for " + std::to_string(size));
      }
      sizes.repeats = true;
      known->second = std::max(known->second, size);
    }
  }
  return sizes;
}

// A permutation of fewer axes than there are.
void check_transpose(const Graph& graph, const Node& node) {
  if (!node.has("perm") || !node.input(0).valid() || !graph.type(node.input(0)).has_rank()) return;
  const std::size_t named = node.attr_ints("perm").size();
  const std::size_t rank = graph.type(node.input(0)).rank();
  if (named == rank) return;
  invalid("'perm' names " + std::to_string(named) + " axes, but there are " + std::to_string(rank));
}

// Rules that take axes for 32 bits.
void check_narrow_axes(const Node& node, std::string_view attribute) {
  const std::string name(attribute);
  if (!node.has(name)) return;
  const Attribute& axes = node.attributes.at(name);
  const std::vector<std::int64_t> list =
      std::holds_alternative<std::int64_t>(axes)
          ? std::vector<std::int64_t>{std::get<std::int64_t>(axes)}
          : node.attr_ints(name);
  for (const std::int64_t axis : list) {
    if (axis >= -kMaxRank && axis <= kMaxRank) continue;
    invalid("'" + name + "' names axis " + std::to_string(axis) + ", but a tensor has at most " +
            std::to_string(kMaxRank) + " axes");
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

// Optimizers read a rate, a count and groups of as many tensors each, and write some of the groups.
// Nobody else says how many outputs they have.
void check_optimizer(const Node& node) {
  const std::size_t read = node.op == "Adam" ? 4 : 3;
  const std::size_t inputs = node.inputs.size();
  const std::size_t each = inputs < 2 ? 0 : (inputs - 2) / read;
  const std::size_t outputs = (read - 1) * each;
  if (each > 0 && inputs == 2 + read * each && node.outputs.size() == outputs) return;
  invalid("it has " + std::to_string(inputs) + " inputs and " +
          std::to_string(node.outputs.size()) + " outputs, but for n tensors it has 2 + " +
          std::to_string(read) + " n inputs and " + std::to_string(read - 1) + " n outputs");
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

// A float type to compute in. Engines compute in any that they are told.
void check_stash(const Node& node) {
  const std::int64_t type = node.attr_int("stash_type", onnx::TensorProto::FLOAT);
  switch (type) {
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
    case onnx::TensorProto::DOUBLE:
      return;
    default:
      invalid("stash_type is " + std::to_string(type) +
              ", but float (1), float16 (10), double (11) or bfloat16 (16) is wanted");
  }
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

// Elements from `start` by `step`, up to and without `limit`; the largest number for more.
std::int64_t range_count(std::int64_t start, std::int64_t limit, std::int64_t step) {
  if (step == 0 || (step > 0 ? limit <= start : limit >= start)) return 0;
  const auto low = static_cast<std::uint64_t>(std::min(start, limit));
  const auto high = static_cast<std::uint64_t>(std::max(start, limit));
  const auto size = static_cast<std::uint64_t>(step);
  const std::uint64_t count = (high - low - 1) / (step > 0 ? size : 0 - size);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return count < static_cast<std::uint64_t>(kMost) ? static_cast<std::int64_t>(count) + 1 : kMost;
}

// The rule of Range subtracts the ends in their own type, where the difference may wrap round.
void mend_range(onnx::InferenceContext& context) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < 3; ++i) {
    const onnx::TensorProto* given = context.getInputData(i);
    if (given == nullptr) return;
    if (given->data_type() == onnx::TensorProto::INT64) {
      for (const std::int64_t n : onnx::ParseData<std::int64_t>(given)) numbers.push_back(n);
    } else if (given->data_type() == onnx::TensorProto::INT32) {
      for (const std::int32_t n : onnx::ParseData<std::int32_t>(given)) numbers.push_back(n);
    }
  }
  if (numbers.size() != 3) return;
  auto* shape = context.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  if (shape->dim_size() != 1) return;
  shape->mutable_dim(0)->set_dim_value(range_count(numbers[0], numbers[1], numbers[2]));
}

void forget_sizes(onnx::InferenceContext& context, std::size_t output) {
  if (output >= context.getNumOutputs() || !context.hasOutput(output)) return;
  auto* type = context.getOutputType(output)->mutable_tensor_type();
  if (!type->has_shape()) return;
  for (auto& dim : *type->mutable_shape()->mutable_dim()) dim.clear_value();
}

// The rule of Split counts along the axis in int32.
void mend_split(const Graph& graph, const Node& node, onnx::InferenceContext& context) {
  if (!node.input(0).valid() || !graph.type(node.input(0)).has_rank()) return;
  const std::vector<Dim>& dims = *graph.type(node.input(0)).shape;
  const bool is_wide = std::any_of(dims.begin(), dims.end(), [](const Dim& dim) {
    return dim.is_known() && dim.value() > std::numeric_limits<std::int32_t>::max();
  });
  if (!is_wide) return;
  for (std::size_t i = 0; i < context.getNumOutputs(); ++i) forget_sizes(context, i);
}

// The rule multiplies by a scale in double.
void mend_resize(const Node& node, onnx::InferenceContext& context) {
  const onnx::TensorProto* given = context.getInputData(node.inputs.size() > 2 ? 2 : 1);
  const onnx::TensorShapeProto* from = shape_of(context, 0);
  if (given == nullptr || from == nullptr || given->data_type() != onnx::TensorProto::FLOAT) return;
  auto* to = context.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  const auto rank = static_cast<std::size_t>(from->dim_size());
  if (static_cast<std::size_t>(to->dim_size()) != rank) return;
  const std::vector<float> scales = onnx::ParseData<float>(given);
  std::vector<std::int64_t> axes = node.attr_ints("axes");
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
  }
  if (scales.size() != axes.size()) return;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<int>(axes[i] < 0 ? axes[i] + from->dim_size() : axes[i]);
    const auto& dim = from->dim(axis);
    if (!dim.has_dim_value()) continue;
    const auto size = resized_size(dim.dim_value(), scales[i]);
    if (!size) invalid("the result is too large");
    to->mutable_dim(axis)->set_dim_value(*size);
  }
}

}  // namespace

void mend_inferred(const Graph& graph, const Node& node, onnx::InferenceContext& context) {
  if (!node.domain.empty()) return;
  if (node.op == "Attention") mend_attention(context);
  if (node.op == "Range") mend_range(context);
  if (node.op == "Split") mend_split(graph, node, context);
  if (node.op == "Resize" || node.op == "Upsample") mend_resize(node, context);
  // The rule takes the size of a label from the first operand that has it.
  if (node.op == "Einsum" && label_sizes(graph, node).repeats) forget_sizes(context, 0);
}

void guard_inference(const Graph& graph, const Node& node) {
  if (node.domain == "ai.onnx.preview.training" && node.op != "Gradient") check_optimizer(node);
  if (!node.domain.empty()) return;
  check_axes(graph, node);
  check_lists_per_axis(graph, node);
  if (node.op == "GRU" || node.op == "LSTM" || node.op == "RNN") check_gates(node);
  if (node.op == "GatherND") check_gather_nd(graph, node);
  if (node.has("stash_type")) check_stash(node);
  if (node.op == "LRN") check_lrn(graph, node);
  if (node.op == "Einsum") {
    check_einsum(node);
    label_sizes(graph, node);
  }
  if (node.op == "Split") check_split(node);
  if (node.op == "Transpose") check_transpose(graph, node);
  if (node.op == "ConcatFromSequence") check_narrow_axes(node, "axis");
  if (node.op == "Scan") {
    check_narrow_axes(node, "scan_input_axes");
    check_narrow_axes(node, "scan_output_axes");
  }
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
