// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/rules.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "engines/openvino/attention.h"
#include "engines/openvino/extensions.h"
#include "engines/openvino/integers.h"
#include "engines/openvino/quantized.h"
#include "engines/openvino/windows.h"
#include "ir/attributes.h"
#include "ir/pattern.h"
#include "ops/gate_functions.h"
#include "ops/op_facts.h"
#include "ops/sizes/deciding_operands.h"
#include "ops/sizes/empties.h"
#include "ops/sizes/size_rules.h"
#include "ops/sizes/wide_window.h"

namespace xrt::openvino {
namespace {

// oneDNN describes 12, kernels of the plugin's own fewer, and none of them counts.
constexpr std::size_t kMostAxes = 8;
// The time in which a node is compiled grows with the square of its operands, and with the cube
// where n of them become n - 1 nodes: of these, a second.
constexpr std::size_t kMostOperands = 1024, kMostElementwiseOperands = 128;

// Why values of this dtype cannot pass through OpenVINO's CPU plugin unchanged.
std::optional<std::string> dtype_refusal(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "the CPU plugin turns float64 into float32 and its infinities into numbers";
    case DType::kString:
      return "strings are not tensors of the CPU plugin";
    case DType::kComplex64:
    case DType::kComplex128:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ:
    case DType::kInt2:
      return "OpenVINO has no type " + std::string(to_string(dtype));
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E8M0:
    case DType::kFloat4E2M1:
    case DType::kUInt4:
    case DType::kInt4:
    case DType::kUInt2:
      return std::string(to_string(dtype)) + " is a storage type of weights to the CPU plugin";
    default:
      return std::nullopt;
  }
}

template <typename Allowed>
std::optional<std::string> value_refusal(const Graph& graph, ValueId id, const Allowed& allowed) {
  const Value& value = graph.value(id);
  if (!value.type.is_tensor()) {
    return "'" + value.name + "' is not a tensor but " + to_string(value.type);
  }
  if (value.type.dtype == DType::kUndefined) return "the dtype of '" + value.name + "' is unknown";
  if (!value.type.shape) {
    return "the CPU plugin needs to know the rank of '" + value.name + "'";
  }
  if (value.type.rank() > kMostAxes) {
    return "'" + value.name + "' has " + std::to_string(value.type.rank()) +
           " axes, more than the CPU plugin's kernels have room for";
  }
  if (allowed(value.type.dtype)) return std::nullopt;
  if (auto reason = dtype_refusal(value.type.dtype)) return "'" + value.name + "': " + *reason;
  return std::nullopt;
}

// Integers become int32 inside the CPU plugin, for some ops float32: constants that do not fit
// would be changed.
std::optional<std::string> range_refusal(const Graph& graph, ValueId id, std::int64_t bound) {
  const Tensor* tensor = graph.constant(id);
  if (tensor == nullptr || !is_integer(tensor->dtype()) || bit_width(tensor->dtype()) < 32) {
    return std::nullopt;
  }
  if (const auto value = beyond(*tensor, bound)) {
    return "constant '" + graph.value(id).name + "' has the value " + *value +
           ", more than the CPU plugin computes exactly";
  }
  return std::nullopt;
}

// Wrong values of what decides shapes or addresses crash the plugin, even when it is only asked.
std::optional<std::string> constants_refusal(const Graph& graph, const Node& node) {
  for (const DecidingOperand& operand : deciding_operands(node)) {
    const ValueId id = node.input(operand.operand);
    const Tensor* tensor = id.valid() ? graph.constant(id) : nullptr;
    if (tensor == nullptr) continue;
    const auto sizes = deciding_sizes(graph, node, operand);
    if (!sizes) continue;
    if (auto wrong = refusal(*tensor, operand.decides, *sizes)) {
      return "input " + std::to_string(operand.operand) + ": " + *wrong;
    }
  }
  return std::nullopt;
}

bool is_cast(const Node& node) { return node.op == "Cast" || node.op == "CastLike"; }

bool is_quantization(const Node& node) {
  return node.op == "QuantizeLinear" || node.op == "DequantizeLinear";
}

// Types that OpenVINO can convert to and from, and nothing else.
bool is_storage(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E8M0:
    case DType::kFloat4E2M1:
    case DType::kUInt4:
    case DType::kInt4:
    case DType::kUInt2:
      return true;
    default:
      return false;
  }
}

// --- deviations of single ops, each found by the conformance tests ------------------------------

std::optional<std::string> bit_shift(const Graph& graph, const Node& node) {
  if (graph.type(node.inputs[0]).dtype == DType::kUInt8) return std::nullopt;
  return "OpenVINO shifts integers with a sign, or in floats";
}

// Seen on processors without instructions for bfloat16.
std::optional<std::string> extreme(const Graph& graph, const Node& node) {
  if (graph.type(node.input(0)).dtype != DType::kBFloat16) return std::nullopt;
  return "the CPU plugin may make a finite number of an extreme of bfloat16 that is infinite";
}

std::optional<std::string> mod(const Graph& graph, const Node& node) {
  if (!is_floating(graph.type(node.inputs[0]).dtype)) return std::nullopt;
  return "OpenVINO's rest of floats loses digits where the quotient is large, and is NaN of "
         "infinity";
}

std::optional<std::string> dft(const Graph&, const Node&) {
  return "its ONNX frontend ignores the axis of a DFT, and its FFT is not as exact as float32";
}

std::optional<std::string> col2im(const Graph& graph, const Node& node) {
  // What is constant or given is judged before the launch (ops/sizes/size_rules.h).
  const bool is_seen = graph.value(node.inputs[1]).origin != Origin::kNode &&
                       graph.value(node.inputs[2]).origin != Origin::kNode;
  if (is_seen) return std::nullopt;
  return "the CPU plugin does not see blocks that do not fit, and writes outside of its memory";
}

std::optional<std::string> compress(const Graph& graph, const Node& node) {
  if (const Tensor* chosen = graph.constant(node.inputs[1])) {
    const std::vector<std::int64_t> values = chosen->to_int64();
    if (std::find(values.begin(), values.end(), 1) == values.end()) {
      return "the CPU plugin divides by how many a constant condition chooses";
    }
  }
  const auto dims = graph.type(node.inputs[1]).static_dims();
  if (dims && dims->size() == 1 && dims->front() > 0) return std::nullopt;
  return "its condition may have no elements, by whose number the CPU plugin divides";
}

// What reads the result of a branch where it lies, or its bytes, takes the place and the layout
// from another run.
std::optional<std::string> branch(const Graph& graph, const Node& node) {
  for (const ValueId v : node.outputs) {
    if (!v.valid() || !graph.type(v).is_tensor() || graph.type(v).is_static()) continue;
    return "the CPU plugin reads what a branch gives by the sizes of another run";
  }
  return std::nullopt;
}

// Its results are constants, and so are conditions of branches that are computed of them.
std::optional<std::string> loop(const Graph& graph, const Node& node) {
  const auto body = node.attr_graph("body");
  if (body == nullptr) return std::nullopt;  // asked of the op, not of a node
  const auto& captures = body->captures();
  const auto is_data = [&](ValueId v) { return is_computed(graph, v); };
  if (std::any_of(node.inputs.begin(), node.inputs.end(), is_data) ||
      std::any_of(captures.begin(), captures.end(),
                  [&](const Capture& c) { return is_data(c.outer); })) {
    return std::nullopt;
  }
  return "the CPU plugin may not compile a loop that reads constants alone";
}

std::optional<std::string> scan(const Graph&, const Node&) {
  return "the CPU plugin changes a state in place while results, other states and bodies in the "
         "body still read it, and counts the turns by a scanned value that the body may not read";
}

// What it picks from constants the plugin computes once, into memory that the product with weights
// then takes for its result.
std::optional<std::string> loss_refusal(const Graph& graph, const Node& node) {
  if (node.op != "NegativeLogLikelihoodLoss" && node.op != "SoftmaxCrossEntropyLoss") return {};
  if (is_computed(graph, node.input(0)) || is_computed(graph, node.input(1)) ||
      !node.input(2).valid()) {
    return std::nullopt;
  }
  return "the CPU plugin multiplies constants in place by the weights of every run";
}

std::optional<std::string> einsum(const Graph&, const Node& node) {
  std::string equation = node.attr_string("equation", "");
  std::erase(equation, ' ');
  if (node.inputs.size() > 2) {
    return "the CPU plugin multiplies operands in turn, and two of them may be all of the memory";
  }
  const std::size_t arrow = equation.find("->");
  const bool turns =
      arrow != std::string::npos && equation.substr(0, arrow) != equation.substr(arrow + 2);
  if (node.inputs.size() != 1 || turns) return std::nullopt;
  return "the CPU plugin does not write an Einsum that changes nothing to memory of the caller";
}

std::optional<std::string> recurrence(const Graph& graph, const Node& node) {
  const Type& x = graph.type(node.input(0));
  if (node.input(4).valid() &&
      (!x.has_rank() || x.rank() != 3 || !(*x.shape)[0].is_known() || !(*x.shape)[1].is_known())) {
    return "the CPU plugin ignores the lengths of sequences where batch or steps are open";
  }
  if (need_string(node, "direction") == "bidirectional" && node.has("activations")) {
    const std::vector<GateFunction> functions = gate_functions(node);
    const auto half = functions.begin() + static_cast<std::ptrdiff_t>(functions.size() / 2);
    if (!std::equal(functions.begin(), half, half, functions.end())) {
      return "the CPU plugin has the functions of the first direction for both";
    }
  }
  if (need_int(node, "layout") == 0) return std::nullopt;
  return "its ONNX frontend takes the batch for the steps where the batch comes first";
}

std::optional<std::string> lstm(const Graph& graph, const Node& node) {
  if (node.input(7).valid()) return "its ONNX frontend ignores the peephole weights of an LSTM";
  if (need_int(node, "input_forget") != 0) return "its ONNX frontend ignores input_forget";
  return recurrence(graph, node);
}

// Reductions that change each element also where they reduce no axis.
std::optional<std::string> function_of_sum(const Graph& graph, const Node& node) {
  if (need_int(node, "noop_with_empty_axes") == 0) return std::nullopt;
  const Tensor* axes = node.input(1).valid() ? graph.constant(node.input(1)) : nullptr;
  if (axes != nullptr && axes->count() > 0) return std::nullopt;
  return "its ONNX frontend returns the operand where there are no axes";
}

std::optional<std::string> instance_norm(const Graph& graph, const Node& node) {
  const Type& type = graph.type(node.input(0));
  if (type.dtype == DType::kBFloat16 && graph.constant(node.input(0)) != nullptr) {
    return "the CPU plugin writes what it normalises over the constant";
  }
  if (type.has_rank() && type.rank() > 2) return std::nullopt;
  return "the CPU plugin returns what has no axes behind the channels as it is";
}

std::optional<std::string> trilu(const Graph& graph, const Node& node) {
  if (!node.input(1).valid()) return std::nullopt;
  constexpr std::int64_t kMost = 1 << 24;
  const Tensor* diagonal = graph.constant(node.input(1));
  if (diagonal != nullptr && diagonal->count() == 1) {
    const std::int64_t k = diagonal->to_int64().front();
    if (k >= -kMost && k <= kMost) return std::nullopt;
  }
  return "the CPU plugin counts diagonals in 32 bits, which a large number exceeds";
}

std::optional<std::string> cast(const Graph& graph, const Node& node) {
  const DType from = graph.type(node.inputs[0]).dtype, to = graph.type(node.outputs[0]).dtype;
  if (is_floating(from) && (to == DType::kFloat4E2M1 || to == DType::kFloat8E8M0)) {
    return "OpenVINO rounds to " + std::string(to_string(to)) + " otherwise than the standard";
  }
  if (from == DType::kFloat4E2M1 && is_computed(graph, node.inputs[0])) {
    return "the CPU plugin takes no " + std::string(to_string(from)) + " that others made";
  }
  if ((is_floating(from) || from == DType::kUInt2) && is_storage(from) && to == DType::kBool) {
    return "the CPU plugin does not convert " + std::string(to_string(from)) + " to bool";
  }
  if (is_floating(from) && is_integer(to) && bit_width(to) < 8) {
    return "OpenVINO rounds to " + std::string(to_string(to)) + " instead of cutting fractions";
  }
  if (is_integer(from) && is_integer(to) && bit_width(to) < bit_width(from)) {
    if (bit_width(to) < 8) return "the CPU plugin does not cut integers to less than 8 bits";
    if (bit_width(to) == 16) {
      return "the CPU plugin leaves out that integers are cut to 16 bits where others read them";
    }
  }
  return std::nullopt;
}

// A mirror that is larger than what it shows reads memory that is not the tensor's, and a result
// without elements is all there is to see of it.
std::optional<std::string> mirrored_pad(const Graph& graph, const Node& node) {
  const auto dims = graph.type(node.inputs[0]).static_dims();
  const Tensor* pads = node.input(1).valid() ? graph.constant(node.input(1)) : nullptr;
  if (!dims || pads == nullptr || is_computed(graph, node.input(3))) {
    return "the CPU plugin does not see a mirror that is larger than the tensor";
  }
  std::vector<std::int64_t> axes;
  if (node.input(3).valid()) {
    axes = graph.constant(node.input(3))->to_int64();
  } else {
    for (std::size_t a = 0; a < dims->size(); ++a) axes.push_back(static_cast<std::int64_t>(a));
  }
  const std::vector<std::int64_t> amounts = pads->to_int64();
  const auto rank = static_cast<std::int64_t>(dims->size());
  for (std::size_t i = 0; i < axes.size() && amounts.size() == 2 * axes.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) return std::nullopt;  // judged elsewhere
    const std::int64_t most = (*dims)[static_cast<std::size_t>(axis)] - 1;
    if (amounts[i] > most || amounts[i + axes.size()] > most) {
      return "the CPU plugin mirrors a tensor once, not again and again";
    }
  }
  return std::nullopt;
}

std::optional<std::string> pad(const Graph& graph, const Node& node) {
  if (need_string(node, "mode") == "reflect") {
    if (auto reason = mirrored_pad(graph, node)) return reason;
  }
  if (is_computed(graph, node.input(1)) || !is_computed(graph, node.input(2))) return std::nullopt;
  return "the CPU plugin pads with zeros where the value is computed and the sizes are constants";
}

std::optional<std::string> slice(const Graph& graph, const Node& node) {
  for (const std::size_t bound : {1U, 2U, 4U}) {
    if (is_computed(graph, node.input(bound))) return std::nullopt;
  }
  if (!is_computed(graph, node.input(3))) return std::nullopt;
  return "the CPU plugin reads outside of its memory where only the axes are computed";
}

std::optional<std::string> factors(const Graph&, const Node& node) {
  for (const char* name : {"alpha", "beta", "gamma"}) {
    if (node.attr_float(name, 1.0F) == 0) {
      return "the CPU plugin takes a factor of zero for one that is not given";
    }
  }
  return std::nullopt;
}

// Of exact sizes, which a node's signature (support.cc) has not.
std::optional<std::string> block_refusal(const Graph& graph, const Node& node) {
  if (node.op != "DequantizeLinear") return std::nullopt;
  const std::int64_t block = need_int(node, "block_size");
  if (block == 0) return std::nullopt;
  const auto dims = graph.type(node.input(0)).static_dims();
  const std::int64_t axis = need_int(node, "axis");
  if (dims && axis >= 0 && axis < static_cast<std::int64_t>(dims->size()) &&
      (*dims)[static_cast<std::size_t>(axis)] % block == 0) {
    return std::nullopt;
  }
  return "its ONNX frontend takes only blocks that divide their axis";
}

// Likewise: of parts that are as large as one another. Others have no elements there, and the next
// model that is run crashes.
std::optional<std::string> split_refusal(const Graph& graph, const Node& node) {
  if (node.op != "Split" || node.input(1).valid()) return std::nullopt;
  const Type& type = graph.type(node.inputs[0]);
  const std::int64_t axis = need_int(node, "axis");
  if (type.has_rank() && axis >= 0 && axis < static_cast<std::int64_t>(type.shape->size())) {
    const Dim& dim = (*type.shape)[static_cast<std::size_t>(axis)];
    const auto parts = static_cast<std::int64_t>(node.outputs.size());
    if (dim.is_known() && dim.value() % parts == 0) return std::nullopt;
  }
  return "the CPU plugin splits into equal parts alone";
}

// Whether Resize leaves the size of an axis as it is, as far as constants and types tell.
bool resize_keeps(const Graph& graph, const Node& node, std::size_t axis) {
  const std::vector<std::int64_t> axes = node.attr_ints("axes");  // none: all
  const auto found = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis));
  if (!axes.empty() && found == axes.end()) return true;
  const auto place = axes.empty() ? static_cast<std::int64_t>(axis) : found - axes.begin();
  const Tensor* scales = node.input(2).valid() ? graph.constant(node.input(2)) : nullptr;
  if (scales != nullptr && scales->dtype() == DType::kFloat32 && place < scales->count()) {
    return scales->data<float>()[place] == 1;
  }
  const Type& from = graph.type(node.inputs[0]);
  const Type& to = graph.type(node.outputs[0]);
  if (!from.has_rank() || !to.has_rank()) return false;
  if (axis >= from.shape->size() || axis >= to.shape->size()) return false;
  const Dim& dim = (*from.shape)[axis];
  return (dim.is_known() || dim.is_symbol()) && dim == (*to.shape)[axis];
}

// Likewise: batch and channels keep their sizes. Others are an error of the plugin in the middle of
// a run, whose request then reads memory that is not its own.
std::optional<std::string> resize_refusal(const Graph& graph, const Node& node) {
  if (node.op != "Resize") return std::nullopt;
  const Type& type = graph.type(node.inputs[0]);
  if (type.has_rank() && type.shape->size() < 4) return std::nullopt;  // all axes are spatial
  for (const std::size_t axis : {0, 1}) {
    if (!resize_keeps(graph, node, axis)) {
      return "the CPU plugin resizes spatial axes alone, and the size of axis " +
             std::to_string(axis) + " may change";
    }
  }
  return std::nullopt;
}

std::optional<std::string> dynamic_quantize_linear(const Graph&, const Node&) {
  return "the CPU plugin divides by multiplying with a rounded inverse, which shows half way "
         "between two levels";
}

std::optional<std::string> random(const Graph&, const Node&) {
  return "its random numbers are others than those of the native engine for the same seed";
}

std::optional<std::string> roi_align(const Graph& graph, const Node& node) {
  const Type& regions = graph.type(node.input(1));
  if (!regions.has_rank() || regions.rank() != 2 || !regions.shape->back().is_known()) {
    return "the CPU plugin does not compile regions unless they are known to have four numbers";
  }
  constexpr std::int64_t kMostSamples = 64;
  const std::int64_t samples = need_int(node, "sampling_ratio");
  if (samples < 1 || samples > kMostSamples) {
    return "the CPU plugin takes as many samples as a region is wide, and writes outside of its "
           "memory where that is negative";
  }
  if (need_string(node, "mode") != "max") return std::nullopt;
  return "OpenVINO's maximum is over the interpolated samples, the standard's over their terms";
}

// Its own operation wants indices as large as the data along all other axes.
std::optional<std::string> gather_elements(const Graph& graph, const Node& node) {
  const auto& data = graph.type(node.input(0)).shape;
  const auto& indices = graph.type(node.input(1)).shape;
  bool fits = data && indices && data->size() == indices->size();
  std::int64_t axis = need_int(node, "axis");
  if (fits && axis < 0) axis += static_cast<std::int64_t>(data->size());
  for (std::size_t a = 0; fits && a < data->size(); ++a) {
    fits = static_cast<std::int64_t>(a) == axis || is_same_size((*data)[a], (*indices)[a]);
  }
  if (fits) return std::nullopt;
  return "OpenVINO wants indices that are as large as the data along all other axes";
}

// A list of as many slopes as there are channels is for them, wherever the standard puts it.
std::optional<std::string> prelu(const Graph& graph, const Node& node) {
  const auto& x = graph.type(node.input(0)).shape;
  const auto& slope = graph.type(node.input(1)).shape;
  if (!x || !slope) return "OpenVINO takes slopes for those of channels where it can";
  if (slope->size() != 1 || x->size() < 3 || (*slope)[0] == Dim(1)) return std::nullopt;
  if ((*slope)[0].is_known() && (*x)[1].is_known() && (*slope)[0] != (*x)[1]) return std::nullopt;
  return "OpenVINO takes a list of slopes for those of channels";
}

std::optional<std::string> divide(const Graph& graph, const Node& node) {
  const Type& x = graph.type(node.input(0));
  if (is_integer(x.dtype) && !is_computed(graph, node.input(0)) &&
      !is_computed(graph, node.input(1))) {
    return "OpenVINO rounds quotients of constant integers down, not to zero";
  }
  const bool is_byte = x.dtype == DType::kInt8 || x.dtype == DType::kUInt8;
  if (!is_byte || (x.is_static() && graph.type(node.input(1)).is_static())) return std::nullopt;
  return "the CPU plugin rounds quotients of bytes where sizes are open";
}

std::optional<std::string> power(const Graph& graph, const Node& node) {
  if (!is_integer(graph.type(node.outputs[0]).dtype)) return std::nullopt;
  return "the CPU plugin computes powers of integers in float32";
}

// Where the sizes are inferred, the runtime sees that there are none (ops/sizes/empties.h).
std::optional<std::string> float_range(const Graph& graph, const Node& node) {
  const DType dtype = graph.type(node.input(0)).dtype;
  if (!is_floating(dtype) && bit_width(dtype) >= 32) return std::nullopt;
  const bool is_dequantized = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
    return producer(graph, v, "DequantizeLinear") != nullptr;
  });
  const bool begins_anywhere =
      is_computed(graph, node.input(0)) &&
      (producer(graph, node.input(0)) != nullptr || producer(graph, node.input(1)) != nullptr);
  if (bit_width(dtype) >= 32 && !is_dequantized && !begins_anywhere) return std::nullopt;
  return "OpenVINO counts the steps of a range that leads away from its end";
}

// Its frontend leaves out such a node, and what it gave stays in memory of an earlier run. What the
// passes leave of them joins an input of the program with an output.
std::optional<std::string> of_one(const Graph&, const Node& node) {
  if (node.op != "Dropout" && node.inputs.size() > 1) return std::nullopt;
  return "the CPU plugin does not write a result that is its operand to new memory";
}

std::optional<std::string> max_roi_pool(const Graph&, const Node&) {
  return "the CPU plugin reads outside of its memory where there is no such picture, and has no "
         "bound on large results";
}

std::optional<std::string> size(const Graph& graph, const Node& node) {
  const Tensor* constant = graph.constant(node.input(0));
  if (constant == nullptr || constant->count() > 0) return std::nullopt;
  return "the CPU plugin counts one element in a constant without any";
}

std::optional<std::string> space_to_depth(const Graph&, const Node& node) {
  if (need_string(node, "mode") == "DCR") return std::nullopt;
  return "its ONNX frontend ignores the mode of SpaceToDepth";
}

// Whether every size that the scales ask for is whole.
bool has_whole_sizes(const Graph& graph, const Node& node) {
  const Tensor* scales = node.input(2).valid() ? graph.constant(node.input(2)) : nullptr;
  const auto dims = graph.type(node.inputs[0]).static_dims();
  if (scales == nullptr || !dims || scales->dtype() != DType::kFloat32) return false;
  const std::vector<std::int64_t> axes = node.attr_ints("axes");
  for (std::int64_t i = 0; i < scales->count(); ++i) {
    const std::int64_t axis = axes.empty() ? i : axes[static_cast<std::size_t>(i)];
    const double size = double((*dims)[static_cast<std::size_t>(axis)]) * scales->data<float>()[i];
    if (size != std::floor(size)) return false;
  }
  return true;
}

// Whether an axis may keep its size by a scale that is not 1, while another one changes.
bool may_keep_a_size(const Graph& graph, const Node& node) {
  const Tensor* scales = graph.constant(node.inputs[2]);
  const auto& shape = graph.type(node.inputs[0]).shape;
  if (scales == nullptr || !shape || scales->dtype() != DType::kFloat32) return false;
  const std::vector<std::int64_t> axes = node.attr_ints("axes");
  bool some_kept = false, all_kept = true;
  for (std::int64_t i = 0; i < scales->count(); ++i) {
    const std::int64_t axis = axes.empty() ? i : axes[static_cast<std::size_t>(i)];
    const double scale = static_cast<double>(scales->data<float>()[i]);
    const Dim& dim = shape->at(static_cast<std::size_t>(
        axis < 0 ? axis + static_cast<std::int64_t>(shape->size()) : axis));
    // An axis of one element has one again by a scale below 2, and it is the same.
    const bool may = scale > 1 && scale < 1.5;
    const auto size = static_cast<double>(dim.is_known() ? dim.value() : 1);
    const bool kept = scale == 1 || (may && std::floor(size * scale) == size);
    some_kept = some_kept || (kept && scale != 1);
    all_kept = all_kept && kept && dim.is_known();
  }
  return some_kept && !all_kept;
}

std::optional<std::string> resize(const Graph& graph, const Node& node) {
  if (need_int(node, "exclude_outside") != 0 && need_string(node, "mode") == "cubic") {
    return "its ONNX frontend ignores exclude_outside";
  }
  if (need_int(node, "antialias") != 0) return "its ONNX frontend ignores antialias";
  if (need_string(node, "keep_aspect_ratio_policy") != "stretch") {
    return "its ONNX frontend ignores keep_aspect_ratio_policy";
  }
  const bool by_scales = node.input(2).valid() && !node.input(3).valid();
  const bool aligns = need_string(node, "coordinate_transformation_mode") == "align_corners";
  if (aligns && need_string(node, "mode") == "nearest") {
    return "the CPU plugin rounds positions before it chooses the nearest of aligned corners";
  }
  if (by_scales && aligns && !has_whole_sizes(graph, node)) {
    return "OpenVINO rounds the sizes that scales ask for before it aligns corners";
  }
  if (by_scales && may_keep_a_size(graph, node)) {
    return "OpenVINO copies along an axis whose size a scale leaves as it is";
  }
  return std::nullopt;
}

// Equal elements keep their order only where the CPU plugin compares each element with all that are
// chosen: 5 ns each, which is seconds for a thousand of a million.
std::optional<std::string> top_k(const Graph& graph, const Node& node) {
  constexpr double kMostComparisons = 1 << 18;
  constexpr double kMostOfAnySize = 16;
  const Tensor* k = graph.constant(node.input(1));
  std::optional<double> chosen;
  if (k != nullptr && k->count() == 1) chosen = static_cast<double>(k->data<std::int64_t>()[0]);
  if (const auto dims = graph.type(node.input(0)).static_dims()) {
    double elements = 1;
    for (const std::int64_t dim : *dims) elements *= static_cast<double>(dim);
    if (elements * chosen.value_or(elements) <= kMostComparisons) return std::nullopt;
  } else if (chosen && *chosen <= kMostOfAnySize) {
    return std::nullopt;
  }
  return "the CPU plugin compares each element with each of those chosen, which may be many";
}

// Of fewer rows than a vector has lanes it makes as many as that has.
std::optional<std::string> arg_extreme(const Graph& graph, const Node& node) {
  constexpr std::int64_t kMostOfFewRows = 1 << 16;
  constexpr std::int64_t kFewRows = 16;
  const Type& type = graph.type(node.input(0));
  if (!type.has_rank() || type.rank() == 0) return std::nullopt;
  const std::int64_t given = node.attr_int("axis", 0);
  const auto axis =
      static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(type.rank()) : given);
  const Dim& searched = (*type.shape)[axis];
  if (searched.is_known() && searched.value() <= kMostOfFewRows) return std::nullopt;
  std::int64_t rows = 1;
  for (std::size_t a = 0; a < type.rank() && rows < kFewRows; ++a) {
    const Dim& dim = (*type.shape)[a];
    if (a != axis && dim.is_known()) rows *= dim.value();
  }
  if (rows >= kFewRows) return std::nullopt;
  return "the CPU plugin takes sixteen times the memory of a long axis of few rows";
}

std::optional<std::string> product(const Graph& graph, const Node& node) {
  const DType dtype = graph.type(node.input(0)).dtype;
  if (is_integer(dtype) && bit_width(dtype) >= 32) {
    return "the CPU plugin computes products of wide integers in float32, which cannot hold them";
  }
  const auto dims = graph.type(node.input(1)).static_dims();
  if (!dims) return std::nullopt;
  if (dims->size() == 1 && !is_computed(graph, node.input(1)) &&
      (!graph.type(node.input(0)).has_rank() || graph.type(node.input(0)).rank() > 2)) {
    return "the CPU plugin does not compile a product by a constant vector before a factor";
  }
  if (*dims != Dims{1, 1}) return std::nullopt;
  return "the CPU plugin does not compile a product by a matrix of one element behind another";
}

std::optional<std::string> unique(const Graph&, const Node&) {
  return "the CPU plugin loses elements of those in order of appearance, and NaN leads it outside "
         "of its memory";
}

std::optional<std::string> local_norm(const Graph&, const Node& node) {
  const float bias = node.attr_float("bias", 1.0F);
  if (bias < 0 || bias != std::floor(bias)) {
    return "its ONNX frontend takes the whole part of the bias";
  }
  if (is_long_norm(node)) return "the CPU plugin walks over whole windows of channels";
  if (node.attr_int("size", 1) % 2 == 1) return std::nullopt;
  return "the CPU plugin places a window of an even number of channels otherwise than the standard";
}

std::optional<std::string> shrink(const Graph& graph, const Node& node) {
  if (is_floating(graph.type(node.input(0)).dtype)) return std::nullopt;
  const bool has_bound = !std::isnan(need_float(node, "lambd"));
  if (has_bound && std::isfinite(need_float(node, "bias"))) return std::nullopt;
  return "OpenVINO multiplies what it leaves out by zero, and leaves nothing out where lambd is "
         "NaN";
}

std::optional<std::string> affine_grid(const Graph& graph, const Node& node) {
  if (node.attr_int("align_corners", 0) == 0 || graph.constant(node.input(1)) != nullptr) {
    return std::nullopt;
  }
  return "OpenVINO counts two places along an axis of one";
}

struct Rule {
  std::string_view op;
  std::optional<std::string> (*refuse)(const Graph&, const Node&);
};

constexpr Rule kRules[] = {
    {"AffineGrid", affine_grid},
    {"ArgMax", arg_extreme},
    {"ArgMin", arg_extreme},
    {"Attention", attention_refusal},
    {"AveragePool", average_pool},
    {"Bernoulli", random},
    {"BitShift", bit_shift},
    {"Cast", cast},
    {"CastLike", cast},
    {"Col2Im", col2im},
    {"Compress", compress},
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"DFT", dft},
    {"DequantizeLinear", dequantize_linear},
    {"Div", divide},
    {"DynamicQuantizeLinear", dynamic_quantize_linear},
    {"Dropout", of_one},
    {"Einsum", einsum},
    {"GRU", recurrence},
    {"GatherElements", gather_elements},
    {"Gemm", product},
    {"HardSigmoid", factors},
    {"If", branch},
    {"InstanceNormalization", instance_norm},
    {"LSTM", lstm},
    {"LRN", local_norm},
    {"Loop", loop},
    {"LpPool", long_pool},
    {"MatMul", product},
    {"Max", of_one},
    {"MaxPool", max_pool},
    {"MaxRoiPool", max_roi_pool},
    {"Min", of_one},
    {"Mod", mod},
    {"Multinomial", random},
    {"PRelu", prelu},
    {"Pad", pad},
    {"Pow", power},
    {"QLinearConv", quantized_product},
    {"QLinearMatMul", quantized_product},
    {"QuantizeLinear", quantize_linear},
    {"RNN", recurrence},
    {"RandomNormal", random},
    {"RandomNormalLike", random},
    {"RandomUniform", random},
    {"RandomUniformLike", random},
    {"Range", float_range},
    {"ReduceL1", function_of_sum},
    {"ReduceL2", function_of_sum},
    {"ReduceLogSum", function_of_sum},
    {"ReduceLogSumExp", function_of_sum},
    {"ReduceSumSquare", function_of_sum},
    {"Resize", resize},
    {"ReduceMax", extreme},
    {"ReduceMin", extreme},
    {"RoiAlign", roi_align},
    {"Scan", scan},
    {"Selu", factors},
    {"Shrink", shrink},
    {"Size", size},
    {"Slice", slice},
    {"SpaceToDepth", space_to_depth},
    {"Sum", of_one},
    {"TopK", top_k},
    {"Trilu", trilu},
    {"Unique", unique},
};

// One of n operands becomes n - 1 of two.
bool is_list_of_operands(const Node& node) {
  return node.op == "Max" || node.op == "Mean" || node.op == "Min" || node.op == "Sum";
}

// Domains that no library of extensions speaks for.
bool is_ours(const std::string& domain) { return domain == "xrt" || domain.starts_with("ai.onnx"); }

}  // namespace

bool is_computed(const Graph& graph, ValueId id) {
  return id.valid() && graph.constant(id) == nullptr;
}

bool is_same_size(const Dim& a, const Dim& b) { return a == b && (a.is_known() || a.is_symbol()); }

std::optional<std::string> type_refusal(const Graph& graph, const Node& node) {
  if (!node.domain.empty() && (extension_libraries().empty() || is_ours(node.domain))) {
    return "OpenVINO has no ops of domain '" + node.domain + "'";
  }
  const std::size_t most = is_list_of_operands(node) ? kMostElementwiseOperands : kMostOperands;
  for (const std::size_t count : {node.inputs.size(), node.outputs.size()}) {
    if (count <= most) continue;
    return "the CPU plugin takes minutes to compile a node of " + std::to_string(count) +
           " operands or results";
  }
  const bool low_precision = is_cast(node) || is_quantization(node);
  const auto allowed = [&](DType dtype) { return low_precision && is_storage(dtype); };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (!id.valid()) continue;
    if (auto reason = value_refusal(graph, id, allowed)) return reason;
    if (is_cast(node) && graph.type(id).dtype == DType::kUInt2 && !is_computed(graph, id)) {
      return "the CPU plugin does not compile a cast of a constant of uint2";
    }
    // Bounds of a Slice mean "to the end" where they are larger than the dimension: clamping is
    // what they want.
    if (node.op == "Slice" && i > 0) continue;
    if (auto reason = range_refusal(graph, id, integer_bound(graph, node))) return reason;
  }
  for (const ValueId id : node.outputs) {
    if (!id.valid()) continue;
    if (auto reason = value_refusal(graph, id, allowed)) return reason;
  }
  if (auto wrong = empties_refusal(graph, node)) return wrong;
  if (auto wrong = sizes_refusal(graph, node)) return wrong;
  if (auto wrong = block_refusal(graph, node)) return wrong;
  if (auto wrong = split_refusal(graph, node)) return wrong;
  if (auto wrong = resize_refusal(graph, node)) return wrong;
  if (auto wrong = loss_refusal(graph, node)) return wrong;
  if (auto wrong = quantized_refusal(graph, node)) return wrong;
  if (auto wrong = window_refusal(graph, node)) return wrong;
  if (auto wrong = causal_mask_refusal(graph, node)) return wrong;
  return constants_refusal(graph, node);
}

std::optional<std::string> op_refusal(const Graph& graph, const Node& node) {
  if (auto reason = byte_refusal(graph, node)) return reason;
  const bool is_view = op_facts(node).moves == Moves::kView;
  if (is_view && node.input(0).valid() && graph.constant(node.inputs[0]) != nullptr &&
      std::any_of(node.inputs.begin() + 1, node.inputs.end(),
                  [&](ValueId v) { return is_computed(graph, v); })) {
    // Its result has no elements, and the next model that is run crashes.
    return "the CPU plugin loses the memory of a constant whose new shape is computed";
  }
  for (const Rule& rule : kRules) {
    if (rule.op != node.op) continue;
    if (auto reason = rule.refuse(graph, node)) return reason;
  }
  return std::nullopt;
}

std::vector<std::size_t> elementwise_groups(const Graph& graph) {
  const auto is_one = [&](NodeId id) { return is_elementwise(graph.node(id)); };
  const auto weight = [&](NodeId id) {
    const Node& node = graph.node(id);
    return is_list_of_operands(node) ? std::max<std::size_t>(node.inputs.size(), 2) - 1 : 1;
  };
  std::vector<std::size_t> sizes(graph.node_capacity(), 0);
  std::vector<bool> seen(graph.node_capacity(), false);
  const auto at = [](NodeId id) { return static_cast<std::size_t>(id.index); };
  for (const NodeId first : graph.nodes()) {
    if (seen[at(first)] || !is_one(first)) continue;
    std::vector<NodeId> group{first};
    seen[at(first)] = true;
    for (std::size_t next = 0; next < group.size(); ++next) {
      const auto visit = [&](NodeId id) {
        if (seen[at(id)] || !is_one(id)) return;
        seen[at(id)] = true;
        group.push_back(id);
      };
      const Node& node = graph.node(group[next]);
      for (const ValueId v : node.inputs) {
        if (v.valid() && graph.value(v).origin == Origin::kNode) visit(graph.value(v).producer);
      }
      for (const ValueId v : node.outputs) {
        if (!v.valid()) continue;
        for (const Use& use : graph.uses(v)) visit(use.node);
      }
    }
    std::size_t size = 0;
    for (const NodeId id : group) size += weight(id);
    for (const NodeId id : group) sizes[at(id)] = size;
  }
  return sizes;
}

}  // namespace xrt::openvino
