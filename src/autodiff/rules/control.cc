// SPDX-License-Identifier: Apache-2.0
// Control flow other than Loop. Scans are written out; an If's gradient is an If whose branches are
// the gradients of its branches.
#include "autodiff/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/activity.h"
#include "autodiff/rule.h"
#include "ir/rewrite.h"

namespace xrt::autodiff {
const Graph& body_of(const Rule& r, std::string_view name) {
  const auto body = r.node.attr_graph(name);
  if (body == nullptr) r.refuse(fmt::format("it has no '{}'", name));
  return *body;
}

std::vector<Var> iterate(Rule& r, const Graph& body, const std::vector<Var>& inputs,
                         std::int64_t i) {
  std::vector<ValueId> ids;
  ids.reserve(inputs.size());
  for (const Var v : inputs) ids.push_back(v.id);
  std::vector<Var> outputs;
  for (const ValueId v : splice(r.e.graph(), body, ids, fmt::format("{}/{}/", r.node.name, i))) {
    outputs.push_back(r.e.var(v));
  }
  return outputs;
}

ValueId captured(Graph& body, ValueId outer, const Graph& around) {
  for (const Capture& c : body.captures()) {
    if (c.outer == outer) return c.inner;
  }
  return body.add_capture(outer, around.value(outer).name, around.type(outer));
}

namespace {

std::vector<Var> expand_scan(Rule& r) {
  const Graph& body = body_of(r, "body");
  const auto scanned = static_cast<std::size_t>(r.attr("num_scan_inputs"));
  const std::size_t carried = body.inputs().size() - scanned;
  const std::size_t made = body.outputs().size() - carried;
  const Dims none_in(scanned, 0);
  const Dims none_out(made, 0);
  const Dims in_axes = r.node.attr_ints("scan_input_axes", none_in);
  const Dims in_turned = r.node.attr_ints("scan_input_directions", none_in);
  const Dims out_axes = r.node.attr_ints("scan_output_axes", none_out);
  const Dims out_turned = r.node.attr_ints("scan_output_directions", none_out);
  std::vector<Var> state;
  for (std::size_t i = 0; i < carried; ++i) state.push_back(r.x(i));
  Dims axes;
  std::int64_t length = 0;
  for (std::size_t i = 0; i < scanned; ++i) {
    const Dims dims = r.x_dims(carried + i);
    const std::int64_t axis = in_axes.at(i);
    axes.push_back(axis < 0 ? axis + static_cast<std::int64_t>(dims.size()) : axis);
    length = dims[static_cast<std::size_t>(axes.back())];
  }
  if (length < 1) r.refuse("it makes no iteration");
  std::vector<std::vector<Var>> collected(made);
  for (std::int64_t i = 0; i < length; ++i) {
    std::vector<Var> inputs = state;
    for (std::size_t k = 0; k < scanned; ++k) {
      const std::int64_t at = in_turned.at(k) != 0 ? length - 1 - i : i;
      inputs.push_back(squeeze(slice(r.x(carried + k), {at}, {at + 1}, {axes[k]}), {axes[k]}));
    }
    const std::vector<Var> outputs = iterate(r, body, inputs, i);
    state.assign(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(carried));
    for (std::size_t k = 0; k < made; ++k) {
      const Var part = unsqueeze(outputs[carried + k], {out_axes.at(k)});
      auto& parts = collected[k];
      parts.insert(out_turned.at(k) != 0 ? parts.begin() : parts.end(), part);
    }
  }
  for (std::size_t k = 0; k < made; ++k) state.push_back(concat(collected[k], out_axes.at(k)));
  return state;
}

// A branch that gives the gradients of what `wanted` names in the graph around.
std::shared_ptr<Graph> gradient_branch(Rule& r, std::string_view name) {
  auto made = std::make_shared<Graph>(body_of(r, name));
  Graph& body = *made;
  const std::vector<ValueId> results = body.outputs();
  Emitter e(body);
  e.set_prefix("grad");
  Var loss;
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!r.has_dy(k) || !is_real(body.type(results[k]))) continue;
    const Var dy = e.var(captured(body, r.dy(k).id, r.e.graph()));
    Var part = e.op("ReduceSum", {e.var(results[k]) * dy}, {{"keepdims", std::int64_t{0}}});
    if (loss.valid()) part = loss + cast(part, loss.dtype);
    loss = part;
  }
  std::vector<ValueId> wrt;
  for (const ValueId v : r.captured()) wrt.push_back(captured(body, v, r.e.graph()));
  const std::vector<ValueId> made_gradients = gradients(body, loss.id, wrt, {.allow_unused = true});
  std::vector<ValueId> found;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const ValueId out = body.add_op("Identity", {made_gradients[i]}, {}, "gradient");
    body.set_type(out, Type(body.type(wrt[i])));
    found.push_back(out);
  }
  // The gradients take the places of the outputs; there may be more or fewer of them.
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i < results.size()) {
      body.replace_output(i, found[i]);
    } else {
      body.add_output(found[i]);
    }
  }
  for (std::size_t i = found.size(); i < results.size(); ++i) {
    const ValueId again = body.add_op("Identity", {found[0]}, {}, "gradient");
    body.set_type(again, Type(body.type(found[0])));
    body.replace_output(i, again);
  }
  return made;
}

void if_rule(Rule& r) {
  const auto then_branch = gradient_branch(r, "then_branch");
  const auto else_branch = gradient_branch(r, "else_branch");
  std::vector<DType> dtypes;
  for (const ValueId v : r.captured()) dtypes.push_back(r.e.graph().type(v).dtype);
  // As many outputs as the branches have; the last ones may be repeated.
  while (dtypes.size() < then_branch->outputs().size()) dtypes.push_back(dtypes[0]);
  const std::vector<Var> made = r.e.node(
      "", "If", {r.x()}, dtypes, {{"then_branch", then_branch}, {"else_branch", else_branch}});
  for (std::size_t i = 0; i < r.captured().size(); ++i) r.give_captured(i, made[i]);
}

}  // namespace

void register_control(RuleRegistry& registry) {
  registry.add_expanded("Scan", expand_scan);
  registry.add("If", if_rule, 0);
}

}  // namespace xrt::autodiff
