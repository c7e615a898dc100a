// SPDX-License-Identifier: Apache-2.0
#include "onnx/contributed/rewriting.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/interrupt.h"
#include "base/message.h"
#include "ir/rewrite.h"
#include "onnx/upgrade.h"
#include "xrt/error.h"

namespace xrt::contributed {

namespace {

std::int64_t checked(std::string_view name, std::int64_t value, Within within) {
  if (value >= within.least && value <= within.most) return value;
  throw Error(ErrorCode::kInvalidModel, fmt::format("its attribute '{}' is {}, which is not within "
                                                    "{} to {}",
                                                    name, value, within.least, within.most));
}

}  // namespace

std::int64_t product(std::initializer_list<std::int64_t> numbers) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  std::int64_t all = 1;
  for (const std::int64_t number : numbers) {
    if (number < 0 || __builtin_mul_overflow(all, number, &all) || all > kMost) {
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("its sizes {} are too large together", fmt::join(numbers, " x ")));
    }
  }
  return all;
}

Rewriting::Rewriting(Graph& graph, NodeDraft& draft,
                     const std::function<void(Graph&, NodeId)>& infer)
    : graph_(graph),
      draft_(draft),
      infer_(infer),
      op_(draft.op),
      first_new_(graph.value_capacity()) {}

ValueId Rewriting::input(std::size_t i) const {
  return i < draft_.inputs.size() ? draft_.inputs[i] : ValueId{};
}

ValueId Rewriting::need(std::size_t i) const {
  const ValueId value = input(i);
  if (!value.valid()) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("its input {} is missing", i));
  }
  return value;
}

bool Rewriting::wants(std::size_t i) const {
  return i < draft_.outputs.size() && !draft_.outputs[i].empty();
}

bool Rewriting::flag(std::string_view name, bool fallback) {
  return int_attr(name, fallback ? 1 : 0, kAny) != 0;
}

std::int64_t Rewriting::int_attr(std::string_view name, std::int64_t fallback, Within within) {
  if (!has_attr(name)) return fallback;
  return checked(name, upgrade::take<std::int64_t>(draft_, name), within);
}

Ints Rewriting::ints_attr(std::string_view name, Within each, Ints fallback) {
  if (!has_attr(name)) return fallback;
  Ints values = upgrade::take<Ints>(draft_, name);
  for (const std::int64_t value : values) checked(name, value, each);
  return values;
}

std::size_t Rewriting::axis_attr(std::string_view name, std::int64_t fallback, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  // The fallback may be beyond the rank, too.
  const std::int64_t axis = checked(name, int_attr(name, fallback, kAny), {-count, count - 1});
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

float Rewriting::float_attr(std::string_view name, float fallback) {
  return upgrade::take<float>(draft_, name, fallback);
}

std::string Rewriting::string_attr(std::string_view name, std::string fallback) {
  return upgrade::take<std::string>(draft_, name, std::move(fallback));
}

std::int64_t Rewriting::required_int(std::string_view name, Within within) {
  if (!has_attr(name)) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("its attribute '{}' is missing", name));
  }
  return int_attr(name, 0, within);
}

void Rewriting::refuse(const std::string& message) const {
  upgrade::unsupported(fmt::format("{}: {}", op_, message));
}

DType Rewriting::dtype(ValueId v) const {
  return v.valid() ? graph_.type(v).dtype : DType::kUndefined;
}

std::optional<std::size_t> Rewriting::rank(ValueId v) const {
  if (!v.valid() || !graph_.type(v).has_rank()) return std::nullopt;
  return graph_.type(v).rank();
}

std::size_t Rewriting::need_rank(std::size_t i) const {
  const auto known = rank(need(i));
  if (!known) {
    refuse(fmt::format("the rank of its input {} ('{}') is not known: declare it in value_info", i,
                       graph_.value(need(i)).name));
  }
  return *known;
}

std::optional<std::int64_t> Rewriting::dim(ValueId v, std::int64_t axis) const {
  const auto known = rank(v);
  if (!known) return std::nullopt;
  if (axis < 0) axis += static_cast<std::int64_t>(*known);
  if (axis < 0 || axis >= static_cast<std::int64_t>(*known)) return std::nullopt;
  const Dim& d = (*graph_.type(v).shape)[static_cast<std::size_t>(axis)];
  return d.is_known() ? std::optional(d.value()) : std::nullopt;
}

Tensor Rewriting::known(ValueId v) const {
  const Tensor* tensor = v.valid() ? graph_.constant(v) : nullptr;
  return tensor == nullptr ? Tensor() : *tensor;
}

Tensor Rewriting::known(ValueId v, std::initializer_list<DType> types) const {
  Tensor tensor = known(v);
  if (tensor.defined() && std::find(types.begin(), types.end(), tensor.dtype()) == types.end()) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("its operand '{}' is of {}", shortened(graph_.value(v).name),
                            to_string(tensor.dtype())));
  }
  return tensor;
}

std::string Rewriting::fresh(std::string_view part) {
  // The names of all that is added begin with that of the node, which may be of any length.
  constexpr std::size_t kMostOfName = 200;
  return shortened(upgrade::name_for(draft_, ""), kMostOfName) +
         fmt::format("{}{}", part, added_++);
}

Values Rewriting::ops(std::string_view name, Values inputs, std::size_t outputs,
                      Attributes attributes) {
  while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
  const std::string base = fresh(name);
  std::vector<std::string> names{base};
  for (std::size_t i = 1; i < outputs; ++i) names.push_back(fmt::format("{}_{}", base, i));
  const NodeId id =
      graph_.add_node("", name, std::move(inputs), names, std::move(attributes), base);
  infer_(graph_, id);
  return graph_.node(id).outputs;
}

ValueId Rewriting::op(std::string_view name, Values inputs, Attributes attributes) {
  return ops(name, std::move(inputs), 1, std::move(attributes)).at(0);
}

ValueId Rewriting::old_op(std::string_view name, Values inputs, Attributes attributes,
                          std::int64_t version) {
  const std::string base = fresh(name);
  NodeDraft node{base, "", std::string(name), std::move(inputs), {base}, std::move(attributes), {}};
  upgrade_node(graph_, node, version);
  const NodeId id = graph_.add_node("", node.op, std::move(node.inputs), node.outputs,
                                    std::move(node.attributes), node.name);
  infer_(graph_, id);
  return graph_.node(id).outputs.at(0);
}

ValueId Rewriting::constant(Tensor tensor) {
  throw_if_interrupted();
  return graph_.add_constant(fresh("constant"), std::move(tensor));
}

ValueId Rewriting::ints(const Ints& values) { return constant(Tensor::from_int64(values)); }

ValueId Rewriting::whole(std::int64_t value) { return constant(Tensor::scalar(value)); }

ValueId Rewriting::float_number(float value) { return constant(Tensor::scalar(value)); }

ValueId Rewriting::number(double value, ValueId like) {
  const DType wanted = dtype(like);
  if (wanted == DType::kFloat64) {
    return constant(Tensor::from<double>(DType::kFloat64, {}, std::span<const double>(&value, 1)));
  }
  // What int64 does not hold (an infinity that masks scores) is cast as for the other integers.
  const bool holds = value >= -0x1p63 && value < 0x1p63;
  if (wanted == DType::kInt64 && holds) return whole(static_cast<std::int64_t>(value));
  const ValueId scalar = float_number(static_cast<float>(value));
  return wanted == DType::kFloat32 ? scalar : cast_like(scalar, like);
}

ValueId Rewriting::cast(ValueId v, DType to) {
  if (dtype(v) == to) return v;
  return op("Cast", {v}, {{"to", static_cast<std::int64_t>(to)}});
}

ValueId Rewriting::cast_like(ValueId v, ValueId like) {
  const DType to = dtype(like);
  return to == DType::kUndefined ? op("CastLike", {v, like}) : cast(v, to);
}

ValueId Rewriting::shape(ValueId v, std::int64_t start, std::int64_t end) {
  Attributes attributes;
  if (start != 0) attributes["start"] = start;
  if (end != 0) attributes["end"] = end;
  return op("Shape", {v}, std::move(attributes));
}

ValueId Rewriting::size(ValueId v, std::int64_t axis) {
  return squeeze(shape(v, axis, axis + 1), {0});
}

ValueId Rewriting::slice(ValueId v, const Ints& starts, const Ints& ends, const Ints& axes) {
  return op("Slice", {v, ints(starts), ints(ends), ints(axes)});
}

ValueId Rewriting::slice_axis(ValueId v, ValueId start, ValueId end, std::int64_t axis) {
  if (!start.valid()) start = ints({0});
  if (!end.valid()) end = ints({std::numeric_limits<std::int64_t>::max()});
  return op("Slice", {v, start, end, ints({axis})});
}

ValueId Rewriting::reduce(std::string_view name, ValueId v, const Ints& axes, bool keep) {
  return op(name, {v, ints(axes)}, {{"keepdims", static_cast<std::int64_t>(keep)}});
}

Values Rewriting::split(ValueId v, const Ints& lengths, std::int64_t axis) {
  return ops("Split", {v, ints(lengths)}, lengths.size(), {{"axis", axis}});
}

ValueId Rewriting::range(ValueId limit) { return op("Range", {whole(0), limit, whole(1)}); }

ValueId Rewriting::single(ValueId v) {
  const Tensor tensor = known(v);
  if (tensor.defined()) {
    return tensor.count() == 1 && tensor.rank() != 0 ? constant(tensor.reshaped({})) : v;
  }
  return rank(v) == 1 && dim(v, 0) == 1 ? squeeze(v, {0}) : v;
}

Rewriting Body::rewriting() { return {graph, draft, infer}; }

ValueId Body::capture(const Graph& around, ValueId outer) {
  return graph.add_capture(outer, around.value(outer).name, around.type(outer));
}

std::unique_ptr<Body> Rewriting::new_body(const std::string& name) {
  auto graph = std::make_shared<Graph>(name);
  graph->opsets() = graph_.opsets();
  return std::unique_ptr<Body>(new Body{graph, *graph, {name, "", op_, {}, {}, {}, {}}, infer_});
}

Values Rewriting::loop(const Body& body, ValueId trips, const Values& states) {
  Values inputs{trips, {}};
  inputs.insert(inputs.end(), states.begin(), states.end());
  return ops("Loop", std::move(inputs), states.size(), {{"body", body.owner}});
}

std::shared_ptr<const Graph> Rewriting::required_graph(std::string_view name) {
  const auto found = draft_.attributes.find(name);
  const auto* graph = found == draft_.attributes.end()
                          ? nullptr
                          : std::get_if<std::shared_ptr<Graph>>(&found->second);
  if (graph == nullptr || *graph == nullptr) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("its graph '{}' is missing", name));
  }
  return *graph;
}

Values Rewriting::call(const Graph& body, const Values& inputs,
                       const std::function<ValueId(ValueId)>& captured) {
  Graph here = body;
  here.remap_captures(captured);
  const std::size_t first = graph_.node_capacity();
  Values outputs = splice(graph_, here, inputs, fresh(body.name()) + "/");
  for (std::size_t i = first; i < graph_.node_capacity(); ++i) {
    infer_(graph_, NodeId{static_cast<std::int32_t>(i)});
  }
  return outputs;
}

std::size_t Rewriting::rank_of_axes(ValueId v, std::string_view what,
                                    std::optional<std::size_t> assumed) const {
  const auto told = rank(v);
  const auto known = told ? told : assumed;
  if (!known) {
    refuse(fmt::format("the rank of its {} is not known: declare that of its input in value_info",
                       what));
  }
  if (*known < 2) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("its {} ('{}') has {} axes: it needs two or more", what,
                            shortened(graph_.value(v).name), *known));
  }
  return *known;
}

ValueId Rewriting::swapped(ValueId v, std::optional<std::size_t> assumed) {
  Ints perm(rank_of_axes(v, "operand", assumed));
  std::iota(perm.begin(), perm.end(), std::int64_t{0});
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return transpose(v, perm);
}

ValueId Rewriting::channels_first(ValueId v) {
  const std::size_t count = rank_of_axes(v, "input");
  Ints perm{0, static_cast<std::int64_t>(count) - 1};
  for (std::size_t i = 1; i + 1 < count; ++i) perm.push_back(static_cast<std::int64_t>(i));
  return transpose(v, perm);
}

ValueId Rewriting::channels_last(ValueId v, ValueId like) {
  const std::size_t count = rank_of_axes(rank(v) ? v : like, "output");
  Ints perm{0};
  for (std::size_t i = 2; i < count; ++i) perm.push_back(static_cast<std::int64_t>(i));
  perm.push_back(1);
  return transpose(v, perm);
}

void Rewriting::finish(const Values& outputs) {
  draft_.results.assign(draft_.outputs.size(), ValueId{});
  for (std::size_t i = 0; i < draft_.outputs.size(); ++i) {
    const std::string& name = draft_.outputs[i];
    if (name.empty()) continue;
    ValueId value = i < outputs.size() ? outputs[i] : ValueId{};
    if (!value.valid()) refuse(fmt::format("its output {} ('{}') cannot be made", i, name));
    bool own = graph_.value(value).origin == Origin::kNode &&
               static_cast<std::size_t>(value.index) >= first_new_;
    for (std::size_t k = 0; k < i; ++k) own = own && draft_.results[k] != value;
    // A value of somebody else, or one that is an output already, keeps its name.
    if (!own || graph_.find_value(name)) {
      const NodeId id = graph_.add_node("", "Identity", {value}, {name});
      infer_(graph_, id);
      value = graph_.node(id).outputs[0];
    } else {
      graph_.set_value_name(value, name);
    }
    draft_.results[i] = value;
  }
}

void Rewriting::become(std::string_view name, Values inputs, Attributes attributes,
                       std::string_view domain) {
  while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
  draft_.domain = std::string(domain);
  draft_.op = std::string(name);
  draft_.inputs = std::move(inputs);
  draft_.attributes = std::move(attributes);
}

}  // namespace xrt::contributed
