// SPDX-License-Identifier: Apache-2.0
#include "onnx/upgrade.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/upgrade_draft.h"

namespace xrt {
namespace {

using upgrade::attribute_to_input;
using upgrade::Change;
using upgrade::constant;
using upgrade::Ints;
using upgrade::name_for;
using upgrade::set_input;
using upgrade::take;
using upgrade::unsupported;

// On a Softmax, LogSoftmax or Hardmax whose meaning is still that of opset 12 or older.
constexpr const char* kFlattens = "xrt_flattens_at_axis";

// A scalar of the element type of `like`, which may only become known by inference.
ValueId scalar_like(Graph& graph, const NodeDraft& draft, std::string_view part, float value,
                    ValueId like) {
  const std::string name = name_for(draft, part);
  const ValueId scalar = graph.add_constant(name, Tensor::scalar(value));
  if (!like.valid() || graph.type(like).dtype == DType::kFloat32) return scalar;
  return graph.add_op("CastLike", {scalar, like}, {}, name + "_like");
}

void batch_normalization_9(Graph&, NodeDraft& draft) {
  if (take<std::int64_t>(draft, "spatial", 1) != 1) {
    unsupported("BatchNormalization with spatial = 0 cannot be said in newer opsets");
  }
}

void batch_normalization_14(Graph&, NodeDraft& draft) {
  for (std::size_t i = 1; i < draft.outputs.size(); ++i) {
    if (!draft.outputs[i].empty()) {
      unsupported(
          "BatchNormalization in training mode, with statistics as outputs, cannot be "
          "brought to a newer opset: export the model for inference");
    }
  }
  draft.outputs.resize(1);
}

// Scan of opset 8 has a batch axis in front of every input and output. It becomes a Scan over the
// batch whose body is the Scan over the sequence: for the outer one every input and output is a
// scanned one.
void scan_9(Graph& graph, NodeDraft& draft) {
  const auto body = take<std::shared_ptr<Graph>>(draft, "body");
  const auto scanned = take<std::int64_t>(draft, "num_scan_inputs");
  const auto directions = take<Ints>(draft, "directions");
  if (body == nullptr || draft.inputs.empty() || draft.inputs[0].valid()) {
    unsupported("Scan of opset 8 with sequence_lens cannot be said in newer opsets");
  }
  draft.inputs.erase(draft.inputs.begin());
  auto batch = std::make_shared<Graph>(body->name() + "_batch");
  batch->opsets() = graph.opsets();
  body->remap_captures(
      [&](ValueId v) { return batch->add_capture(v, graph.value(v).name, graph.type(v)); });
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < draft.inputs.size(); ++i) {
    inputs.push_back(batch->add_input(fmt::format("scan_input_{}", i), Type{}));
  }
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < draft.outputs.size(); ++i) {
    outputs.push_back(fmt::format("scan_output_{}", i));
  }
  Attributes attributes{{"body", body}, {"num_scan_inputs", scanned}};
  if (!directions.empty()) attributes["scan_input_directions"] = directions;
  const NodeId inner = batch->add_node("", "Scan", inputs, outputs, std::move(attributes));
  for (const ValueId v : batch->node(inner).outputs) batch->add_output(v);
  draft.attributes["body"] = batch;
  draft.attributes["num_scan_inputs"] = static_cast<std::int64_t>(draft.inputs.size());
}

void upsample_9(Graph& graph, NodeDraft& draft) {
  const auto scales = take<std::vector<float>>(draft, "scales");
  const auto count = static_cast<std::int64_t>(scales.size());
  set_input(draft, 1,
            graph.add_constant(
                name_for(draft, "scales"),
                Tensor::from<float>(DType::kFloat32, {count}, std::span<const float>(scales))));
}

void slice_10(Graph& graph, NodeDraft& draft) {
  attribute_to_input(graph, draft, "starts", 1);
  attribute_to_input(graph, draft, "ends", 2);
  attribute_to_input(graph, draft, "axes", 3);
}

void topk_10(Graph& graph, NodeDraft& draft) {
  set_input(draft, 1, constant(graph, draft, "k", {take<std::int64_t>(draft, "k")}));
}

void upsample_10(Graph&, NodeDraft& draft) { draft.op = "Resize"; }

// Before opset 11 coordinates were plainly divided by the scale; the nearest neighbour was the one
// below when enlarging and the one above when shrinking.
void resize_11(Graph& graph, NodeDraft& draft) {
  const ValueId scales = draft.inputs.size() > 1 ? draft.inputs[1] : ValueId{};
  set_input(draft, 2, scales);
  draft.inputs[1] = {};
  draft.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  bool enlarges = false;
  bool shrinks = false;
  if (const Tensor* known = graph.constant(scales); known && known->dtype() == DType::kFloat32) {
    for (std::int64_t i = 0; i < known->count(); ++i) {
      enlarges = enlarges || known->data<float>()[i] > 1.0F;
      shrinks = shrinks || known->data<float>()[i] < 1.0F;
    }
  }
  const auto mode = draft.attributes.find("mode");
  const auto* name =
      mode == draft.attributes.end() ? nullptr : std::get_if<std::string>(&mode->second);
  if (name != nullptr && *name != "nearest") return;
  if (enlarges && shrinks) {
    unsupported(
        "a nearest-neighbour Resize of opset 10 that enlarges one axis and shrinks another "
        "cannot be said in newer opsets");
  }
  draft.attributes["nearest_mode"] = std::string(shrinks ? "ceil" : "floor");
}

void resize_13(Graph&, NodeDraft& draft) {
  const auto it = draft.attributes.find("coordinate_transformation_mode");
  if (it == draft.attributes.end()) return;
  const auto* mode = std::get_if<std::string>(&it->second);
  if (mode != nullptr && *mode == "tf_half_pixel_for_nn") {
    unsupported("Resize with tf_half_pixel_for_nn cannot be said in newer opsets");
  }
}

void clip_11(Graph& graph, NodeDraft& draft) {
  const ValueId x = draft.inputs.empty() ? ValueId{} : draft.inputs[0];
  const bool has_min = draft.attributes.contains("min");
  const bool has_max = draft.attributes.contains("max");
  if (has_min) {
    const auto value = take<float>(draft, "min");
    set_input(draft, 1, scalar_like(graph, draft, "min", value, x));
  }
  if (has_max) {
    const auto value = take<float>(draft, "max");
    set_input(draft, 2, scalar_like(graph, draft, "max", value, x));
  }
}

void pad_11(Graph& graph, NodeDraft& draft) {
  const ValueId x = draft.inputs.empty() ? ValueId{} : draft.inputs[0];
  attribute_to_input(graph, draft, "pads", 1);
  const auto value = take<float>(draft, "value", 0.0F);
  if (value != 0.0F) set_input(draft, 2, scalar_like(graph, draft, "value", value, x));
}

void scatter_11(Graph&, NodeDraft& draft) { draft.op = "ScatterElements"; }

void dropout_12(Graph& graph, NodeDraft& draft) {
  const auto ratio = take<float>(draft, "ratio", 0.5F);
  set_input(draft, 1, graph.add_constant(name_for(draft, "ratio"), Tensor::scalar(ratio)));
}

void axes_to_input(Graph& graph, NodeDraft& draft) { attribute_to_input(graph, draft, "axes", 1); }

void split_13(Graph& graph, NodeDraft& draft) { attribute_to_input(graph, draft, "split", 1); }

void split_18(Graph&, NodeDraft& draft) {
  if (draft.inputs.size() < 2 || !draft.inputs[1].valid()) {
    draft.attributes["num_outputs"] = static_cast<std::int64_t>(draft.outputs.size());
  }
}

// Up to opset 12 all axes from `axis` on were normalised together.
void softmax_13(Graph&, NodeDraft& draft) {
  draft.attributes.try_emplace("axis", std::int64_t{1});
  draft.attributes[kFlattens] = std::int64_t{1};
}

void roi_align_16(Graph&, NodeDraft& draft) {
  draft.attributes["coordinate_transformation_mode"] = std::string("output_half_pixel");
}

void dft_20(Graph& graph, NodeDraft& draft) {
  const auto axis = take<std::int64_t>(draft, "axis", 1);
  set_input(draft, 2, graph.add_constant(name_for(draft, "axis"), Tensor::scalar(axis)));
}

void grid_sample_20(Graph&, NodeDraft& draft) {
  const auto it = draft.attributes.find("mode");
  if (it == draft.attributes.end()) return;
  auto* mode = std::get_if<std::string>(&it->second);
  if (mode != nullptr && *mode == "bilinear") *mode = "linear";
  if (mode != nullptr && *mode == "bicubic") *mode = "cubic";
}

// Scale and bias were per group, now they are per channel: each is repeated C / num_groups times.
void group_normalization_21(Graph& graph, NodeDraft& draft) {
  const auto groups = draft.attributes.find("num_groups");
  if (draft.inputs.size() != 3 || groups == draft.attributes.end()) return;  // refused later
  const auto* count = std::get_if<std::int64_t>(&groups->second);
  if (count == nullptr) return;
  const ValueId channels = graph.add_op("Shape", {draft.inputs[0]},
                                        {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}},
                                        name_for(draft, "channels"));
  const ValueId repeats =
      graph.add_op("Div", {channels, constant(graph, draft, "groups", {*count})}, {},
                   name_for(draft, "channels_per_group"));
  const ValueId shape = graph.add_op("Concat", {constant(graph, draft, "one", {1}), repeats},
                                     {{"axis", std::int64_t{0}}}, name_for(draft, "repeat_shape"));
  const ValueId column = constant(graph, draft, "column", {-1, 1});
  const ValueId flat = constant(graph, draft, "flat", {-1});
  for (std::size_t i = 1; i <= 2; ++i) {
    const std::string part = i == 1 ? "scale" : "bias";
    const ValueId rows =
        graph.add_op("Reshape", {draft.inputs[i], column}, {}, name_for(draft, part + "_column"));
    const ValueId repeated =
        graph.add_op("Expand", {rows, shape}, {}, name_for(draft, part + "_repeated"));
    draft.inputs[i] = graph.add_op("Reshape", {repeated, flat}, {}, name_for(draft, part));
  }
}

// In order of opset; an op that gets another name goes on under that name.
constexpr auto kChanges = std::to_array<Change>({
    {"BatchNormalization", 9, batch_normalization_9},
    {"Scan", 9, scan_9},
    {"Upsample", 9, upsample_9},
    {"Slice", 10, slice_10},
    {"TopK", 10, topk_10},
    {"Upsample", 10, upsample_10},
    {"Clip", 11, clip_11},
    {"Pad", 11, pad_11},
    {"Resize", 11, resize_11},
    {"Scatter", 11, scatter_11},
    {"Dropout", 12, dropout_12},
    {"Hardmax", 13, softmax_13},
    {"LogSoftmax", 13, softmax_13},
    {"ReduceSum", 13, axes_to_input},
    {"Resize", 13, resize_13},
    {"Softmax", 13, softmax_13},
    {"Split", 13, split_13},
    {"Squeeze", 13, axes_to_input},
    {"Unsqueeze", 13, axes_to_input},
    {"BatchNormalization", 14, batch_normalization_14},
    {"RoiAlign", 16, roi_align_16},
    {"ReduceL1", 18, axes_to_input},
    {"ReduceL2", 18, axes_to_input},
    {"ReduceLogSum", 18, axes_to_input},
    {"ReduceLogSumExp", 18, axes_to_input},
    {"ReduceMax", 18, axes_to_input},
    {"ReduceMean", 18, axes_to_input},
    {"ReduceMin", 18, axes_to_input},
    {"ReduceProd", 18, axes_to_input},
    {"ReduceSumSquare", 18, axes_to_input},
    {"Split", 18, split_18},
    {"DFT", 20, dft_20},
    {"GridSample", 20, grid_sample_20},
    {"GroupNormalization", 21, group_normalization_21},
});

// Dimensions behind `axis` are all 1, so that nothing is normalised together.
bool last_that_matters(const Type& type, std::int64_t axis) {
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < type.rank(); ++i) {
    if ((*type.shape)[i] != Dim(1)) return false;
  }
  return true;
}

// Flatten → op on the last axis → Reshape back.
void flatten_around(Graph& graph, NodeId id, std::int64_t axis) {
  const ValueId x = graph.node(id).inputs.at(0);
  const ValueId y = graph.node(id).outputs.at(0);
  const std::string name = graph.value(y).name;
  const Type type = graph.type(y);
  const ValueId shape = graph.add_op("Shape", {x}, {}, name + "/shape");
  const ValueId flat = graph.add_op("Flatten", {x}, {{"axis", axis}}, name + "/flat");
  graph.set_value_name(y, name + "/normalised");
  graph.set_type(y, Type{});
  const NodeId reshape = graph.add_node("", "Reshape", {}, {name}, {}, name);
  const ValueId out = graph.node(reshape).outputs[0];
  graph.set_type(out, type);
  graph.replace_uses(y, out);
  graph.set_input(reshape, 0, y);
  graph.set_input(reshape, 1, shape);
  graph.set_input(id, 0, flat);
  graph.set_attribute(id, "axis", std::int64_t{-1});
}

bool finish_softmax(Graph& graph, NodeId id) {
  const Type& type = graph.type(graph.node(id).inputs.at(0));
  std::int64_t axis = graph.node(id).attr_int("axis", 1);
  graph.remove_attribute(id, kFlattens);
  if (type.has_rank()) {
    const auto rank = static_cast<std::int64_t>(type.rank());
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < rank && last_that_matters(type, axis)) {
      graph.set_attribute(id, "axis", axis);
      return false;
    }
  }
  flatten_around(graph, id, axis);
  return true;
}

// The type is known by now: a float32 constant needs no cast.
void finish_scalar(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Tensor* scalar = graph.constant(node.input(0));
  if (scalar == nullptr || scalar->count() != 1 || !node.input(1).valid() ||
      graph.type(node.inputs[1]).dtype != scalar->dtype() || graph.is_output(node.outputs[0])) {
    return;
  }
  graph.replace_uses(node.outputs[0], node.inputs[0]);
  graph.remove_node(id);
}

// PaddlePaddle's exporter declares the iteration's number and the condition of a Loop's body as
// lists of one element, and the body relies on it: ONNX Runtime hands over what is declared. Here
// both are scalars, as the standard has them, and the body makes the lists.
bool finish_loop(Graph& body) {
  constexpr std::size_t kScalars = 2;
  bool changed = false;
  for (std::size_t i = 0; i < std::min(kScalars, body.inputs().size()); ++i) {
    const ValueId scalar = body.inputs()[i];
    const Type& type = body.type(scalar);
    if (!type.is_tensor() || !type.has_rank() || type.rank() != 1) continue;
    body.set_type(scalar, Type::tensor(type.dtype, Shape{}));
    const ValueId one = body.add_constant("", Tensor::from_int64({{1}}));
    const ValueId list = body.add_op("Reshape", {scalar, one});
    body.replace_uses(scalar, list);
    body.set_input(body.value(list).producer, 0, scalar);
    changed = true;
  }
  return changed;
}

}  // namespace

void upgrade_node(Graph& graph, NodeDraft& draft, std::int64_t version) {
  if (version < 6) draft.attributes.erase("consumed_inputs");  // said what may be overwritten
  for (const Change& change : upgrade::changes_to_7()) {
    if (version < change.opset && draft.op == change.op) change.apply(graph, draft);
  }
  for (const Change& change : kChanges) {
    if (version < change.opset && draft.op == change.op) change.apply(graph, draft);
  }
}

std::int64_t last_change(std::string_view op) {
  std::int64_t opset = 0;
  for (const auto changes : {upgrade::changes_to_7(), std::span<const Change>(kChanges)}) {
    for (const Change& change : changes) {
      if (change.op == op) opset = std::max(opset, change.opset);
    }
  }
  return opset;
}

bool finish_upgrade(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.nodes()) {
    if (graph.node(id).has(kFlattens)) {
      changed = finish_softmax(graph, id) || changed;
    } else if (graph.node(id).op == "CastLike" && graph.node(id).domain.empty()) {
      finish_scalar(graph, id);
    } else {
      std::vector<std::string> bodies;
      for (const auto& [name, value] : graph.node(id).attributes) {
        if (std::holds_alternative<std::shared_ptr<Graph>>(value)) bodies.push_back(name);
      }
      const bool is_loop = graph.node(id).op == "Loop" && graph.node(id).domain.empty();
      for (const std::string& body : bodies) {
        graph.edit_subgraph(id, body, [&](Graph& inner) {
          changed = finish_upgrade(inner) || changed;
          changed = (is_loop && finish_loop(inner)) || changed;
        });
      }
    }
  }
  return changed;
}

}  // namespace xrt
