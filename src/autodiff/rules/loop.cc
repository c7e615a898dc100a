// SPDX-License-Identifier: Apache-2.0
// Loops. One whose iterations are known and few is written out. Any other one gets further outputs
// that keep what each iteration began with, and its gradient is a Loop that goes through them
// backwards: each iteration computes its own forward part again and carries the gradients of the
// carried values, and the sums of those of the captured ones.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/activity.h"
#include "autodiff/control.h"
#include "autodiff/rule.h"
#include "ir/rewrite.h"
#include "ops/shape_inference.h"

namespace xrt::autodiff {
namespace {

// Written out at most so many nodes: beyond, compiling them costs more than a loop.
constexpr std::int64_t kMostWrittenOut = 4096;

// The loop's body and what its inputs and outputs are.
struct Body {
  const Graph& graph;
  std::size_t carried;  // values, input 2 + i and output 1 + i

  explicit Body(const Rule& r) : graph(body_of(r, "body")), carried(graph.inputs().size() - 2) {}

  ValueId number() const { return graph.inputs()[0]; }
  ValueId condition() const { return graph.inputs()[1]; }
  ValueId before(std::size_t i) const { return graph.inputs()[2 + i]; }
  ValueId after(std::size_t i) const { return graph.outputs()[1 + i]; }
  std::size_t collected() const { return graph.outputs().size() - 1 - carried; }
};

// The body's outputs and inputs say what it stays: always true.
bool goes_on(const Body& body) {
  const Graph& graph = body.graph;
  ValueId condition = graph.outputs().at(0);
  while (graph.value(condition).origin == Origin::kNode) {
    const Node& node = graph.node(graph.value(condition).producer);
    if (node.op != "Identity" || !node.domain.empty()) return false;
    condition = node.inputs[0];
  }
  const Tensor* constant = graph.constant(condition);
  if (constant != nullptr) {
    return constant->dtype() == DType::kBool && constant->count() == 1 &&
           constant->data<std::uint8_t>()[0] != 0;
  }
  return condition == body.condition();
}

// How often it runs, where that is known and it can be written out.
std::optional<std::int64_t> iterations(const Rule& r, const Body& body) {
  const Graph& graph = r.e.graph();
  const Tensor* count = r.has(0) ? graph.constant(r.node.input(0)) : nullptr;
  if (count == nullptr || count->count() != 1 || !goes_on(body)) return std::nullopt;
  if (r.has(1)) {
    const Tensor* condition = graph.constant(r.node.input(1));
    if (condition == nullptr || condition->data<std::uint8_t>()[0] == 0) return std::nullopt;
  }
  const std::int64_t n = count->to_int64()[0];
  const auto nodes = static_cast<std::int64_t>(std::max<std::size_t>(body.graph.node_count(), 1));
  if (n < 1 || n > kMostWrittenOut / nodes) return std::nullopt;
  return n;
}

std::vector<Var> write_out(Rule& r, const Body& body, std::int64_t count) {
  std::vector<Var> state;
  for (std::size_t i = 0; i < body.carried; ++i) state.push_back(r.x(2 + i));
  std::vector<std::vector<Var>> collected(body.collected());
  const Var yes = r.e.constant(filled(DType::kBool, {}, 1));
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<Var> inputs{r.e.constant(Tensor::scalar(i)), yes};
    inputs.insert(inputs.end(), state.begin(), state.end());
    const std::vector<Var> outputs = iterate(r, body.graph, inputs, i);
    const auto first = outputs.begin() + 1;
    state.assign(first, first + static_cast<std::ptrdiff_t>(body.carried));
    for (std::size_t k = 0; k < collected.size(); ++k) {
      collected[k].push_back(unsqueeze(outputs[1 + body.carried + k], {0}));
    }
  }
  for (const std::vector<Var>& parts : collected) state.push_back(concat(parts, 0));
  return state;
}

// --- what each iteration began with -------------------------------------------------------------

// Whether the body's output k gives its input as it is.
bool passes_on(const Graph& body, std::size_t k, ValueId input) {
  const Value& value = body.value(body.outputs().at(k));
  if (value.origin != Origin::kNode) return false;
  const Node& node = body.node(value.producer);
  return node.op == "Identity" && node.domain.empty() && node.inputs[0] == input;
}

// The last outputs of the node keep its iterations' numbers and its carried values.
bool keeps_states(const Body& body) {
  const std::size_t kept = body.carried + 1;
  if (body.collected() < kept) return false;
  const std::size_t first = body.graph.outputs().size() - kept;
  if (!passes_on(body.graph, first, body.number())) return false;
  for (std::size_t i = 0; i < body.carried; ++i) {
    if (!passes_on(body.graph, first + 1 + i, body.before(i))) return false;
  }
  return true;
}

// Carried values keep the type that they begin with; without that they cannot be stacked. What the
// types leave open is found when they are.
void settle_types(const Rule& r, Graph& body) {
  const std::size_t carried = body.inputs().size() - 2;
  for (std::size_t i = 0; i < carried; ++i) {
    const Type& start = r.x_type(2 + i);
    if (!start.is_tensor() || !start.has_rank()) {
      r.refuse(fmt::format("the carried value {} is {}; a tensor of known rank is wanted", i,
                           to_string(start)));
    }
    body.set_type(body.inputs()[2 + i], start);
  }
  infer_shapes(body);
  for (std::size_t i = 0; i < carried; ++i) {
    const Type& start = r.x_type(2 + i);
    const Type& after = body.type(body.outputs()[1 + i]);
    if (after.has_rank() && after.shape == start.shape) continue;
    r.refuse(
        fmt::format("the carried value {} begins as {} and goes on as {}; its shape has to "
                    "stay",
                    i, to_string(start), to_string(after)));
  }
}

// The same loop with further outputs: the numbers of its iterations and what they began with.
std::vector<Var> keeping_states(Rule& r, const Body& body) {
  auto made = std::make_shared<Graph>(body.graph);
  settle_types(r, *made);
  const auto keep = [&](ValueId v, const char* name) {
    const ValueId kept = made->add_op("Identity", {v}, {}, name);
    made->set_type(kept, Type(made->type(v)));
    made->add_output(kept);
  };
  keep(body.number(), "number_kept");
  for (std::size_t i = 0; i < body.carried; ++i) keep(body.before(i), "state_kept");

  std::vector<DType> dtypes;
  for (std::size_t k = 1; k < made->outputs().size(); ++k) {
    dtypes.push_back(made->type(made->outputs()[k]).dtype);
  }
  std::vector<Var> inputs;
  for (std::size_t i = 0; i < r.input_count(); ++i) inputs.push_back(r.x(i));
  Attributes attributes = r.node.attributes;
  attributes["body"] = made;
  std::vector<Var> outputs = r.e.node("", "Loop", inputs, dtypes, std::move(attributes));
  for (std::size_t k = 0; k < r.node.outputs.size(); ++k) {
    if (r.node.output(k).valid()) r.e.graph().set_type(outputs[k].id, r.y_type(k));
  }
  for (std::size_t i = 0; i < body.carried; ++i) {
    r.e.graph().set_type(outputs[i].id, r.x_type(2 + i));
  }
  return outputs;
}

std::vector<Var> expand_loop(Rule& r) {
  const Body body(r);
  if (const auto count = iterations(r, body)) return write_out(r, body, *count);
  if (keeps_states(body)) return {};
  return keeping_states(r, body);
}

// --- backwards ----------------------------------------------------------------------------------

// Writes the body of the loop that goes backwards.
class Backwards {
 public:
  Backwards(Rule& r, const Body& body)
      : r_(r),
        body_(body),
        made_(std::make_shared<Graph>(body.graph.name() + "_gradient")),
        e_(*made_) {
    e_.set_prefix("grad");
    for (std::size_t i = 0; i < body.carried; ++i) {
      if (is_real(r.x_type(2 + i))) moving_.push_back(i);
    }
  }

  void run() {
    const Var count = iteration_count();
    const Type number = Type::tensor(DType::kInt64, Dims{});
    const ValueId turn = made_->add_input("turn", number);
    const ValueId going = made_->add_input("going", Type::tensor(DType::kBool, Dims{}));
    e_number_ = outer(count.id) - 1.0 - e_.var(turn);
    std::vector<Var> start{count, r_.e.none()};
    std::vector<Var> arriving;
    for (const std::size_t i : moving_) {
      arriving.push_back(e_.var(made_->add_input("gradient", r_.x_type(2 + i))));
      start.push_back(r_.dy(i));
    }
    std::vector<Var> sums;
    for (const ValueId v : r_.captured()) {
      sums.push_back(e_.var(made_->add_input("sum", r_.e.graph().type(v))));
      start.push_back(r_.zeros_like(r_.e.var(v)));
    }
    const std::vector<Var> found = iteration(arriving);
    made_->add_output(made_->add_op("Identity", {going}));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const bool is_sum = i >= arriving.size();
      const Var out = is_sum ? sums[i - arriving.size()] + found[i] : e_.op("Identity", {found[i]});
      made_->set_type(out.id,
                      Type(made_->type(is_sum ? sums[i - arriving.size()].id : arriving[i].id)));
      made_->add_output(out.id);
    }
    give(start);
  }

 private:
  std::size_t first_kept() const { return body_.graph.outputs().size() - 1 - body_.carried - 1; }

  Var iteration_count() {
    const Var numbers = r_.y(first_kept());
    const Var count = squeeze(r_.e.op_to(DType::kInt64, "Shape", {numbers}), {0});
    r_.e.graph().set_type(count.id, Type::tensor(DType::kInt64, Dims{}));
    return count;
  }

  // A value of the graph around, within the new body.
  Var outer(ValueId v) { return e_.var(captured(*made_, v, r_.e.graph())); }

  // Element number_ of what the loop collected.
  Var at_this_turn(ValueId collected, const Type& type) {
    const Var part = gather(outer(collected), e_number_, 0);
    made_->set_type(part.id, type);
    return part;
  }

  // The gradients of what the iteration began with, then those of what it captured.
  std::vector<Var> iteration(const std::vector<Var>& arriving) {
    Graph forward(body_.graph);
    settle_types(r_, forward);
    forward.remap_captures([&](ValueId v) { return outer(v).id; });
    std::vector<ValueId> inputs{e_number_.id, e_.constant(filled(DType::kBool, {}, 1)).id};
    for (std::size_t i = 0; i < body_.carried; ++i) {
      inputs.push_back(at_this_turn(r_.y(first_kept() + 1 + i).id, r_.x_type(2 + i)).id);
    }
    const std::vector<ValueId> results = splice(*made_, forward, inputs, "again/");
    Var loss;
    const auto add = [&](Var value, Var gradient) {
      Var part = e_.op("ReduceSum", {value * gradient}, {{"keepdims", std::int64_t{0}}});
      if (loss.valid()) part = loss + cast(part, loss.dtype);
      loss = part;
    };
    for (std::size_t i = 0; i < moving_.size(); ++i) {
      add(e_.var(results[1 + moving_[i]]), arriving[i]);
    }
    for (std::size_t k = 0; k < body_.collected(); ++k) {
      const std::size_t output = body_.carried + k;
      if (!r_.has_dy(output) || !is_real(r_.y_type(output))) continue;
      const Type& type = forward.type(forward.outputs()[1 + output]);
      add(e_.var(results[1 + output]), at_this_turn(r_.dy(output).id, type));
    }
    std::vector<ValueId> wrt;
    for (const std::size_t i : moving_) wrt.push_back(inputs[2 + i]);
    for (const ValueId v : r_.captured()) wrt.push_back(outer(v).id);
    std::vector<Var> found;
    for (const ValueId v : gradients(*made_, loss.id, wrt, {.allow_unused = true})) {
      found.push_back(e_.var(v));
    }
    return found;
  }

  void give(const std::vector<Var>& start) {
    std::vector<DType> dtypes;
    for (std::size_t i = 2; i < start.size(); ++i) dtypes.push_back(start[i].dtype);
    const std::vector<Var> results = r_.e.node("", "Loop", start, dtypes, {{"body", made_}});
    for (std::size_t i = 0; i < moving_.size(); ++i) r_.give(2 + moving_[i], results[i]);
    for (std::size_t i = 0; i < r_.captured().size(); ++i) {
      r_.give_captured(i, results[moving_.size() + i]);
    }
  }

  Rule& r_;
  const Body& body_;
  std::shared_ptr<Graph> made_;
  Emitter e_;
  Var e_number_;                     // of the iteration that is gone through
  std::vector<std::size_t> moving_;  // carried values that have gradients
};

void loop_rule(Rule& r) {
  const Body body(r);
  Backwards(r, body).run();
}

}  // namespace

void register_loop(RuleRegistry& registry) {
  registry.add_expanded("Loop", expand_loop, kAllInputs, loop_rule);
}

}  // namespace xrt::autodiff
