// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/support.h"

#include <algorithm>
#include <iterator>
#include <openvino/op/parameter.hpp>
#include <openvino/op/result.hpp>
#include <openvino/op/util/multi_subgraph_base.hpp>
#include <openvino/op/util/rnn_cell_base.hpp>
#include <openvino/runtime/properties.hpp>
#include <optional>
#include <unordered_set>
#include <variant>

#include "engines/openvino/convert.h"
#include "engines/openvino/integers.h"
#include "engines/openvino/library.h"
#include "engines/openvino/rules.h"
#include "engines/openvino/types.h"
#include "ir/extract.h"
#include "ir/pattern.h"
#include "ops/schema.h"

namespace xrt::openvino {
namespace {

// Constants up to this size are part of a signature and of its probe: axes, shapes, scalars.
constexpr std::size_t kSmallConstant = 256;

void append(std::string& out, const void* data, std::size_t bytes) {
  out.append(static_cast<const char*>(data), bytes);
}

void append_type(std::string& out, const Type& type) {
  out += static_cast<char>(type.dtype);
  if (!type.shape) {
    out += '*';
    return;
  }
  for (const Dim& dim : *type.shape) {
    out += dim.is_known() ? (dim.value() > 1 ? 'n' : static_cast<char>('0' + dim.value())) : '?';
  }
}

void append_tensor(std::string& out, const Tensor& tensor) {
  out += to_string(tensor.dims());
  out += static_cast<char>(tensor.dtype());
  if (tensor.dtype() == DType::kString) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) out += tensor.strings()[i] + '\0';
  } else {
    append(out, tensor.raw(), tensor.bytes());
  }
}

void append_attribute(std::string& out, const Attribute& attribute) {
  out += static_cast<char>(attribute.index());
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, float>) {
          append(out, &value, sizeof(value));
        } else if constexpr (std::is_same_v<T, std::string>) {
          out += value;
        } else if constexpr (std::is_same_v<T, Tensor>) {
          append_tensor(out, value);
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>> ||
                             std::is_same_v<T, std::vector<float>>) {
          append(out, value.data(), value.size() * sizeof(value[0]));
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          for (const std::string& item : value) out += item + '\0';
        } else if constexpr (std::is_same_v<T, Type>) {
          out += to_string(value);
        }
        // Sub-graphs have no signature; lists of tensors, graphs and types are no attribute of an
        // op that the frontend reads.
      },
      attribute);
  out += '\1';
}

// Constants that a probe keeps. ConstantOfShape has none: the plugin would fold it, and its result
// may be as large as the weights of a model.
bool is_small_constant(const Graph& graph, const Node& node, ValueId id) {
  const Tensor* tensor = graph.constant(id);
  return tensor != nullptr && tensor->bytes() <= kSmallConstant && node.op != "ConstantOfShape";
}

std::string signature(const Graph& graph, const Node& node) {
  std::string out = node.qualified_op();
  out += '\1';
  for (const auto& [name, value] : node.attributes) {
    out += name;
    out += '=';
    append_attribute(out, value);
  }
  for (const ValueId id : node.inputs) {
    out += '|';
    if (!id.valid()) continue;
    if (is_small_constant(graph, node, id)) {
      append_tensor(out, *graph.constant(id));
    } else {
      out += graph.constant(id) != nullptr ? 'c' : 'v';
      append_type(out, graph.type(id));
    }
  }
  for (const ValueId id : node.outputs) {
    out += '>';
    if (id.valid()) append_type(out, graph.type(id));
  }
  return out;
}

// Bodies in bodies: the plugin compiles each level twice as long as the one inside.
constexpr int kMostLevels = 8;

std::optional<std::string> subgraph_refusal(const Node& node, int level = 1) {
  const std::vector<const Graph*> bodies = Graph::subgraphs(node);
  if (!bodies.empty() && level > kMostLevels) {
    return "bodies stand in one another " + std::to_string(level) +
           " deep, and each level doubles the CPU plugin's time to compile";
  }
  for (const Graph* body : bodies) {
    const GrownIntegers integers(*body);
    for (const NodeId id : body->nodes()) {
      const Node& inner = body->node(id);
      std::optional<std::string> reason = type_refusal(*body, inner);
      if (!reason) reason = integers.refusal(inner);
      if (!reason) reason = op_refusal(*body, inner);
      // What is around bodies it makes of smaller ops.
      if (!reason && is_op(inner, "GroupNormalization")) {
        reason = "the CPU plugin does not compile it in a body";
      }
      if (!reason) reason = subgraph_refusal(inner, level + 1);
      if (reason) return "its sub-graph has '" + inner.name + "' (" + inner.op + "): " + *reason;
    }
  }
  return std::nullopt;
}

// Adds a copy of the node to `target`, with what it reads as inputs; small constants stay
// constants.
NodeId copy_alone(const Graph& graph, const Node& node, Graph& target) {
  std::vector<ValueId> inputs;
  std::map<ValueId, ValueId> made;
  for (const ValueId id : node.inputs) {
    ValueId& copy = made[id];
    if (id.valid() && !copy.valid()) {
      const Value& value = graph.value(id);
      copy = is_small_constant(graph, node, id) ? target.add_constant({}, value.constant)
                                                : target.add_input({}, value.type);
    }
    inputs.push_back(copy);
  }
  std::vector<std::string> names;
  for (const ValueId id : node.outputs) names.push_back(id.valid() ? graph.value(id).name : "");
  const NodeId copy = target.add_node(node.domain, node.op, inputs, names, node.attributes,
                                      node.name, /*omit_empty=*/true);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = target.node(copy).output(i);
    if (!output.valid()) continue;
    target.set_type(output, graph.type(node.outputs[i]));
    target.add_output(output);
  }
  return copy;
}

// The ops that compute `results`, each once, in an order that depends on the graph alone.
std::vector<ov::Node*> ops_behind(const ov::OutputVector& results) {
  std::vector<ov::Node*> ops;
  std::unordered_set<ov::Node*> seen;
  std::vector<ov::Node*> todo;
  for (const auto& result : results) todo.push_back(result.get_node());
  while (!todo.empty()) {
    ov::Node* op = todo.back();
    todo.pop_back();
    if (!seen.insert(op).second) continue;
    ops.push_back(op);
    for (const auto& input : op->input_values()) todo.push_back(input.get_node());
  }
  return ops;
}

bool makes_output(const Graph& graph, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId v) { return v.valid() && graph.is_output(v); });
}

// What the plugin's answer depends on: types of ops, element types and ranks.
std::string kind_of(const ov::OutputVector& results) {
  std::string kind;
  for (const ov::Node* op : ops_behind(results)) {
    kind += op->get_type_info().name;
    kind += op->get_type_info().version_id;
    for (const auto& output : op->outputs()) {
      const ov::PartialShape& shape = output.get_partial_shape();
      kind += output.get_element_type().to_string();
      kind += shape.rank().is_static() ? std::to_string(shape.size()) : "*";
      kind += shape.is_static() ? 's' : 'd';
    }
    if (const auto* cell = dynamic_cast<const ov::op::util::RNNCellBase*>(op)) {
      for (const std::string& function : cell->get_activations()) kind += function + ',';
    }
    // What is inside a loop or a branch is not behind it: such ops are never of a known kind.
    const auto* body = dynamic_cast<const ov::op::util::MultiSubGraphOp*>(op);
    if (body != nullptr) kind += op->get_friendly_name() + std::to_string(op->get_instance_id());
    kind += ';';
  }
  return kind;
}

// By node: how many QuantizeLinear stand in a row to it, with nothing but DequantizeLinear between.
std::vector<std::size_t> roundings_in_a_row(const Graph& graph) {
  std::vector<std::size_t> rows(graph.node_capacity());
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (!node.domain.empty() || node.op != "QuantizeLinear") continue;
    const Node* back = producer(graph, node.input(0), "DequantizeLinear");
    std::size_t& row = rows[static_cast<std::size_t>(id.index)];
    row = 1;
    if (back == nullptr || producer(graph, back->input(0)) == nullptr) continue;
    row += rows[static_cast<std::size_t>(graph.value(back->input(0)).producer.index)];
  }
  return rows;
}

}  // namespace

Support SupportOracle::to_support(const Answer& answer) {
  return answer.how == How::kNot ? Support::no(answer.reason) : Support::yes();
}

SupportOracle::Answer SupportOracle::judge(
    const Graph& graph, NodeId id, const std::map<std::string, ov::Output<ov::Node>>& results,
    const std::map<std::string, std::string>& failed) {
  const Node& node = graph.node(id);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    const Value& value = graph.value(node.outputs[i]);
    if (const auto found = failed.find(value.name); found != failed.end()) {
      return {How::kNot, "OpenVINO cannot: " + readable(found->second)};
    }
    const ov::Output<ov::Node>& port = results.at(value.name);
    const std::string place = "OpenVINO gives its output " + std::to_string(i) + " the ";
    if (port.get_element_type() != to_element_type(value.type.dtype)) {
      return {How::kNot, place + "type " + port.get_element_type().get_type_name() +
                             " instead of " + std::string(to_string(value.type.dtype))};
    }
    if (!port.get_partial_shape().compatible(to_partial_shape(value.type))) {
      return {How::kNot, place + "shape " + port.get_partial_shape().to_string() + " instead of " +
                             to_string(value.type)};
    }
  }
  return {How::kDirectly, {}};
}

Support SupportOracle::check(const Graph& graph, NodeId id) {
  return to_support(check_nodes(graph, std::span(&id, 1))[0]);
}

std::vector<Support> SupportOracle::check_all(const Graph& graph) {
  const std::vector<NodeId> ids = graph.nodes();
  const std::vector<Answer> answers = check_nodes(graph, ids);
  std::vector<Support> out(graph.node_capacity(), Support::no("not a live node"));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    out[static_cast<std::size_t>(ids[i].index)] = to_support(answers[i]);
  }
  const std::vector<std::size_t> groups = elementwise_groups(graph);
  const std::vector<std::size_t> roundings = roundings_in_a_row(graph);
  constexpr std::size_t kMostRoundings = 8;
  // The time for the others grows with the square of their number.
  constexpr std::size_t kMostOutputs = 1000;
  std::size_t with_outputs = 0;
  constexpr std::size_t kMostProducts = 2000;
  std::size_t products = 0;
  for (const NodeId id : ids) {
    const auto i = static_cast<std::size_t>(id.index);
    const Node& node = graph.node(id);
    if (out[i] && (is_op(node, "MatMul") || is_op(node, "Gemm")) && ++products > kMostProducts) {
      out[i] = Support::no("it is one of more than " + std::to_string(kMostProducts) +
                           " products: compiling them takes the CPU plugin minutes");
    }
    if (out[i] && makes_output(graph, node) && ++with_outputs > kMostOutputs) {
      out[i] = Support::no("it makes one of more than " + std::to_string(kMostOutputs) +
                           " results of the graph: compiling them takes the CPU plugin minutes");
    }
    if (out[i] && roundings[i] > kMostRoundings) {
      out[i] = Support::no("it is one of more than " + std::to_string(kMostRoundings) +
                           " roundings in a row: each doubles the time that the CPU plugin takes");
    }
    if (groups[i] <= kMostInOneGroup || !out[i]) continue;
    out[i] =
        Support::no("it is one of " + std::to_string(groups[i]) +
                    " elementwise nodes in a row: compiling them takes the CPU plugin minutes");
  }
  return out;
}

std::optional<Graph> SupportOracle::expanded(const Graph& graph) {
  std::optional<Graph> copy;
  while (true) {
    const Graph& current = copy ? *copy : graph;
    const std::vector<NodeId> ids = current.nodes();
    const std::vector<Answer> answers = check_nodes(current, ids);
    std::vector<bool> by_body(current.node_capacity());
    bool any = false;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (answers[i].how != How::kByBody) continue;
      by_body[static_cast<std::size_t>(ids[i].index)] = any = true;
    }
    if (!any) return copy;
    if (!copy) copy = graph;
    // Nodes that an expansion adds are judged in the next round.
    expand_functions(*copy, [&](const Graph& where, NodeId id) {
      const auto index = static_cast<std::size_t>(id.index);
      return &where == &*copy && index < by_body.size() && by_body[index];
    });
  }
}

std::vector<SupportOracle::Answer> SupportOracle::check_nodes(const Graph& graph,
                                                              std::span<const NodeId> ids) {
  std::vector<Answer> out(ids.size());
  std::vector<std::string> keys(ids.size());
  std::vector<Probe> unknown;
  const GrownIntegers integers(graph);
  {
    const std::scoped_lock lock(mutex_);
    std::unordered_set<std::string_view> asked;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Node& node = graph.node(ids[i]);
      std::optional<std::string> reason = type_refusal(graph, node);
      if (!reason) reason = integers.refusal(node);
      if (reason) {
        out[i] = {How::kNot, *reason};
      } else if (Graph::subgraphs(node).empty()) {
        keys[i] = signature(graph, node);
        if (!answers_.contains(keys[i]) && asked.insert(keys[i]).second) {
          unknown.push_back({&graph, ids[i], keys[i]});
        }
      }
    }
  }
  // Outside the lock: two threads may ask the same, and get the same answer.
  std::vector<Answer> answers = answer(unknown);
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      answers_.insert_or_assign(unknown[i].key, std::move(answers[i]));
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!keys[i].empty()) out[i] = answers_.at(keys[i]);
    }
  }
  // The plugin compiles each body by itself, in 20 to 100 ms, and to ask takes as long.
  constexpr std::size_t kMostWithBodies = 64;
  std::size_t with_bodies = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (Graph::subgraphs(graph.node(ids[i])).empty() || !out[i].reason.empty()) continue;
    if (++with_bodies <= kMostWithBodies) {
      out[i] = probe_with_subgraphs(graph, ids[i]);
    } else {
      out[i] = {How::kNot, "it is one of more than " + std::to_string(kMostWithBodies) +
                               " nodes with bodies: compiling them takes the CPU plugin minutes"};
    }
  }
  return out;
}

// The op itself where it may, else the op's function body, node by node.
std::vector<SupportOracle::Answer> SupportOracle::answer(std::span<const Probe> unknown) {
  std::vector<Answer> answers(unknown.size());
  std::vector<Probe> direct;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    const Graph& graph = *unknown[i].graph;
    if (auto reason = op_refusal(graph, graph.node(unknown[i].node))) {
      answers[i] = {How::kNot, *reason};
    } else {
      direct.push_back(unknown[i]);
      places.push_back(i);
    }
  }
  std::vector<Answer> probed = probe(direct);
  for (std::size_t i = 0; i < places.size(); ++i) answers[places[i]] = std::move(probed[i]);
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    const Graph& graph = *unknown[i].graph;
    if (answers[i].how != How::kNot || !has_function_body(graph, unknown[i].node)) continue;
    const Graph body = function_body(graph, unknown[i].node);
    const std::vector<NodeId> ids = body.nodes();
    const std::vector<Answer> inner = check_nodes(body, ids);
    std::size_t bad = 0;
    while (bad < ids.size() && inner[bad].how != How::kNot) ++bad;
    if (bad == ids.size()) {
      answers[i] = {How::kByBody, {}};
    } else {
      answers[i].reason +=
          "; nor its function body, which has " + body.node(ids[bad]).op + ": " + inner[bad].reason;
    }
  }
  return answers;
}

// All probes as one model of unconnected nodes: the plugin's passes cost as much for one node as
// for hundreds. If the whole cannot be judged, each half is.
std::vector<SupportOracle::Answer> SupportOracle::probe(std::span<const Probe> probes) {
  if (probes.empty()) return {};
  try {
    return probe_together(probes);
  } catch (const std::exception& error) {
    if (probes.size() == 1) return {{How::kNot, "OpenVINO cannot: " + readable(error.what())}};
  }
  const std::size_t half = probes.size() / 2;
  std::vector<Answer> answers = probe(probes.first(half));
  std::vector<Answer> rest = probe(probes.subspan(half));
  std::move(rest.begin(), rest.end(), std::back_inserter(answers));
  return answers;
}

std::vector<SupportOracle::Answer> SupportOracle::probe_together(std::span<const Probe> probes) {
  Graph together("probe");
  std::vector<NodeId> copies;
  for (const Probe& probe : probes) {
    copies.push_back(copy_alone(*probe.graph, probe.graph->node(probe.node), together));
  }
  std::map<std::string, std::string> failed;
  const std::shared_ptr<ov::Model> model = convert_leniently(together, failed);
  std::map<std::string, ov::Output<ov::Node>> results;
  for (const auto& result : model->get_results()) {
    results[result->get_friendly_name()] = result->input_value(0);
  }
  std::vector<Answer> answers(probes.size());
  for (std::size_t i = 0; i < probes.size(); ++i) {
    answers[i] = judge(together, copies[i], results, failed);
  }
  std::vector<ov::OutputVector> behind(probes.size());
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (answers[i].how == How::kNot) continue;
    for (const ValueId output : together.node(copies[i]).outputs) {
      if (output.valid()) behind[i].push_back(results.at(together.value(output).name));
    }
  }
  const std::vector<std::string> missing = unsupported_ops(behind);
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (missing[i].empty()) continue;
    answers[i] = {How::kNot, "the CPU plugin does not take OpenVINO's " + missing[i]};
  }
  return answers;
}

// A copy of the graph with all other nodes cut off: what sub-graphs capture stays in place.
// The frontend ends the process where a sub-graph has an op that it does not know.
std::optional<std::string> SupportOracle::unknown_inside(const Node& node) {
  for (const Graph* body : Graph::subgraphs(node)) {
    std::vector<NodeId> ids;  // of those that can be asked about without what is around
    for (const NodeId id : body->nodes()) {
      if (Graph::subgraphs(body->node(id)).empty()) {
        ids.push_back(id);
      } else if (auto reason = unknown_inside(body->node(id))) {
        return reason;
      }
    }
    const std::vector<Answer> answers = check_nodes(*body, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (answers[i].how == How::kDirectly) continue;
      const Node& inner = body->node(ids[i]);
      const char* by_body = "OpenVINO knows it by its function body alone";
      return "its sub-graph has '" + inner.name + "' (" + inner.op +
             "): " + (answers[i].how == How::kByBody ? by_body : answers[i].reason);
    }
  }
  return std::nullopt;
}

SupportOracle::Answer SupportOracle::probe_with_subgraphs(const Graph& graph, NodeId id) {
  if (auto reason = op_refusal(graph, graph.node(id))) return {How::kNot, *reason};
  if (auto reason = subgraph_refusal(graph.node(id))) return {How::kNot, *reason};
  if (auto reason = unknown_inside(graph.node(id))) return {How::kNot, *reason};
  try {
    Graph alone = extract(graph, {id}, graph.node(id).name).graph;
    const NodeId only = alone.nodes().front();
    for (const ValueId output : alone.node(only).outputs) {
      if (output.valid() && !alone.is_output(output)) alone.add_output(output);
    }
    const std::shared_ptr<ov::Model> model = convert(alone);
    std::map<std::string, ov::Output<ov::Node>> results;
    const std::vector<ValueId> outputs = computed_outputs(alone);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      results[alone.value(outputs[i]).name] = model->output(i).get_node()->input_value(0);
    }
    Answer answer = judge(alone, only, results, {});
    if (answer.how == How::kNot) return answer;
    ov::OutputVector behind;
    for (const auto& [name, result] : results) behind.push_back(result);
    const std::string missing = unsupported_ops({behind})[0];
    if (!missing.empty()) {
      return {How::kNot, "the CPU plugin does not take OpenVINO's " + missing};
    }
    return answer;
  } catch (const std::exception& error) {
    return {How::kNot, "OpenVINO cannot: " + readable(error.what())};
  }
}

// What query_model says about the ops behind each list of results: the type name of one that the
// plugin does not take, or "". A query costs nearly as much as a compilation, so it is asked once
// per process for each kind of ops.
std::vector<std::string> SupportOracle::unsupported_ops(
    const std::vector<ov::OutputVector>& groups) {
  std::vector<std::string> missing(groups.size()), kinds(groups.size());
  std::map<std::string, std::size_t> asked;  // kind → the group that stands for it
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].empty()) continue;
      kinds[i] = kind_of(groups[i]);
      if (!plugin_answers_.contains(kinds[i])) asked.emplace(kinds[i], i);
    }
  }
  std::map<std::string, std::string> fresh;
  if (!asked.empty()) {
    ov::ResultVector results;
    ov::ParameterVector parameters;
    std::size_t count = 0;
    for (const auto& [kind, i] : asked) {
      for (const auto& output : groups[i]) {
        results.push_back(std::make_shared<ov::op::v0::Result>(output));
      }
      for (ov::Node* op : ops_behind(groups[i])) {
        // The answer is by name.
        op->set_friendly_name("op" + std::to_string(count++));
        auto parameter = std::dynamic_pointer_cast<ov::op::v0::Parameter>(op->shared_from_this());
        if (parameter) parameters.push_back(std::move(parameter));
      }
    }
    const ov::SupportedOpsMap supported =
        core_->query_model(std::make_shared<ov::Model>(results, parameters), "CPU",
                           ov::hint::inference_precision(ov::element::f32));
    for (const auto& [kind, i] : asked) {
      std::string& answer = fresh[kind];
      for (const ov::Node* op : ops_behind(groups[i])) {
        if (!supported.contains(op->get_friendly_name())) answer = op->get_type_name();
      }
    }
  }
  const std::scoped_lock lock(mutex_);
  plugin_answers_.insert(fresh.begin(), fresh.end());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!kinds[i].empty()) missing[i] = plugin_answers_.at(kinds[i]);
  }
  return missing;
}

}  // namespace xrt::openvino
