// SPDX-License-Identifier: Apache-2.0
#include "engines/tvm/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "engines/tvm/user_code.h"
#include "ir/attributes.h"

namespace xrt::tvm_engine {
namespace {

// One node, and the reason against it if there is one.
struct Question {
  const Graph& graph;
  const Node& node;

  const Type& input(std::size_t i) const { return graph.type(node.input(i)); }
  bool has_input(std::size_t i) const { return node.input(i).valid(); }
  bool has_output(std::size_t i) const {
    return node.output(i).valid() &&
           (!graph.uses(node.output(i)).empty() || graph.is_output(node.output(i)));
  }
};

using Reason = std::optional<std::string>;
using Condition = std::function<Reason(const Question&)>;

// --- conditions
// -----------------------------------------------------------------------------------

Reason always(const Question& /*q*/) { return std::nullopt; }

// These inputs, where present, must be constants: TVM's frontend bakes them into the code.
Condition constants(std::vector<std::size_t> positions) {
  return [positions = std::move(positions)](const Question& q) -> Reason {
    for (const std::size_t i : positions) {
      if (q.has_input(i) && q.graph.constant(q.node.input(i)) == nullptr) {
        return fmt::format("its input '{}' is no constant", q.graph.value(q.node.input(i)).name);
      }
    }
    return std::nullopt;
  };
}

// Likewise; a constant of rank 0 where a list is wanted is not understood.
Condition lists(const std::vector<std::size_t>& positions) {
  return [positions, are_constants = constants(positions)](const Question& q) -> Reason {
    if (auto reason = are_constants(q)) return reason;
    for (const std::size_t i : positions) {
      if (q.has_input(i) && q.input(i).rank() != 1) {
        return fmt::format("its input '{}' is no list", q.graph.value(q.node.input(i)).name);
      }
    }
    return std::nullopt;
  };
}

// Of NaN and a number TVM's code takes the number, and the greatest of several −∞ is its lowest
// finite number.
Reason no_floats(const Question& q) {
  return is_floating(q.input(0).dtype) ? Reason{"NaN and infinity are not kept"} : Reason{};
}

Reason one_output(const Question& q) {
  for (std::size_t i = 1; i < q.node.outputs.size(); ++i) {
    if (q.node.output(i).valid()) return "it is written for the first output only";
  }
  return std::nullopt;
}

bool is_wide_float(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

Reason wide_floats(const Question& q) {
  for (const ValueId id : q.node.inputs) {
    if (id.valid() && !is_wide_float(q.graph.type(id).dtype)) {
      return "it is written for float32 and float64";
    }
  }
  return std::nullopt;
}

Reason wide_floats_of_data(const Question& q) {
  return is_wide_float(q.input(0).dtype) ? Reason{}
                                         : Reason{"it is written for float32 and float64"};
}

Reason float32_data(const Question& q) {
  return q.input(0).dtype == DType::kFloat32 ? Reason{} : Reason{"it is written for float32"};
}

Condition both(Condition first, Condition second) {
  return [first = std::move(first), second = std::move(second)](const Question& q) -> Reason {
    if (auto reason = first(q)) return reason;
    return second(q);
  };
}

Condition without(std::string attribute) {
  return [attribute = std::move(attribute)](const Question& q) -> Reason {
    if (q.node.has(attribute)) return "attribute '" + attribute + "' is not handled";
    return std::nullopt;
  };
}

// TVM's frontend pads both sides alike, which gives one channel more.
Reason odd_window(const Question& q) {
  return q.node.attr_int("size", 1) % 2 == 1 ? Reason{} : Reason{"an even number of channels"};
}

Reason inference_norm(const Question& q) {
  return need_int(q.node, "training_mode") != 0 ? Reason{"training mode"} : one_output(q);
}

// TVM's frontend reads no training_mode: it drops nothing.
Reason inference_dropout(const Question& q) {
  if (auto reason = one_output(q)) return reason;
  if (!q.has_input(2)) return std::nullopt;
  const Tensor* training = q.graph.constant(q.node.input(2));
  if (training == nullptr || *static_cast<const bool*>(training->raw())) return "training mode";
  return std::nullopt;
}

Reason shift_of_unsigned(const Question& q) {
  return is_signed_integer(q.input(0).dtype) ? Reason{"shifts of signed integers"} : Reason{};
}

Reason same_types(const Question& q) {
  if (!is_wide_float(q.input(0).dtype)) return "it is written for float32 and float64";
  return q.input(0).dtype == q.input(1).dtype ? Reason{} : Reason{"operands of different dtypes"};
}

Reason expand(const Question& q) {
  if (auto reason = constants({1})(q)) return reason;
  const Tensor& shape = *q.graph.constant(q.node.input(1));
  const Dims wanted = *q.graph.type(q.node.output(0)).static_dims();
  const std::span<const std::int64_t> given(shape.data<std::int64_t>(),
                                            static_cast<std::size_t>(shape.count()));
  return std::equal(given.begin(), given.end(), wanted.begin(), wanted.end())
             ? Reason{}
             : Reason{"the shape names a 1 where the data is larger"};
}

// TVM writes (x + a) * b as x * b + a * b, and a * b of integers does not wrap round there.
Reason small_constants(const Question& q) {
  for (const std::size_t i : {0U, 1U}) {
    const Tensor* constant = q.has_input(i) ? q.graph.constant(q.node.input(i)) : nullptr;
    if (constant == nullptr || constant->rank() > 0 || !is_integer(constant->dtype())) continue;
    const int bits = bit_width(constant->dtype());
    if (bits < 32) continue;
    const std::int64_t limit = std::int64_t{1} << (bits / 2 - 1);
    const std::int64_t value = constant->to_int64()[0];
    if (value <= -limit || value >= limit) return "products of such a constant may wrap round";
  }
  return std::nullopt;
}

// By 0, and the least integer by -1, are traps of the processor.
Reason division(const Question& q) {
  const DType dtype = q.input(0).dtype;
  if (!is_integer(dtype)) return std::nullopt;
  const Tensor* divisor = q.has_input(1) ? q.graph.constant(q.node.input(1)) : nullptr;
  if (divisor == nullptr) return "a divisor of integers that is no constant may be 0";
  for (const std::int64_t value : divisor->to_int64()) {
    if (value == 0 || (value == -1 && is_signed_integer(dtype))) {
      return "division of integers by 0 or -1 may end the process";
    }
  }
  return std::nullopt;
}

Reason modulo(const Question& q) {
  const bool is_float = is_floating(q.input(0).dtype);
  return is_float && need_int(q.node, "fmod") == 0 ? Reason{"fmod=0 of floats"} : Reason{};
}

Reason signed_numbers(const Question& q) {
  const DType dtype = q.input(0).dtype;
  return is_integer(dtype) && !is_signed_integer(dtype) ? Reason{"unsigned integers"} : Reason{};
}

Reason rms_norm(const Question& q) {
  return need_int(q.node, "axis") == 0 ? Reason{"normalisation over every axis"} : float32_data(q);
}

Reason quantise(const Question& q) {
  for (const ValueId id : {q.node.input(0), q.node.input(2), q.node.output(0)}) {
    if (!id.valid()) continue;
    const DType dtype = q.graph.type(id).dtype;
    if (dtype != DType::kInt8 && dtype != DType::kUInt8 && dtype != DType::kFloat32) {
      return "it is written for int8, uint8 and float32";
    }
  }
  if (need_int(q.node, "block_size") != 0) return "blocked quantisation";
  if (!q.has_input(2)) return "no zero point";
  return std::nullopt;
}

Reason plain_resize(const Question& q) {
  if (auto reason = constants({1, 2, 3})(q)) return reason;
  if (q.input(0).rank() != 4 || q.input(0).dtype != DType::kFloat32) {
    return "it is written for float32 of rank 4";
  }
  const Dims from = *q.input(0).static_dims();
  const Dims to = *q.graph.type(q.node.output(0)).static_dims();
  if (from[0] != to[0] || from[1] != to[1]) return "batch or channels are resized";
  const std::string mode = need_string(q.node, "mode");
  const std::string transform = need_string(q.node, "coordinate_transformation_mode");
  if (need_int(q.node, "antialias") != 0) return "antialias";
  if (mode == "nearest" && transform == "asymmetric" &&
      need_string(q.node, "nearest_mode") == "floor") {
    return std::nullopt;
  }
  if (mode == "linear" && (transform == "half_pixel" || transform == "align_corners")) {
    return std::nullopt;
  }
  return "mode '" + mode + "' with '" + transform + "'";
}

Reason pad(const Question& q) {
  if (auto reason = constants({1, 2, 3})(q)) return reason;
  if (q.has_input(3)) return "an axes input";
  const Tensor& pads = *q.graph.constant(q.node.input(1));
  for (std::int64_t i = 0; i < pads.count(); ++i) {
    if (pads.data<std::int64_t>()[i] < 0) return "negative padding";
  }
  const std::string mode = need_string(q.node, "mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge") return "mode '" + mode + "'";
  return std::nullopt;
}

// A slice backwards from before the first element begins there; TVM's is empty, as NumPy's is.
Reason slice(const Question& q) {
  if (auto reason = lists({1, 2, 3, 4})(q)) return reason;
  if (!q.has_input(4)) return std::nullopt;
  const auto entry = [&](std::size_t input, std::int64_t i) {
    const Tensor& list = *q.graph.constant(q.node.input(input));
    return list.dtype() == DType::kInt32 ? list.data<std::int32_t>()[i]
                                         : list.data<std::int64_t>()[i];
  };
  const Dims dims = *q.input(0).static_dims();
  const auto rank = static_cast<std::int64_t>(dims.size());
  for (std::int64_t i = 0; i < q.graph.constant(q.node.input(4))->count(); ++i) {
    const std::int64_t axis = q.has_input(3) ? (entry(3, i) + rank) % rank : i;
    if (entry(4, i) < 0 && entry(1, i) < -dims[static_cast<std::size_t>(axis)]) {
      return "it goes back from before the first element";
    }
  }
  return std::nullopt;
}

Reason reduction(const Question& q) {
  if (auto reason = constants({1})(q)) return reason;
  if (q.input(0).dtype == DType::kBool) return "it is written for numbers";
  if (need_int(q.node, "noop_with_empty_axes") != 0 && !q.has_input(1)) return "no axes";
  return std::nullopt;
}

// --- the table
// ------------------------------------------------------------------------------------

std::map<std::string, Condition, std::less<>> make_rules() {
  std::map<std::string, Condition, std::less<>> rules;
  // Numbers, whatever kind.
  for (const char* op :
       {"Neg",        "Abs",         "Sum",        "Equal",        "Greater", "GreaterOrEqual",
        "Less",       "LessOrEqual", "And",        "Or",           "Xor",     "Not",
        "BitwiseAnd", "BitwiseOr",   "BitwiseXor", "BitwiseNot",   "Where",   "Identity",
        "Concat",     "Flatten",     "Transpose",  "DepthToSpace", "Trilu",   "ArgMax",
        "ArgMin",     "Clip"}) {
    rules[op] = always;
  }
  for (const char* op : {"Acos",       "Acosh",
                         "Asin",       "Asinh",
                         "Atan",       "Atanh",
                         "Ceil",       "Cos",
                         "Cosh",       "Elu",
                         "Erf",        "Exp",
                         "Floor",      "Gelu",
                         "Gemm",       "HardSigmoid",
                         "HardSwish",  "Hardmax",
                         "LeakyRelu",  "Log",
                         "LogSoftmax", "MatMul",
                         "Mean",       "PRelu",
                         "Reciprocal", "Relu",
                         "Round",      "Selu",
                         "Shrink",     "Sigmoid",
                         "Sin",        "Sinh",
                         "Softmax",    "Softsign",
                         "Sqrt",       "Tan",
                         "Tanh",       "ThresholdedRelu"}) {
    rules[op] = wide_floats;
  }
  for (const char* op :
       {"AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "GridSample",
        "GroupNormalization", "InstanceNormalization", "LpPool", "MeanVarianceNormalization"}) {
    rules[op] = float32_data;
  }
  for (const char* op : {"ReduceMean", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2",
                         "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"}) {
    rules[op] = both(reduction, wide_floats_of_data);
  }
  for (const char* op : {"Add", "Sub", "Mul"}) rules[op] = small_constants;
  for (const char* op : {"Max", "Min"}) rules[op] = no_floats;
  for (const char* op : {"ReduceMax", "ReduceMin"}) rules[op] = both(reduction, no_floats);
  rules["BatchNormalization"] = both(inference_norm, wide_floats);
  rules["BitShift"] = shift_of_unsigned;
  rules["Cast"] = always;
  rules["ConvTranspose"] = both(without("output_shape"), float32_data);
  rules["CumSum"] = both(constants({1}), wide_floats_of_data);
  rules["DequantizeLinear"] = quantise;
  rules["Div"] = division;
  rules["Dropout"] = inference_dropout;
  rules["DynamicQuantizeLinear"] = always;
  rules["Expand"] = expand;
  rules["Gather"] = always;
  rules["GatherElements"] = always;
  rules["GatherND"] = always;
  rules["LRN"] = both(odd_window, float32_data);
  rules["LayerNormalization"] = both(one_output, float32_data);
  rules["MatMulInteger"] = always;
  rules["MaxPool"] = both(one_output, float32_data);
  rules["Mod"] = both(modulo, division);
  rules["Pad"] = pad;
  rules["Pow"] = same_types;
  rules["QuantizeLinear"] = quantise;
  rules["RMSNormalization"] = rms_norm;
  rules["Reshape"] = lists({1});
  rules["Resize"] = plain_resize;
  rules["ScatterElements"] = always;
  rules["ScatterND"] = always;
  rules["Sign"] = signed_numbers;
  rules["Slice"] = slice;
  rules["SpaceToDepth"] = without("mode");
  rules["Split"] = constants({1});
  rules["Squeeze"] = lists({1});
  rules["Tile"] = constants({1});
  rules["TopK"] = both(constants({1}), float32_data);
  rules["Unsqueeze"] = lists({1});
  return rules;
}

const std::map<std::string, Condition, std::less<>>& rules() {
  static const auto table = make_rules();
  return table;
}

// Nothing if TVM's code can hold such a value.
Reason refuse_type(const Value& value) {
  if (!value.type.is_tensor()) {
    return fmt::format("'{}' is {}, not a tensor", value.name, to_string(value.type));
  }
  if (!value.type.is_static()) {
    return fmt::format("'{}' has no static shape: {}", value.name, to_string(value.type));
  }
  const Dims dims = *value.type.static_dims();
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) {
    return fmt::format("'{}' is empty: {}", value.name, to_string(value.type));
  }
  switch (value.type.dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
    case DType::kBool:
      return std::nullopt;
    default:
      return fmt::format("'{}' is of type {}", value.name, to_string(value.type));
  }
}

}  // namespace

Support can_compile(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const auto rule = node.domain.empty() ? rules().find(node.op) : rules().end();
  const bool is_users = rule == rules().end() && has_user_code(graph, node);
  if (rule == rules().end() && !is_users) {
    return Support::no("no rule for " + node.qualified_op());
  }
  for (const ValueId value : node.inputs) {
    if (!value.valid()) continue;
    if (auto reason = refuse_type(graph.value(value))) return Support::no("input " + *reason);
  }
  for (const ValueId value : node.outputs) {
    if (!value.valid()) {
      if (is_users) return Support::no("its code for TVM makes an output that the node leaves out");
      continue;
    }
    if (auto reason = refuse_type(graph.value(value))) return Support::no("output " + *reason);
  }
  if (is_users) return Support::yes();
  if (auto reason = rule->second({graph, node})) {
    return Support::no(node.op + ": " + *reason);
  }
  return Support::yes();
}

std::vector<std::string> supported_ops() {
  std::vector<std::string> names;
  for (const auto& [op, condition] : rules()) names.push_back(op);
  return names;
}

}  // namespace xrt::tvm_engine
