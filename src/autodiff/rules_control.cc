// SPDX-License-Identifier: Apache-2.0
// Control flow. Loops whose number of iterations is known are written out; an If's gradient is an
// If whose branches are the gradients of its branches.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/activity.h"
#include "autodiff/rule.h"
#include "ir/rewrite.h"

namespace xrt::autodiff {
namespace {

const Graph& body_of(const Rule& r, std::string_view name) {
  const auto body = r.node.attr_graph(name);
  if (body == nullptr) r.refuse(fmt::format("it has no '{}'", name));
  return *body;
}

// The body's nodes for one iteration.
std::vector<Var> iterate(Rule& r, const Graph& body, const std::vector<Var>& inputs,
                         std::int64_t i) {
  std::vector<ValueId> ids;
  for (const Var v : inputs) ids.push_back(v.id);
  std::vector<Var> outputs;
  for (const ValueId v : splice(r.e.graph(), body, ids, fmt::format("{}/{}/", r.node.name, i))) {
    outputs.push_back(r.e.var(v));
  }
  return outputs;
}

// The body's outputs and inputs say what it stays: always true.
bool goes_on(const Graph& body) {
  ValueId condition = body.outputs().at(0);
  while (body.value(condition).origin == Origin::kNode) {
    const Node& node = body.node(body.value(condition).producer);
    if (node.op != "Identity" || !node.domain.empty()) return false;
    condition = node.inputs[0];
  }
  const Tensor* constant = body.constant(condition);
  if (constant != nullptr) {
    return constant->dtype() == DType::kBool && constant->count() == 1 &&
           constant->data<std::uint8_t>()[0] != 0;
  }
  return body.inputs().size() > 1 && condition == body.inputs()[1];
}

std::vector<Var> expand_loop(Rule& r) {
  const Graph& body = body_of(r, "body");
  if (!r.has(0)) r.refuse("the number of iterations (input 0) is left out");
  const Dims count = r.integers(0, "the number of iterations");
  if (r.has(1)) {
    const Tensor* condition = r.e.graph().constant(r.node.input(1));
    if (condition == nullptr || condition->data<std::uint8_t>()[0] == 0) {
      r.refuse("whether it runs at all (input 1) is not known");
    }
  }
  if (!goes_on(body)) r.refuse("the body decides when it ends");
  if (count.size() != 1 || count[0] < 1) r.refuse("it makes no iteration");
  const std::size_t carried = body.inputs().size() - 2;
  std::vector<Var> state;
  for (std::size_t i = 0; i < carried; ++i) state.push_back(r.x(2 + i));
  std::vector<std::vector<Var>> collected(body.outputs().size() - 1 - carried);
  const Var yes = r.e.constant(filled(DType::kBool, {}, 1));
  for (std::int64_t i = 0; i < count[0]; ++i) {
    std::vector<Var> inputs{r.e.constant(Tensor::scalar(i)), yes};
    inputs.insert(inputs.end(), state.begin(), state.end());
    const std::vector<Var> outputs = iterate(r, body, inputs, i);
    state.assign(outputs.begin() + 1, outputs.begin() + 1 + static_cast<std::ptrdiff_t>(carried));
    for (std::size_t k = 0; k < collected.size(); ++k) {
      collected[k].push_back(unsqueeze(outputs[1 + carried + k], {0}));
    }
  }
  for (const std::vector<Var>& parts : collected) state.push_back(concat(parts, 0));
  return state;
}

std::vector<Var> expand_scan(Rule& r) {
  const Graph& body = body_of(r, "body");
  const auto scanned = static_cast<std::size_t>(r.attr("num_scan_inputs", 0));
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
    axes.push_back(r.positive({in_axes.at(i)}, static_cast<std::int64_t>(dims.size()))[0]);
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

ValueId captured(Graph& body, ValueId outer, const Graph& around) {
  for (const Capture& c : body.captures()) {
    if (c.outer == outer) return c.inner;
  }
  return body.add_capture(outer, around.value(outer).name, around.type(outer));
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
  registry.add_expanded("Loop", expand_loop);
  registry.add_expanded("Scan", expand_scan);
  registry.add("If", if_rule, 0);
}

}  // namespace xrt::autodiff
