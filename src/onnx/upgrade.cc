// SPDX-License-Identifier: Apache-2.0
#include "onnx/upgrade.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
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
// On a Dropout whose mask is still that of opset 9 or older.
constexpr const char* kMaskOfData = "xrt_mask_of_data";

// A scalar of the element type of `like`, which may only become known by inference.
ValueId scalar_like(Graph& graph, const NodeDraft& draft, std::string_view part, float value,
                    ValueId like) {
  const std::string name = name_for(draft, part);
  const ValueId scalar = graph.add_constant(name, Tensor::scalar(value));
  if (!like.valid() || graph.type(like).dtype == DType::kFloat32) return scalar;
  return graph.add_op("CastLike", {scalar, like}, {}, name + "_like");
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

// Where it was not spatial there were parameters for each place of a sample, not for each channel:
// they go with the last axes.
void batch_normalization_9(Graph& graph, NodeDraft& draft) {
  constexpr std::size_t kOperands = 5;
  if (take<std::int64_t>(draft, "spatial", 1) != 0 || draft.inputs.size() != kOperands) return;
  batch_normalization_14(graph, draft);
  const auto epsilon = take<float>(draft, "epsilon", 1e-5F);
  const auto add = [&](std::string_view op, ValueId a, ValueId b, std::string_view part) {
    return graph.add_op(op, {a, b}, {}, name_for(draft, part));
  };
  const ValueId x = draft.inputs[0];
  const ValueId safe =
      add("Add", draft.inputs[4], scalar_like(graph, draft, "epsilon", epsilon, x), "safe");
  const ValueId deviation = graph.add_op("Sqrt", {safe}, {}, name_for(draft, "deviation"));
  const ValueId factor = add("Div", draft.inputs[1], deviation, "factor");
  const ValueId centred = add("Sub", x, draft.inputs[3], "centred");
  const ValueId bias = draft.inputs[2];
  draft.op = "Add";
  draft.inputs = {add("Mul", centred, factor, "scaled"), bias};
  draft.attributes.clear();
}

// Of one sample: how many steps it has, and how many of the sequence are left over; int64 lists of
// one number.
struct ScanLength {
  ValueId steps, missing;
};

// Adds the input that says the number of steps, and leaves as many of what is scanned, which comes
// after the states.
ScanLength cut_to_length(Graph& sample, std::vector<ValueId>& inputs, std::size_t states) {
  const ValueId one = sample.add_constant("one", Tensor::from_int64({{1}}));
  const ValueId zero = sample.add_constant("zero", Tensor::from_int64({{0}}));
  const ValueId given = sample.add_input("sequence_length", Type{});
  const ValueId steps = sample.add_op("Reshape", {given, one}, {}, "steps");
  const ValueId whole =
      sample.add_op("Shape", {inputs[states]}, {{"end", std::int64_t{1}}}, "sequence_size");
  for (std::size_t i = states; i < inputs.size(); ++i) {
    inputs[i] =
        sample.add_op("Slice", {inputs[i], zero, steps, zero}, {}, fmt::format("sequence_{}", i));
  }
  return {steps, sample.add_op("Sub", {whole, steps}, {}, "missing")};
}

// What was made in each step is zero in those that are left over.
void fill_to_length(Graph& sample, std::vector<ValueId>& results, std::size_t states,
                    const ScanLength& length) {
  const ValueId zero = sample.add_constant("no_step", Tensor::from_int64({{0}}));
  const ValueId pads =
      sample.add_op("Concat", {zero, length.missing}, {{"axis", std::int64_t{0}}}, "filling");
  for (std::size_t i = states; i < results.size(); ++i) {
    results[i] =
        sample.add_op("Pad", {results[i], pads, {}, zero}, {}, fmt::format("filled_{}", i));
  }
}

// Scan of opset 8 has a batch axis in front of every input and output. It becomes a Scan over the
// batch whose body is the Scan over the sequence: for the outer one every input and output is a
// scanned one. So are the lengths of the sequences, where there are any.
void scan_9(Graph& graph, NodeDraft& draft) {
  const auto body = take<std::shared_ptr<Graph>>(draft, "body");
  const auto scanned = take<std::int64_t>(draft, "num_scan_inputs");
  const auto directions = take<Ints>(draft, "directions");
  if (body == nullptr || draft.inputs.empty() || scanned < 1 ||
      scanned >= static_cast<std::int64_t>(draft.inputs.size())) {
    unsupported("Scan of opset 8 without a body or anything to scan");
  }
  const ValueId lengths = draft.inputs[0];
  draft.inputs.erase(draft.inputs.begin());
  const std::size_t states = draft.inputs.size() - static_cast<std::size_t>(scanned);
  auto batch = std::make_shared<Graph>(body->name() + "_batch");
  batch->opsets() = graph.opsets();
  body->remap_captures(
      [&](ValueId v) { return batch->add_capture(v, graph.value(v).name, graph.type(v)); });
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < draft.inputs.size(); ++i) {
    inputs.push_back(batch->add_input(fmt::format("scan_input_{}", i), Type{}));
  }
  ScanLength length;
  if (lengths.valid()) {
    draft.inputs.push_back(lengths);
    length = cut_to_length(*batch, inputs, states);
  }
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < draft.outputs.size(); ++i) {
    outputs.push_back(fmt::format("scan_output_{}", i));
  }
  Attributes attributes{{"body", body}, {"num_scan_inputs", scanned}};
  if (!directions.empty()) attributes["scan_input_directions"] = directions;
  const NodeId inner = batch->add_node("", "Scan", inputs, outputs, std::move(attributes));
  std::vector<ValueId> results = batch->node(inner).outputs;
  if (lengths.valid()) fill_to_length(*batch, results, states, length);
  for (const ValueId v : results) batch->add_output(v);
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

// It only enlarges.
void upsample_10(Graph&, NodeDraft& draft) {
  draft.op = "Resize";
  draft.attributes["nearest_mode"] = std::string("floor");
}

// Whether a Resize of that opset, by these scales, makes something larger or smaller.
struct Resizes {
  bool larger = true, smaller = true;
};

Resizes resizes_of(const Graph& graph, ValueId scales) {
  const Tensor* known = graph.constant(scales);
  if (known == nullptr || known->dtype() != DType::kFloat32) return {};
  const std::span<const float> values(known->data<float>(),
                                      static_cast<std::size_t>(known->count()));
  return {std::any_of(values.begin(), values.end(), [](float v) { return v > 1.0F; }),
          std::any_of(values.begin(), values.end(), [](float v) { return v < 1.0F; })};
}

// Before opset 11 coordinates were plainly divided by the scale; the nearest neighbour was the one
// below when enlarging and the one above when shrinking. Where both may be, axes are enlarged
// first.
void resize_11(Graph& graph, NodeDraft& draft) {
  const ValueId scales = draft.inputs.size() > 1 ? draft.inputs[1] : ValueId{};
  set_input(draft, 2, scales);
  draft.inputs[1] = {};
  draft.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  const auto mode = draft.attributes.find("mode");
  const auto* name =
      mode == draft.attributes.end() ? nullptr : std::get_if<std::string>(&mode->second);
  if (name != nullptr && *name != "nearest") return;
  if (!scales.valid() || draft.attributes.contains("nearest_mode")) return;
  const Resizes resizes = resizes_of(graph, scales);
  if (resizes.larger && resizes.smaller) {
    const ValueId one = graph.add_constant(name_for(draft, "one"), Tensor::scalar(1.0F));
    const auto bounded = [&](std::string_view op) {
      return graph.add_op(op, {scales, one}, {}, name_for(draft, op));
    };
    Attributes enlarges = draft.attributes;
    enlarges["nearest_mode"] = std::string("floor");
    draft.inputs[0] = graph.add_op("Resize", {draft.inputs[0], {}, bounded("Max")},
                                   std::move(enlarges), name_for(draft, "larger"));
    draft.inputs[2] = bounded("Min");
  }
  draft.attributes["nearest_mode"] = std::string(resizes.smaller ? "ceil" : "floor");
}

// The number of elements, where it is known.
std::optional<std::int64_t> count_of(const Graph& graph, ValueId value) {
  if (const Tensor* known = graph.constant(value)) return known->count();
  const auto dims = graph.type(value).static_dims();
  if (!dims) return std::nullopt;
  return std::accumulate(dims->begin(), dims->end(), std::int64_t{1}, std::multiplies<>());
}

void resize_13(Graph& graph, NodeDraft& draft) {
  // The scales had to be given: a node with sizes as well has scales without elements, though that
  // may show only in a run.
  if (draft.inputs.size() > 3 && draft.inputs[2].valid() && draft.inputs[3].valid()) {
    const bool has_sizes = count_of(graph, draft.inputs[3]) != 0;
    const bool has_scales = count_of(graph, draft.inputs[2]).value_or(0) > 0;
    if (!has_sizes) draft.inputs[3] = {};
    if (has_sizes && !has_scales) draft.inputs[2] = {};
  }
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

// The mask had the type of the data.
void dropout_10(Graph&, NodeDraft& draft) {
  if (draft.outputs.size() > 1 && !draft.outputs[1].empty()) {
    draft.attributes[kMaskOfData] = std::int64_t{1};
  }
}

void dropout_12(Graph& graph, NodeDraft& draft) {
  const auto ratio = take<float>(draft, "ratio", 0.5F);
  set_input(draft, 1, graph.add_constant(name_for(draft, "ratio"), Tensor::scalar(ratio)));
  if (take<std::int64_t>(draft, kMaskOfData) == 0) return;
  const NodeId made =
      graph.add_node("", "Dropout", draft.inputs, {draft.outputs[0], name_for(draft, "mask")},
                     draft.attributes, draft.name, /*omit_empty=*/true);
  const std::vector<ValueId> outputs = graph.node(made).outputs;
  draft.results = {outputs[0],
                   graph.add_op("CastLike", {outputs[1], draft.inputs[0]}, {}, draft.outputs[1])};
}

// Integers were taken, and the result was cut to one of them.
void of_integers(Graph& graph, NodeDraft& draft) {
  if (draft.inputs.empty() || !draft.inputs[0].valid()) return;
  const DType dtype = graph.type(draft.inputs[0]).dtype;
  if (!is_integer(dtype)) return;
  const auto to = [](DType type) { return Attributes{{"to", static_cast<std::int64_t>(type)}}; };
  draft.inputs[0] =
      graph.add_op("Cast", {draft.inputs[0]}, to(DType::kFloat64), name_for(draft, "as_numbers"));
  draft.inputs = {graph.add_op(draft.op, draft.inputs, std::move(draft.attributes),
                               name_for(draft, "numbers"))};
  draft.op = "Cast";
  draft.attributes = to(dtype);
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
    {"Dropout", 10, dropout_10},
    {"Clip", 11, clip_11},
    {"Pad", 11, pad_11},
    {"Resize", 11, resize_11},
    {"Scatter", 11, scatter_11},
    {"Dropout", 12, dropout_12},
    {"Erf", 13, of_integers, /*narrows=*/true},
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
    {"ReduceLogSum", 28, of_integers, /*narrows=*/true},
    {"ReduceLogSumExp", 28, of_integers, /*narrows=*/true},
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
      if (change.op == op && !change.narrows) opset = std::max(opset, change.opset);
    }
  }
  return opset;
}

bool upgrade_reads_types(std::string_view op, std::int64_t version) {
  return std::any_of(kChanges.begin(), kChanges.end(), [&](const Change& change) {
    return change.narrows && version < change.opset && change.op == op;
  });
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
