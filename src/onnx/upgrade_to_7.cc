// SPDX-License-Identifier: Apache-2.0
// Opsets 1 to 6 to opset 7, by ONNX's changelog. Ops that are not listed only gained types and
// optional attributes, or lost `consumed_inputs`, a hint that says nothing about the result.
#include <onnx/onnx_pb.h>

#include <array>
#include <cmath>
#include <optional>

#include "onnx/upgrade_draft.h"

namespace xrt::upgrade {
namespace {

// More axes than any tensor of an old model has.
constexpr std::size_t kManyAxes = 64;

// Appends axes of length 1 to input 1, so that its first axis lies at `axis` of input 0 when both
// are aligned at their last axes, as they are since opset 7.
void align_at(Graph& graph, NodeDraft& draft, std::int64_t axis) {
  if (draft.inputs.size() < 2 || !draft.inputs[0].valid() || !draft.inputs[1].valid()) return;
  const ValueId a = draft.inputs[0];
  const ValueId b = draft.inputs[1];
  if (graph.type(a).has_rank() && graph.type(b).has_rank()) {
    const auto first = static_cast<std::int64_t>(graph.type(b).rank());
    const auto last = static_cast<std::int64_t>(graph.type(a).rank()) - axis;
    Ints axes;
    for (std::int64_t i = first; i < last; ++i) axes.push_back(i);
    if (axes.empty()) return;
    draft.inputs[1] = graph.add_op("Unsqueeze", {b, constant(graph, draft, "aligned_axes", axes)},
                                   {}, name_for(draft, "aligned"));
    return;
  }
  // Ranks become known by inference, or in the run: shape(b) and as many ones as are missing, which
  // are the entries axis + rank(b) … rank(a) of a list of ones.
  const auto add = [&](std::string_view op, const std::vector<ValueId>& inputs, Attributes given,
                       std::string_view part) {
    return graph.add_op(op, inputs, std::move(given), name_for(draft, part));
  };
  const ValueId shape_a = add("Shape", {a}, {}, "shape_a");
  const ValueId rank_a = add("Shape", {shape_a}, {}, "rank_a");
  const ValueId shape_b = add("Shape", {b}, {}, "shape_b");
  const ValueId rank_b = add("Shape", {shape_b}, {}, "rank_b");
  const ValueId end_b = add("Add", {rank_b, constant(graph, draft, "axis", {axis})}, {}, "end_b");
  const ValueId ones = constant(graph, draft, "ones", Ints(kManyAxes, 1));
  const ValueId tail =
      add("Slice", {ones, end_b, rank_a, constant(graph, draft, "first", {0})}, {}, "tail");
  const ValueId shape =
      add("Concat", {shape_b, tail}, {{"axis", std::int64_t{0}}}, "aligned_shape");
  draft.inputs[1] = add("Reshape", {b, shape}, {}, "aligned");
}

// Arithmetic, comparisons and logic. Without `broadcast` both shapes are equal; with it the second
// one is part of the first, at `axis` or at its end.
void broadcast_7(Graph& graph, NodeDraft& draft) {
  const bool broadcasts = take<std::int64_t>(draft, "broadcast", 0) != 0;
  const bool has_axis = draft.attributes.contains("axis");
  const auto axis = take<std::int64_t>(draft, "axis", 0);
  if (!broadcasts || !has_axis) return;
  if (axis < 0) {
    unsupported(fmt::format(
        "broadcasting at axis {}: before opset 7 only axes from 0 on are defined", axis));
  }
  align_at(graph, draft, axis);
}

// One slope for all channels, or one for each.
void prelu_7(Graph& graph, NodeDraft& draft) { align_at(graph, draft, 1); }

// The default is training. That a node leaves it out and has one output, as in inference, is read
// in both ways by different tools.
void require_inference(NodeDraft& draft) {
  if (take<std::int64_t>(draft, "is_test", 0) == 0) {
    unsupported(
        fmt::format("{} in training mode (is_test = 0, which is its default) cannot be "
                    "brought to a newer opset: export the model for inference",
                    draft.op));
  }
}

void batch_normalization_7(Graph&, NodeDraft& draft) { require_inference(draft); }

void dropout_7(Graph&, NodeDraft& draft) {
  require_inference(draft);
  draft.outputs.resize(1);  // in inference the mask is not filled
}

void gemm_7(Graph&, NodeDraft& draft) { take<std::int64_t>(draft, "broadcast"); }

// The hidden state over time is an output where it is named as one.
void recurrent_7(Graph&, NodeDraft& draft) { take<std::int64_t>(draft, "output_sequence"); }

void upsample_7(Graph&, NodeDraft& draft) {
  const auto height = take<float>(draft, "height_scale", 1.0F);
  const auto width = take<float>(draft, "width_scale", 1.0F);
  draft.attributes["scales"] = std::vector<float>{1.0F, 1.0F, height, width};
  const auto mode = take<std::string>(draft, "mode", "nearest");
  draft.attributes["mode"] = mode == "bilinear" ? std::string("linear") : mode;
}

// The element type was given by its name.
void cast_6(Graph&, NodeDraft& draft) {
  const auto name = take<std::string>(draft, "to");
  onnx::TensorProto::DataType type{};
  if (!onnx::TensorProto::DataType_Parse(name, &type)) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("no element type is named '{}'", name));
  }
  draft.attributes["to"] = static_cast<std::int64_t>(type);
}

// The constants of opset 1 have fewer digits.
void selu_6(Graph&, NodeDraft& draft) {
  draft.attributes.try_emplace("alpha", 1.6732F);
  draft.attributes.try_emplace("gamma", 1.0507F);
}

// Whole numbers in a constant of type float32, int32 or int64; nothing for anything else.
std::optional<Ints> whole_numbers(const Graph& graph, ValueId value) {
  const Tensor* tensor = value.valid() ? graph.constant(value) : nullptr;
  if (tensor == nullptr) return std::nullopt;
  if (tensor->dtype() == DType::kInt64 || tensor->dtype() == DType::kInt32) {
    return tensor->to_int64();
  }
  if (tensor->dtype() != DType::kFloat32) return std::nullopt;
  Ints numbers;
  constexpr float kExact = 16777216.0F;  // 2^24: floats count one by one up to here
  for (std::int64_t i = 0; i < tensor->count(); ++i) {
    const float number = tensor->data<float>()[i];
    if (!(std::fabs(number) <= kExact) || std::floor(number) != number) return std::nullopt;
    numbers.push_back(static_cast<std::int64_t>(number));
  }
  return numbers;
}

// A number of any type as an int64 list.
ValueId as_list(Graph& graph, const NodeDraft& draft, ValueId number, const std::string& part) {
  const ValueId whole =
      graph.add_op("Cast", {number}, {{"to", static_cast<std::int64_t>(onnx::TensorProto::INT64)}},
                   name_for(draft, part + "_whole"));
  return graph.add_op("Reshape", {whole, constant(graph, draft, part + "_shape", {1})}, {},
                      name_for(draft, part));
}

// Ones for all axes but the one that is computed.
void tile_by_computed(Graph& graph, NodeDraft& draft) {
  const ValueId shape = graph.add_op("Shape", {draft.inputs[0]}, {}, name_for(draft, "shape"));
  const ValueId rank = graph.add_op("Shape", {shape}, {}, name_for(draft, "rank"));
  const ValueId ones = graph.add_op(
      "ConstantOfShape", {rank}, {{"value", Tensor::from_int64({{1}})}}, name_for(draft, "ones"));
  const ValueId copies = as_list(graph, draft, draft.inputs[1], "copies");
  const ValueId axis = as_list(graph, draft, draft.inputs[2], "axis");
  draft.inputs = {draft.inputs[0], graph.add_op("ScatterElements", {ones, axis, copies}, {},
                                                name_for(draft, "repeats"))};
}

// One axis was repeated.
void tile_6(Graph& graph, NodeDraft& draft) {
  const auto computed = [&](std::size_t i) {
    return draft.inputs[i].valid() && graph.constant(draft.inputs[i]) == nullptr;
  };
  if (draft.inputs.size() == 3 && (computed(1) || computed(2))) {
    tile_by_computed(graph, draft);
    return;
  }
  std::optional<Ints> copies;
  std::optional<Ints> axis;
  if (draft.inputs.size() == 3) {
    copies = whole_numbers(graph, draft.inputs[1]);
    axis = whole_numbers(graph, draft.inputs[2]);
  }
  if (!copies || copies->size() != 1 || !axis || axis->size() != 1 || axis->front() < 0 ||
      axis->front() >= static_cast<std::int64_t>(kManyAxes)) {
    unsupported(
        "Tile of opset 1 whose number of copies or axis is no whole number, or a negative axis");
  }
  Ints repeats(kManyAxes, 1);
  repeats[static_cast<std::size_t>(axis->front())] = copies->front();
  const ValueId shape = graph.add_op("Shape", {draft.inputs[0]}, {}, name_for(draft, "shape"));
  const ValueId rank = graph.add_op("Shape", {shape}, {}, name_for(draft, "rank"));
  const ValueId first = constant(graph, draft, "first", {0});
  draft.inputs = {
      draft.inputs[0],
      graph.add_op("Slice", {constant(graph, draft, "all_repeats", repeats), first, rank, first},
                   {}, name_for(draft, "repeats"))};
}

void reshape_5(Graph& graph, NodeDraft& draft) {
  if (!draft.attributes.contains("shape")) unsupported("Reshape of opset 1 without a shape");
  attribute_to_input(graph, draft, "shape", 1);
}

void concat_4(Graph&, NodeDraft& draft) { draft.attributes.try_emplace("axis", std::int64_t{1}); }

// Beginnings of all axes, then ends, as the attribute's description says; the op's example, which
// has them in another order, was corrected in opset 2.
void pad_2(Graph&, NodeDraft& draft) { draft.attributes["pads"] = take<Ints>(draft, "paddings"); }

void lp_pool_2(Graph&, NodeDraft& draft) {
  const auto p = take<float>(draft, "p", 2.0F);
  if (!(p >= 1.0F) || std::floor(p) != p || p > 1.0e6F) {
    unsupported(fmt::format("a norm with p = {}: since opset 2 p is a whole number", p));
  }
  if (draft.op == "LpPool" && !draft.attributes.contains("kernel_shape")) {
    unsupported("LpPool of opset 1 without a kernel_shape");
  }
  draft.attributes["p"] = static_cast<std::int64_t>(p);
}

void split_2(Graph& graph, NodeDraft& draft) {
  if (!draft.attributes.contains("axis")) {
    unsupported("Split of opset 1 without an axis, for which it names no default");
  }
  // Its optional second input is the one that the op has again since opset 13, but for its type.
  if (draft.inputs.size() < 2 || !draft.inputs[1].valid()) return;
  if (const auto lengths = whole_numbers(graph, draft.inputs[1])) {
    draft.inputs[1] = constant(graph, draft, "lengths", *lengths);
    return;
  }
  draft.inputs[1] = graph.add_op("Cast", {draft.inputs[1]},
                                 {{"to", static_cast<std::int64_t>(onnx::TensorProto::INT64)}},
                                 name_for(draft, "lengths"));
}

constexpr auto kChanges = std::to_array<Change>({
    {"GlobalLpPool", 2, lp_pool_2},
    {"LpPool", 2, lp_pool_2},
    {"Pad", 2, pad_2},
    {"Split", 2, split_2},
    {"Concat", 4, concat_4},
    {"Reshape", 5, reshape_5},
    {"Cast", 6, cast_6},
    {"Selu", 6, selu_6},
    {"Tile", 6, tile_6},
    {"Add", 7, broadcast_7},
    {"And", 7, broadcast_7},
    {"BatchNormalization", 7, batch_normalization_7},
    {"Div", 7, broadcast_7},
    {"Dropout", 7, dropout_7},
    {"Equal", 7, broadcast_7},
    {"GRU", 7, recurrent_7},
    {"Gemm", 7, gemm_7},
    {"Greater", 7, broadcast_7},
    {"LSTM", 7, recurrent_7},
    {"Less", 7, broadcast_7},
    {"Mul", 7, broadcast_7},
    {"Or", 7, broadcast_7},
    {"PRelu", 7, prelu_7},
    {"Pow", 7, broadcast_7},
    {"RNN", 7, recurrent_7},
    {"Sub", 7, broadcast_7},
    {"Upsample", 7, upsample_7},
    {"Xor", 7, broadcast_7},
});

}  // namespace

std::span<const Change> changes_to_7() { return kChanges; }

}  // namespace xrt::upgrade
