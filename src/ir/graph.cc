// SPDX-License-Identifier: Apache-2.0
#include "xrt/graph.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "xrt/error.h"

namespace xrt {

// Names to ids. Hash order never leaves this struct: it is only looked things up in.
struct Graph::Index {
  std::unordered_map<std::string, ValueId> values;
  std::unordered_map<std::string, NodeId> nodes;
  std::unordered_map<std::string, std::int32_t> next_suffix;
  std::unordered_set<std::int32_t> outputs;  // those of the graph, by number
  // Outer value to its capture, as they were when there were so many; made anew where that differs.
  std::unordered_map<std::int32_t, ValueId> captures;

  // `wanted`, or the first of wanted_1, wanted_2, … that is free in `taken`.
  template <typename Map>
  std::string unique(std::string_view wanted, const Map& taken, std::string_view kind) {
    std::string base(wanted);
    if (!base.empty() && !taken.contains(base)) return base;
    if (base.empty()) base = kind;
    std::int32_t& next = next_suffix[std::string(kind) + ":" + base];
    for (;;) {
      std::string name = base + "_" + std::to_string(++next);
      if (!taken.contains(name)) return name;
    }
  }
};

namespace {

void insert_sorted(std::vector<Use>& uses, Use use) {
  uses.insert(std::upper_bound(uses.begin(), uses.end(), use), use);
}

std::vector<Graph*> mutable_subgraphs(Node& node) {
  std::vector<Graph*> graphs;
  for (auto& [name, attribute] : node.attributes) {
    if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
      graphs.push_back(one->get());
    } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute)) {
      for (auto& graph : *many) graphs.push_back(graph.get());
    }
  }
  return graphs;
}

}  // namespace

Graph::Graph(std::string name) : name_(std::move(name)), index_(std::make_unique<Index>()) {
  opsets_[""] = kOnnxOpset;
}

Graph::Graph(const Graph& other)
    : name_(other.name_),
      opsets_(other.opsets_),
      metadata_(other.metadata_),
      nodes_(other.nodes_),
      values_(other.values_),
      inputs_(other.inputs_),
      outputs_(other.outputs_),
      captures_(other.captures_),
      input_defaults_(other.input_defaults_),
      live_nodes_(other.live_nodes_),
      index_(std::make_unique<Index>(*other.index_)) {
  index_->captures.clear();  // a copy may be given others (remap_captures)
  for (NodeSlot& s : nodes_) {
    for (auto& [name, attribute] : s.node.attributes) {
      if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
        *one = std::make_shared<Graph>(**one);
      } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute)) {
        for (auto& graph : *many) graph = std::make_shared<Graph>(*graph);
      }
    }
  }
}

Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

Graph& Graph::operator=(const Graph& other) {
  if (this != &other) *this = Graph(other);
  return *this;
}

// --- slots ------------------------------------------------------------------------------------

const Graph::NodeSlot& Graph::slot(NodeId id) const {
  if (id.index < 0 || static_cast<std::size_t>(id.index) >= nodes_.size() ||
      !nodes_[static_cast<std::size_t>(id.index)].alive) {
    throw Error(ErrorCode::kInternal,
                "graph '" + name_ + "' has no node " + std::to_string(id.index));
  }
  return nodes_[static_cast<std::size_t>(id.index)];
}

const Graph::ValueSlot& Graph::slot(ValueId id) const {
  if (id.index < 0 || static_cast<std::size_t>(id.index) >= values_.size() ||
      !values_[static_cast<std::size_t>(id.index)].alive) {
    throw Error(ErrorCode::kInternal,
                "graph '" + name_ + "' has no value " + std::to_string(id.index));
  }
  return values_[static_cast<std::size_t>(id.index)];
}

Graph::NodeSlot& Graph::slot(NodeId id) {
  return const_cast<NodeSlot&>(std::as_const(*this).slot(id));
}

Graph::ValueSlot& Graph::slot(ValueId id) {
  return const_cast<ValueSlot&>(std::as_const(*this).slot(id));
}

// --- building ---------------------------------------------------------------------------------

std::string Graph::unique_value_name(std::string_view wanted) {
  return index_->unique(wanted, index_->values, "value");
}

std::string Graph::unique_node_name(std::string_view wanted) {
  return index_->unique(wanted, index_->nodes, "node");
}

ValueId Graph::new_value(std::string_view name, Type type, Origin origin) {
  const ValueId id{static_cast<std::int32_t>(values_.size())};
  ValueSlot s;
  s.value.name = name;
  if (name.empty() || !index_->values.emplace(s.value.name, id).second) {
    s.value.name = unique_value_name(name);
    index_->values.emplace(s.value.name, id);
  }
  s.value.type = std::move(type);
  s.value.origin = origin;
  values_.push_back(std::move(s));
  return id;
}

ValueId Graph::add_input(std::string_view name, Type type) {
  const ValueId id = new_value(name, std::move(type), Origin::kInput);
  inputs_.push_back(id);
  return id;
}

ValueId Graph::add_constant(std::string_view name, Tensor tensor) {
  if (!tensor.defined()) {
    throw Error(ErrorCode::kInvalidArgument, "constant '" + std::string(name) + "' has no tensor");
  }
  Type type = Type::tensor(tensor.dtype(), tensor.dims());
  const ValueId id = new_value(name, std::move(type), Origin::kConstant);
  slot(id).value.constant = std::move(tensor);
  return id;
}

ValueId Graph::add_capture(ValueId outer, std::string_view name, Type type) {
  constexpr std::size_t kFew = 16;  // are searched
  auto& known = index_->captures;
  if (captures_.size() < kFew) {
    for (const Capture& c : captures_) {
      if (c.outer == outer) return c.inner;
    }
  } else {
    if (known.empty()) {
      for (const Capture& c : captures_) known.emplace(c.outer.index, c.inner);
    }
    if (const auto found = known.find(outer.index); found != known.end()) return found->second;
  }
  const ValueId id = new_value(name, std::move(type), Origin::kCapture);
  captures_.push_back({outer, id});
  if (!known.empty()) known.emplace(outer.index, id);
  return id;
}

NodeId Graph::add_node(std::string_view domain, std::string_view op, std::vector<ValueId> inputs,
                       const std::vector<std::string>& output_names, Attributes attributes,
                       std::string_view node_name, bool omit_empty) {
  for (const ValueId v : inputs) {
    if (v.valid()) slot(v);  // throws for an id that is not of this graph
  }
  const NodeId id{static_cast<std::int32_t>(nodes_.size())};
  NodeSlot s;
  s.node.name = node_name.empty() ? op : node_name;
  if (s.node.name.empty() || !index_->nodes.emplace(s.node.name, id).second) {
    s.node.name = unique_node_name(s.node.name);
    index_->nodes.emplace(s.node.name, id);
  }
  s.node.domain = domain == "ai.onnx" ? std::string_view{} : domain;
  s.node.op = op;
  s.node.inputs = std::move(inputs);
  s.node.attributes = std::move(attributes);
  for (std::size_t i = 0; i < output_names.size(); ++i) {
    if (output_names[i].empty() && omit_empty) {
      s.node.outputs.emplace_back();
      continue;
    }
    const std::string wanted =
        output_names[i].empty() ? s.node.name + ":" + std::to_string(i) : output_names[i];
    const ValueId v = new_value(wanted, Type{}, Origin::kNode);
    Value& value = slot(v).value;
    value.producer = id;
    value.output_index = static_cast<std::int32_t>(i);
    s.node.outputs.push_back(v);
  }
  nodes_.push_back(std::move(s));
  ++live_nodes_;
  const Node& node = nodes_.back().node;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].valid()) add_use(node.inputs[i], {id, static_cast<std::int32_t>(i)});
  }
  add_capture_uses(id);
  return id;
}

ValueId Graph::add_op(std::string_view op, std::vector<ValueId> inputs, Attributes attributes,
                      std::string_view output_name) {
  const NodeId id = add_node("", op, std::move(inputs), {std::string(output_name)},
                             std::move(attributes), output_name);
  return node(id).outputs[0];
}

void Graph::add_output(ValueId value) {
  slot(value);
  outputs_.push_back(value);
  index_->outputs.insert(value.index);
}

// --- uses -------------------------------------------------------------------------------------

void Graph::add_use(ValueId value, Use use) { insert_sorted(slot(value).uses, use); }

void Graph::drop_use(ValueId value, Use use) {
  auto& uses = slot(value).uses;
  const auto it = std::lower_bound(uses.begin(), uses.end(), use);
  if (it != uses.end() && *it == use) uses.erase(it);
}

void Graph::add_capture_uses(NodeId id) {
  std::vector<ValueId> captured;
  for (const Graph* body : subgraphs(slot(id).node)) {
    for (const Capture& c : body->captures_) captured.push_back(c.outer);
  }
  const auto before = [](ValueId a, ValueId b) { return a.index < b.index; };
  std::sort(captured.begin(), captured.end(), before);
  captured.erase(std::unique(captured.begin(), captured.end()), captured.end());
  for (const ValueId v : captured) add_use(v, {id, -1});
}

void Graph::drop_capture_uses(NodeId id) {
  for (const Graph* body : subgraphs(slot(id).node)) {
    for (const Capture& c : body->captures_) {
      if (alive(c.outer)) drop_use(c.outer, {id, -1});
    }
  }
}

// --- reading ----------------------------------------------------------------------------------

const Node& Graph::node(NodeId id) const { return slot(id).node; }
const Value& Graph::value(ValueId id) const { return slot(id).value; }
const std::vector<Use>& Graph::uses(ValueId id) const { return slot(id).uses; }

std::vector<NodeId> Graph::nodes() const {
  std::vector<NodeId> ids;
  ids.reserve(live_nodes_);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].alive) ids.push_back({static_cast<std::int32_t>(i)});
  }
  return ids;
}

bool Graph::alive(NodeId id) const {
  return id.index >= 0 && static_cast<std::size_t>(id.index) < nodes_.size() &&
         nodes_[static_cast<std::size_t>(id.index)].alive;
}

bool Graph::alive(ValueId id) const {
  return id.index >= 0 && static_cast<std::size_t>(id.index) < values_.size() &&
         values_[static_cast<std::size_t>(id.index)].alive;
}

std::vector<ValueId> Graph::constants() const {
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].alive && values_[i].value.origin == Origin::kConstant) {
      ids.push_back({static_cast<std::int32_t>(i)});
    }
  }
  return ids;
}

namespace {

// Whether every node comes after those that it reads from. Then the least node of those left is
// always ready.
bool are_ordered(const Graph& graph, const std::vector<NodeId>& nodes) {
  const auto follows = [&](NodeId id, ValueId v) {
    if (!v.valid()) return true;
    const Value& value = graph.value(v);
    return value.origin != Origin::kNode || value.producer < id;
  };
  return std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    const Node& node = graph.node(id);
    for (const ValueId v : node.inputs) {
      if (!follows(id, v)) return false;
    }
    for (const Graph* body : Graph::subgraphs(node)) {
      for (const Capture& c : body->captures()) {
        if (!follows(id, c.outer)) return false;
      }
    }
    return true;
  });
}

}  // namespace

std::vector<NodeId> Graph::topological_order() const {
  std::vector<NodeId> all = nodes();
  if (are_ordered(*this, all)) return all;
  std::vector<std::int32_t> waiting(nodes_.size(), 0);
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (const NodeId id : all) {
    std::int32_t count = 0;
    for (const ValueId v : dependencies(id)) {
      if (value(v).origin == Origin::kNode) ++count;
    }
    waiting[static_cast<std::size_t>(id.index)] = count;
    if (count == 0) ready.push(id);
  }
  std::vector<NodeId> order;
  order.reserve(all.size());
  while (!ready.empty()) {
    const NodeId id = ready.top();
    ready.pop();
    order.push_back(id);
    for (const ValueId out : node(id).outputs) {
      if (!out.valid()) continue;
      NodeId last;
      for (const Use& use : uses(out)) {
        if (use.node == last) continue;  // uses are sorted by node: count each reader once
        last = use.node;
        if (--waiting[static_cast<std::size_t>(use.node.index)] == 0) ready.push(use.node);
      }
    }
  }
  if (order.size() != all.size()) {
    for (const NodeId id : all) {
      if (waiting[static_cast<std::size_t>(id.index)] > 0) {
        throw Error(ErrorCode::kInvalidModel, "graph '" + name_ + "' has a cycle through node '" +
                                                  node(id).name + "' (" + node(id).qualified_op() +
                                                  ")");
      }
    }
  }
  return order;
}

bool Graph::is_output(ValueId id) const { return index_->outputs.contains(id.index); }

const Tensor* Graph::constant(ValueId id) const {
  if (!id.valid()) return nullptr;
  const Value& v = value(id);
  return v.origin == Origin::kConstant ? &v.constant : nullptr;
}

std::optional<ValueId> Graph::find_value(std::string_view name) const {
  const auto it = index_->values.find(std::string(name));
  if (it == index_->values.end()) return std::nullopt;
  return it->second;
}

std::optional<NodeId> Graph::find_node(std::string_view name) const {
  const auto it = index_->nodes.find(std::string(name));
  if (it == index_->nodes.end()) return std::nullopt;
  return it->second;
}

std::vector<ValueId> Graph::dependencies(NodeId id) const {
  const Node& n = node(id);
  std::vector<ValueId> values;
  values.reserve(n.inputs.size());
  // Few inputs are searched, many (a Concat or Loop of thousands) are remembered.
  constexpr std::size_t kFew = 16;
  std::unordered_set<std::int32_t> seen;
  const auto add = [&](ValueId v) {
    if (!v.valid()) return;
    if (values.size() < kFew) {
      if (std::find(values.begin(), values.end(), v) != values.end()) return;
    } else {
      if (seen.empty()) {
        for (const ValueId earlier : values) seen.insert(earlier.index);
      }
      if (!seen.insert(v.index).second) return;
    }
    values.push_back(v);
  };
  for (const ValueId v : n.inputs) add(v);
  for (const Graph* body : subgraphs(n)) {
    for (const Capture& c : body->captures_) add(c.outer);
  }
  return values;
}

std::vector<const Graph*> Graph::subgraphs(const Node& node) {
  const std::vector<Graph*> graphs = mutable_subgraphs(const_cast<Node&>(node));
  return {graphs.begin(), graphs.end()};
}

// --- changing ---------------------------------------------------------------------------------

void Graph::set_type(ValueId id, Type type) { slot(id).value.type = std::move(type); }

void Graph::set_attribute(NodeId id, std::string_view name, Attribute value) {
  drop_capture_uses(id);
  slot(id).node.attributes.insert_or_assign(std::string(name), std::move(value));
  add_capture_uses(id);
}

void Graph::remove_attribute(NodeId id, std::string_view name) {
  drop_capture_uses(id);
  auto& attributes = slot(id).node.attributes;
  const auto it = attributes.find(name);
  if (it != attributes.end()) attributes.erase(it);
  add_capture_uses(id);
}

void Graph::set_input(NodeId id, std::size_t index, ValueId value) {
  Node& n = slot(id).node;
  if (index >= n.inputs.size()) n.inputs.resize(index + 1);
  const Use use{id, static_cast<std::int32_t>(index)};
  if (n.inputs[index].valid()) drop_use(n.inputs[index], use);
  n.inputs[index] = value;
  if (value.valid()) add_use(value, use);
}

void Graph::set_value_name(ValueId id, std::string_view name) {
  Value& v = slot(id).value;
  if (v.name == name) return;
  if (name.empty() || index_->values.contains(std::string(name))) {
    throw Error(ErrorCode::kInvalidArgument, "graph '" + name_ + "': the value name '" +
                                                 std::string(name) + "' is empty or taken");
  }
  index_->values.erase(v.name);
  v.name = name;
  index_->values.emplace(v.name, id);
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  slot(to);
  const std::vector<Use> uses = slot(from).uses;
  // All at once: one by one each would move those behind it.
  std::vector<Use> inputs;
  for (const Use& use : uses) {
    if (use.index < 0) continue;
    slot(use.node).node.inputs[static_cast<std::size_t>(use.index)] = to;
    inputs.push_back(use);
  }
  std::erase_if(slot(from).uses, [](const Use& use) { return use.index >= 0; });
  std::vector<Use>& now = slot(to).uses;
  const auto end = static_cast<std::ptrdiff_t>(now.size());
  now.insert(now.end(), inputs.begin(), inputs.end());
  std::inplace_merge(now.begin(), now.begin() + end, now.end());
  for (const Use& use : uses) {
    if (use.index >= 0) continue;
    drop_capture_uses(use.node);
    for (Graph* body : mutable_subgraphs(slot(use.node).node)) body->redirect_capture(from, to);
    add_capture_uses(use.node);
  }
  if (!is_output(from)) return;
  std::replace(outputs_.begin(), outputs_.end(), from, to);
  index_->outputs.erase(from.index);
  index_->outputs.insert(to.index);
}

void Graph::redirect_capture(ValueId from, ValueId to) {
  const auto find = [&](ValueId outer) {
    return std::find_if(captures_.begin(), captures_.end(),
                        [&](const Capture& c) { return c.outer == outer; });
  };
  const auto old = find(from);
  if (old == captures_.end()) return;
  const auto other = find(to);
  index_->captures.clear();
  if (other == captures_.end()) {
    old->outer = to;
    return;
  }
  const ValueId inner = old->inner;  // both are captured already: one capture is enough
  replace_uses(inner, other->inner);
  remove_value(inner);
}

void Graph::replace_output(std::size_t index, ValueId value) {
  slot(value);
  outputs_.at(index) = value;
  index_->outputs.clear();
  for (const ValueId out : outputs_) index_->outputs.insert(out.index);
}

void Graph::remove_node(NodeId id) {
  NodeSlot& s = slot(id);
  for (const ValueId out : s.node.outputs) {
    if (out.valid() && (!uses(out).empty() || is_output(out))) {
      throw Error(ErrorCode::kInternal, "graph '" + name_ + "': node '" + s.node.name +
                                            "' cannot be removed: '" + value(out).name +
                                            "' is still read");
    }
  }
  for (std::size_t i = 0; i < s.node.inputs.size(); ++i) {
    if (s.node.inputs[i].valid()) drop_use(s.node.inputs[i], {id, static_cast<std::int32_t>(i)});
  }
  drop_capture_uses(id);
  for (const ValueId out : s.node.outputs) {
    if (!out.valid()) continue;
    index_->values.erase(value(out).name);
    slot(out).alive = false;
  }
  index_->nodes.erase(s.node.name);
  s.node = Node{};
  s.alive = false;
  --live_nodes_;
}

void Graph::remove_value(ValueId id) {
  ValueSlot& s = slot(id);
  if (!s.uses.empty() || is_output(id) || s.value.origin == Origin::kNode) {
    throw Error(ErrorCode::kInternal, "graph '" + name_ + "': value '" + s.value.name +
                                          "' is still in use and cannot be removed");
  }
  if (s.value.origin == Origin::kCapture) {
    std::erase_if(captures_, [&](const Capture& c) { return c.inner == id; });
    index_->captures.clear();
  } else if (s.value.origin == Origin::kInput) {
    std::erase(inputs_, id);
    input_defaults_.erase(id);
  }
  index_->values.erase(s.value.name);
  s.value = Value{};
  s.alive = false;
}

void Graph::set_constant(ValueId id, Tensor tensor) {
  ValueSlot& s = slot(id);
  if (s.value.origin == Origin::kNode) {
    slot(s.value.producer).node.outputs[static_cast<std::size_t>(s.value.output_index)] = {};
  } else if (s.value.origin == Origin::kInput) {
    std::erase(inputs_, id);
    input_defaults_.erase(id);
  } else if (s.value.origin == Origin::kCapture) {
    std::erase_if(captures_, [&](const Capture& c) { return c.inner == id; });
    index_->captures.clear();
  }
  s.value.type = Type::tensor(tensor.dtype(), tensor.dims());
  s.value.origin = Origin::kConstant;
  s.value.producer = {};
  s.value.output_index = 0;
  s.value.constant = std::move(tensor);
}

Graph* Graph::subgraph_for_edit(NodeId id, std::string_view attribute) {
  Node& n = slot(id).node;
  const auto it = n.attributes.find(attribute);
  auto* graph =
      it == n.attributes.end() ? nullptr : std::get_if<std::shared_ptr<Graph>>(&it->second);
  if (graph == nullptr) {
    throw Error(ErrorCode::kInternal,
                "node '" + n.name + "' has no sub-graph '" + std::string(attribute) + "'");
  }
  drop_capture_uses(id);
  return graph->get();
}

void Graph::refresh_captures(NodeId id) { add_capture_uses(id); }

namespace {

// Whether compact() would give every node and value the number that it has.
bool is_compact(const Graph& graph, const std::vector<NodeId>& order) {
  if (graph.node_count() != graph.node_capacity()) return false;
  std::int32_t next = 0;
  const auto is_next = [&](ValueId v) { return v.index == next++; };
  const std::vector<ValueId> constants = graph.constants();
  if (!std::all_of(graph.inputs().begin(), graph.inputs().end(), is_next)) return false;
  for (const Capture& c : graph.captures()) {
    if (!is_next(c.inner)) return false;
  }
  if (!std::all_of(constants.begin(), constants.end(), is_next)) return false;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (static_cast<std::size_t>(order[i].index) != i) return false;
    for (const ValueId v : graph.node(order[i]).outputs) {
      if (v.valid() && !is_next(v)) return false;
    }
  }
  return static_cast<std::size_t>(next) == graph.value_capacity();
}

}  // namespace

void Graph::compact() {
  const std::vector<NodeId> order = topological_order();
  if (is_compact(*this, order)) return;
  Graph fresh(name_);
  fresh.index_->values.reserve(index_->values.size());
  fresh.index_->nodes.reserve(live_nodes_);
  fresh.opsets_ = std::move(opsets_);
  fresh.metadata_ = std::move(metadata_);
  std::vector<ValueId> moved(values_.size());
  const auto take = [&](ValueId old) {
    ValueSlot& from = slot(old);
    const ValueId id{static_cast<std::int32_t>(fresh.values_.size())};
    fresh.index_->values.emplace(from.value.name, id);
    ValueSlot to;
    to.value = std::move(from.value);
    fresh.values_.push_back(std::move(to));
    moved[static_cast<std::size_t>(old.index)] = id;
    return id;
  };
  const auto now = [&](ValueId old) {
    return old.valid() ? moved[static_cast<std::size_t>(old.index)] : old;
  };
  for (const ValueId v : inputs_) fresh.inputs_.push_back(take(v));
  for (const Capture& c : captures_) fresh.captures_.push_back({c.outer, take(c.inner)});
  for (const ValueId v : constants()) take(v);
  for (auto& [id, tensor] : input_defaults_) fresh.input_defaults_.emplace(now(id), tensor);
  for (const NodeId old : order) {
    const NodeId id{static_cast<std::int32_t>(fresh.nodes_.size())};
    Node node = std::move(slot(old).node);
    for (ValueId& v : node.inputs) v = now(v);
    for (ValueId& v : node.outputs) {
      if (!v.valid()) continue;
      v = take(v);
      fresh.slot(v).value.producer = id;
    }
    for (Graph* body : mutable_subgraphs(node)) {
      for (Capture& c : body->captures_) c.outer = now(c.outer);
      body->index_->captures.clear();
    }
    fresh.index_->nodes.emplace(node.name, id);
    fresh.nodes_.push_back({std::move(node), true});
    ++fresh.live_nodes_;
  }
  for (const NodeId id : fresh.nodes()) {
    const Node& node = fresh.node(id);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid()) {
        fresh.add_use(node.inputs[i], {id, static_cast<std::int32_t>(i)});
      }
    }
    fresh.add_capture_uses(id);
  }
  for (const ValueId v : outputs_) fresh.add_output(now(v));
  *this = std::move(fresh);
}

}  // namespace xrt
