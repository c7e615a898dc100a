// SPDX-License-Identifier: Apache-2.0
#include "autodiff/training_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "autodiff/activity.h"
#include "autodiff/losses.h"
#include "autodiff/recompute.h"
#include "autodiff/training_mode.h"
#include "ir/rewrite.h"
#include "ops/canonical.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"

namespace xrt::autodiff {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, what); }

// The constant becomes an input that is called as it was.
ValueId open_constant(Graph& graph, ValueId id) {
  const std::string name = graph.value(id).name;
  const ValueId input = graph.add_input(name + "/input", graph.type(id));
  graph.replace_uses(id, input);
  graph.remove_value(id);
  graph.set_value_name(input, name);
  return input;
}

ValueId prediction_of(const Graph& graph, const TrainingSetup& setup) {
  const auto count = static_cast<std::int64_t>(graph.outputs().size());
  if (setup.prediction < 0 || setup.prediction >= count) {
    fail(fmt::format("the model has {} outputs; there is no output {} to compare", count,
                     setup.prediction));
  }
  return graph.outputs()[static_cast<std::size_t>(setup.prediction)];
}

std::vector<ValueId> default_parameters(const Graph& graph, ValueId prediction) {
  const std::vector<bool> leads = leading_to(graph, prediction);
  std::vector<ValueId> found;
  for (const ValueId v : graph.constants()) {
    const Type& type = graph.type(v);
    if (leads[v.index] && is_real(type) && type.rank() > 0) found.push_back(v);
  }
  return found;
}

ValueId constant_named(const Graph& graph, const std::string& name) {
  const auto found = graph.find_value(name);
  if (!found || graph.constant(*found) == nullptr) {
    fail(fmt::format("parameter '{}': the model has no constant of that name", name));
  }
  return *found;
}

// The model's nodes behind inputs of another graph.
struct Base {
  Graph graph;
  std::vector<ValueId> outputs;              // of the model
  std::map<std::string, ValueId> variables;  // inputs by name
};

Base start(const Graph& model, const char* name) {
  Base base{Graph(name), {}, {}};
  base.graph.opsets() = model.opsets();
  std::vector<ValueId> arguments;
  for (const ValueId v : model.inputs()) {
    const std::string& input = model.value(v).name;
    arguments.push_back(base.graph.add_input(input, model.type(v)));
    base.variables[input] = arguments.back();
  }
  base.outputs = splice(base.graph, model, arguments, "");
  return base;
}

ValueId loss_of(Base& base, const TrainingSetup& setup, const std::optional<Type>& target) {
  const ValueId prediction = base.outputs.at(static_cast<std::size_t>(setup.prediction));
  if (setup.loss.kind == "output") return prediction;
  infer_shapes(base.graph);
  const Type wanted = target ? *target : target_type(setup.loss, base.graph.type(prediction));
  const ValueId input = base.graph.add_input(kTargetName, wanted);
  return add_loss(base.graph, setup.loss, prediction, input);
}

// An output of its own name, also where the value is an input or a constant.
std::string add_named_output(Graph& graph, ValueId value, const std::string& name) {
  const ValueId output = graph.add_op("Identity", {value}, {}, name);
  graph.set_type(output, graph.type(value));
  graph.add_output(output);
  return graph.value(output).name;
}

// Where the gradients begin: ones, or the scale of the loss.
ValueId loss_gradient(Graph& graph, DType dtype, const Dims& dims, GradientScaling scaling,
                      TrainingGraph& result) {
  if (scaling != GradientScaling::kChecked) {
    return graph.add_constant("loss_gradient", filled(dtype, dims, 1));
  }
  const ValueId scale = graph.add_input("loss_scale", Type::tensor(DType::kFloat32, Shape{}));
  result.loss_scale = graph.value(scale).name;
  Emitter e(graph);
  const Var seed = cast(e.var(scale), dtype);
  return (dims.empty() ? seed : expand(seed, dims)).id;
}

// Whether every element of all gradients is finite, as a bool scalar. Comparisons say it on every
// engine: a sum may overflow, and a maximum may pass over what is no number.
Var all_finite(Emitter& e, const std::vector<Var>& gradients) {
  std::vector<Var> parts;
  for (const Var g : gradients) {
    const bool is_double = g.dtype == DType::kFloat64;
    const Var x = is_double ? g : cast(g, DType::kFloat32);
    const double largest =
        is_double ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
    const Var inside = less_equal(abs(x), e.scalar(largest, x.dtype));
    parts.push_back(
        e.op("ReduceMin", {cast(inside, DType::kFloat32)}, {{"keepdims", std::int64_t{0}}}));
  }
  return greater(parts.size() == 1 ? parts[0] : e.op("Min", parts), 0.5);
}

// The values after the op "domain:op" over all of them.
std::vector<ValueId> reduced(Graph& graph, const std::string& reduction,
                             std::vector<ValueId> values) {
  const std::size_t colon = reduction.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == reduction.size()) {
    fail(fmt::format("reduction is '{}'; it must be domain:op", reduction));
  }
  const std::string domain = reduction.substr(0, colon);
  graph.opsets().emplace(domain, 1);
  std::vector<std::string> names;
  for (const ValueId v : values) names.push_back(graph.value(v).name + "/reduced");
  const NodeId node = graph.add_node(domain, reduction.substr(colon + 1), values, names);
  std::vector<ValueId> outputs = graph.node(node).outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    graph.set_type(outputs[i], graph.type(values[i]));
  return outputs;
}

}  // namespace

OpenModel open_model(Graph model, const TrainingSetup& setup) {
  infer_shapes(model);
  if (canonicalize(model)) infer_shapes(model);
  OpenModel open{std::move(model), {}, {}};
  Graph& graph = open.graph;
  for (const ValueId v : graph.inputs()) open.data_inputs.push_back(graph.value(v).name);
  if (std::find(open.data_inputs.begin(), open.data_inputs.end(), kTargetName) !=
          open.data_inputs.end() &&
      setup.loss.kind != "output") {
    fail("the model has an input named 'target', the name of the loss's own input: rename it");
  }
  leave_training_mode(graph);
  const ValueId prediction = prediction_of(graph, setup);
  const std::vector<ValueId> running = running_statistics(graph);

  std::vector<ValueId> trained;
  if (setup.parameters.empty()) {
    trained = default_parameters(graph, prediction);
    std::erase_if(trained, [&](ValueId v) {
      return std::find(running.begin(), running.end(), v) != running.end();
    });
  } else {
    for (const std::string& name : setup.parameters) {
      trained.push_back(constant_named(graph, name));
    }
  }
  for (const std::string& name : setup.frozen) std::erase(trained, constant_named(graph, name));
  if (trained.empty()) fail("the model has no parameters to train");

  const auto add = [&](ValueId v, bool is_trained) {
    const Tensor initial = graph.constant(v)->clone();
    const std::string name = graph.value(v).name;
    open_constant(graph, v);
    open.variables.push_back({name, initial, is_trained});
  };
  for (const ValueId v : trained) {
    if (!is_real(graph.type(v))) {
      fail(fmt::format("parameter '{}' is {}; only floating-point tensors are trained",
                       graph.value(v).name, to_string(graph.type(v))));
    }
    add(v, true);
  }
  for (const ValueId v : running) add(v, false);
  return open;
}

TrainingGraph make_training_graph(const OpenModel& model, const TrainingSetup& setup,
                                  const Optimizer& optimizer, const std::optional<Type>& target,
                                  const Simplify& simplify) {
  TrainingGraph result;
  Graph forward = model.graph;
  fold_known_values(forward);
  TrainingMode mode;
  if (setup.train_mode) mode = enter_training_mode(forward);
  if (mode.key.valid()) result.drop_key = forward.value(mode.key).name;
  for (const auto& [input, next] : mode.running) forward.add_output(next);
  simplify(forward);

  Base base = start(forward, "training_step");
  Graph& graph = base.graph;
  if (setup.loss.kind != "output") result.target = kTargetName;
  ValueId loss = loss_of(base, setup, target);
  if (setup.reduction.empty()) {
    result.loss = add_named_output(graph, loss, "loss");
    loss = graph.outputs()[0];
  }
  infer_shapes(graph);

  std::vector<ValueId> parameters;
  std::vector<std::string> names;
  for (const Variable& variable : model.variables) {
    if (!variable.trained) continue;
    parameters.push_back(base.variables.at(variable.name));
    names.push_back(variable.name);
  }
  const Type loss_type = graph.type(loss);
  const auto loss_dims = loss_type.static_dims();
  if (!loss_dims || element_count(*loss_dims) != 1) {
    fail(fmt::format("the loss is {}; it must have one element: reduce it to its mean or its sum",
                     to_string(loss_type)));
  }
  const ValueId seed = loss_gradient(graph, loss_type.dtype, *loss_dims, setup.scaling, result);
  std::vector<ValueId> raw =
      gradients(graph, loss, parameters, {.allow_unused = false, .seed = seed});
  std::vector<ValueId> variables;
  for (const Variable& variable : model.variables) {
    variables.push_back(base.variables.at(variable.name));
  }
  recompute(graph, loss, seed, variables, setup.recompute);
  if (!setup.reduction.empty()) {
    raw.insert(raw.begin(), loss);
    raw = reduced(graph, setup.reduction, std::move(raw));
    result.loss = add_named_output(graph, raw.front(), "loss");
    raw.erase(raw.begin());
  }

  Emitter e(graph);
  e.set_prefix("update");
  DType scalar_dtype = DType::kFloat32;
  for (const ValueId p : parameters) {
    if (graph.type(p).dtype == DType::kFloat64) scalar_dtype = DType::kFloat64;
  }
  std::vector<Var> scalars;
  for (const StepScalar& scalar : optimizer.scalars()) {
    const ValueId input = graph.add_input(scalar.name, Type::tensor(scalar_dtype, Shape{}));
    result.scalars.push_back(graph.value(input).name);
    scalars.push_back(e.var(input));
  }
  std::vector<Var> steps;
  steps.reserve(raw.size());
  for (const ValueId g : raw) steps.push_back(e.var(g));
  if (setup.scaling != GradientScaling::kNone) {
    const ValueId factor = graph.add_input("gradient_factor", Type::tensor(scalar_dtype, Shape{}));
    result.gradient_factor = graph.value(factor).name;
    for (Var& g : steps) g = g * cast(e.var(factor), g.dtype);
  }
  Var finite = e.none();
  if (setup.scaling == GradientScaling::kChecked) {
    finite = all_finite(e, steps);
    result.finite = add_named_output(graph, cast(finite, DType::kFloat32).id, "finite");
  }
  steps = optimizer.clip(e, std::move(steps));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    e.set_prefix("update/" + names[i]);
    const Type type = graph.type(parameters[i]);
    std::vector<Var> states;
    for (const OptimizerState& state : optimizer.states()) {
      const std::string name = names[i] + ":" + state.suffix;
      states.push_back(e.var(graph.add_input(name, type)));
      result.states.push_back({name, filled(type.dtype, *type.static_dims(), state.initial)});
    }
    const Optimizer::Update update =
        optimizer.update(e.var(parameters[i]), steps[i], states, scalars);
    const auto emit = [&](ValueId old, Var value) {
      if (finite.valid()) value = where(finite, value, e.var(old));
      graph.set_type(value.id, type);
      const std::string name = graph.value(old).name;
      result.aliases.emplace_back(name, add_named_output(graph, value.id, name + "/next"));
    };
    emit(parameters[i], update.parameter);
    for (std::size_t k = 0; k < states.size(); ++k) emit(states[k].id, update.states[k]);
  }
  const std::size_t own_outputs = model.graph.outputs().size();
  for (std::size_t i = 0; i < mode.running.size(); ++i) {
    const std::string name = model.graph.value(mode.running[i].first).name;
    result.aliases.emplace_back(
        name, add_named_output(graph, base.outputs[own_outputs + i], name + "/next"));
  }
  infer_shapes(graph);
  result.graph = std::move(graph);
  return result;
}

Graph make_loss_graph(const OpenModel& model, const TrainingSetup& setup,
                      const std::optional<Type>& target) {
  Base base = start(model.graph, "loss");
  const ValueId loss = loss_of(base, setup, target);
  add_named_output(base.graph, loss, "loss");
  infer_shapes(base.graph);
  return std::move(base.graph);
}

}  // namespace xrt::autodiff
