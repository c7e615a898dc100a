// SPDX-License-Identifier: Apache-2.0
#include "exec/value_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "base/element.h"
#include "exec/native_evaluator.h"
#include "ir/extract.h"
#include "ops/shape_inference.h"
#include "ops/sizes/empties.h"
#include "ops/sizes/open_sizes.h"
#include "ops/sizes/size_rules.h"
#include "passes/passes.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Sets of sizes that are remembered.
constexpr std::size_t kMaxKnown = 1024;
// Elements of an operand that decides a shape: no tensor has as many axes.
constexpr std::int64_t kMaxShapeElements = 256;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

std::string said(const Node& node, const std::string& wrong) {
  return fmt::format("node '{}' ({}): {}", node.name, node.qualified_op(), wrong);
}

// The number that a constant holds; nothing where the value is none.
std::optional<double> number_of(const Graph& graph, ValueId value) {
  const Tensor* constant = graph.constant(value);
  if (constant == nullptr || constant->count() != 1 || constant->dtype() == DType::kString) {
    return std::nullopt;
  }
  return element_as_double(*constant, 0);
}

// Type inference subtracts the ends in their own type, and takes what overflows for an empty range.
std::optional<double> bytes_of_range(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || node.op != "Range") return std::nullopt;
  const auto start = number_of(graph, node.input(0));
  const auto limit = number_of(graph, node.input(1));
  const auto step = number_of(graph, node.input(2));
  if (!start || !limit || !step || *step == 0) return std::nullopt;
  const double count = std::max(std::ceil((*limit - *start) / *step), 0.0);
  return count * static_cast<double>(byte_count(graph.type(node.outputs[0]).dtype, Dims{1}));
}

}  // namespace

// What inference does not know for wrong, among it results that are larger than a run may take.
void check_sizes(const Graph& graph, std::size_t most) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (const auto wrong = sizes_refusal(graph, node)) {
      refuse(said(node, *wrong));
    }
    const auto range = bytes_of_range(graph, node);
    if (range && *range > static_cast<double>(most)) {
      throw Error(ErrorCode::kResource,
                  fmt::format("node '{}' (Range): '{}' would have {:.0f} bytes; a run may take {} "
                              "(max_memory_bytes)",
                              node.name, graph.value(node.outputs[0]).name, *range, most));
    }
    for (const ValueId v : node.outputs) {
      if (!v.valid() || !graph.type(v).is_tensor() || !graph.type(v).is_static()) continue;
      const Type& type = graph.type(v);
      if (type.dtype == DType::kUndefined) continue;
      const std::size_t bytes = byte_count(type.dtype, *type.static_dims());
      if (bytes <= most) continue;
      throw Error(ErrorCode::kResource,
                  fmt::format("node '{}' ({}): '{}' would be {} of {} bytes; a run may take {} "
                              "(max_memory_bytes)",
                              node.name, node.qualified_op(), graph.value(v).name, to_string(type),
                              bytes, most));
    }
  }
}

namespace {

// What an engine that may end the process is not to see: values without elements, and in bodies
// sizes that do not agree, which is an error only where the body runs.
std::optional<std::string> bad_size(const Graph& graph, bool is_body = false) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    auto wrong = empties_refusal(graph, node);
    if (!wrong && is_body) wrong = sizes_refusal(graph, node);
    if (wrong) return said(node, *wrong);
    for (const Graph* body : Graph::subgraphs(node)) {
      if (auto inner = bad_size(*body, /*is_body=*/true)) return inner;
    }
  }
  return std::nullopt;
}

// A node that reads sizes which are not known; those that data decides are at a border.
std::optional<std::string> unknown_size(const Graph& graph) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    for (const ValueId v : node.inputs) {
      if (!v.valid() || !graph.type(v).is_tensor() || graph.type(v).is_static()) continue;
      return said(node, fmt::format("the sizes of '{}' cannot be told", graph.value(v).name));
    }
    for (const Graph* body : Graph::subgraphs(node)) {
      if (auto inner = unknown_size(*body)) return inner;
    }
  }
  return std::nullopt;
}

// Small integers that sizes follow from, where inference does not know them, are computed.
void follow_sizes(Graph& graph, std::size_t most) {
  constexpr std::size_t kMostOfSizes = 4096;
  const std::vector<ValueId> constants = graph.constants();
  for (const ValueId v : constants) {  // weights: nothing is to be computed of them here
    if (graph.constant(v)->bytes() <= kMostOfSizes) continue;
    graph.replace_uses(v, graph.add_input({}, graph.type(v)));
  }
  // Each turn follows sizes through one more node that inference does not know.
  constexpr int kMostTurns = 32;
  const Evaluator evaluate = native_evaluator(most);
  for (int turn = 0; turn < kMostTurns && unknown_size(graph); ++turn) {
    const bool by_inference = fold_known_values(graph);
    const bool by_values = evaluate && fold_constants(graph, evaluate);
    if (!by_inference && !by_values) break;
    infer_shapes(graph, /*reset=*/true);
  }
}

// Why such an engine is not to run the function at the sizes of the graph's types.
std::optional<std::string> unfit(Graph graph, std::size_t most) {
  if (unknown_size(graph)) {
    try {
      follow_sizes(graph, most);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidModel) throw;
      refuse(error.what());
    }
    check_sizes(graph, most);
  }
  if (auto wrong = bad_size(graph)) return wrong;
  return unknown_size(graph);
}

// The nodes that a value is computed by, in order, from those on that read sizes; none where some
// of it is an element of an input.
std::vector<NodeId> makers(const Graph& graph, ValueId value) {
  std::set<NodeId> found;
  std::vector<ValueId> todo = {value};
  while (!todo.empty()) {
    const Value& one = graph.value(todo.back());
    todo.pop_back();
    if (one.origin == Origin::kConstant) continue;
    if (one.origin != Origin::kNode) return {};
    if (!found.insert(one.producer).second) continue;
    const Node& node = graph.node(one.producer);
    if (node.domain.empty() && (node.op == "Shape" || node.op == "Size")) continue;
    for (const ValueId v : node.inputs) {
      if (v.valid()) todo.push_back(v);
    }
  }
  std::vector<NodeId> ordered = graph.topological_order();
  std::erase_if(ordered, [&](NodeId id) { return !found.contains(id); });
  return ordered;
}

// What follows from the sizes of the graph's types and constants; nothing where the value does not,
// or native is not there.
std::optional<Tensor> computed(const Graph& graph, ValueId value, std::size_t most) {
  const Evaluator evaluate = native_evaluator(most);
  const std::vector<NodeId> nodes = makers(graph, value);
  if (nodes.empty() || !evaluate) return std::nullopt;
  Extract part = extract(graph, nodes, {});
  const auto at = std::find(part.outputs.begin(), part.outputs.end(), value);
  const ValueId inside =
      part.graph.outputs().at(static_cast<std::size_t>(at - part.outputs.begin()));
  fold_known_values(part.graph);  // sizes become constants
  const Extract rest = extract(part.graph, makers(part.graph, inside), {});
  if (!rest.inputs.empty()) return std::nullopt;
  const auto found = std::find(rest.outputs.begin(), rest.outputs.end(), inside);
  const std::vector<Data> results = evaluate(rest.graph);
  const Data& result = results.at(static_cast<std::size_t>(found - rest.outputs.begin()));
  return result.is_tensor() ? std::optional(result.tensor()) : std::nullopt;
}

}  // namespace

ValueChecks::ValueChecks(std::shared_ptr<const Graph> function, Judge judge, std::size_t most_bytes,
                         int threads, bool tells_memory)
    : function_(std::move(function)),
      judge_(judge),
      most_bytes_(most_bytes),
      threads_(threads),
      tells_memory_(tells_memory),
      decides_shapes_(function_->inputs().size(), false) {
  for (const NodeId id : function_->topological_order()) {
    const Node& node = function_->node(id);
    if (judge != Judge::kKnown) {
      for (const DecidingOperand& operand : deciding_operands(node)) add(id, operand);
    }
    if (judge == Judge::kEngine || !wrong_.empty()) continue;
    if (const auto wrong = sizes_refusal(*function_, node)) wrong_ = said(node, *wrong);
  }
  if (judge == Judge::kKnown) return;
  if (judge != Judge::kEngine) sized_ = sized_operands(*function_);
  // An engine that judges sizes by itself does so without the bound on memory.
  is_open_ =
      !sized_.empty() ||
      std::find(decides_shapes_.begin(), decides_shapes_.end(), true) != decides_shapes_.end() ||
      (judge != Judge::kEngine && has_open_sizes());
}

void ValueChecks::add(NodeId id, const DecidingOperand& operand) {
  const Graph& graph = *function_;
  const Node& node = graph.node(id);
  const ValueId value = node.input(operand.operand);
  if (!value.valid() || !graph.type(value).is_tensor()) return;
  Check made{0, id, operand, deciding_sizes(graph, node, operand)};
  const bool in_order = operand.decides == Decides::kCoordinates ||
                        operand.decides == Decides::kMask || operand.shapes;
  const auto origin = origin_of(graph, value, in_order);
  if (!origin) return;
  if (const Tensor* constant = graph.constant(*origin)) {
    if (!made.sizes) {
      made.constant = *constant;
      checks_.push_back(std::move(made));
    } else if (const auto wrong = refusal(*constant, operand.decides, *made.sizes)) {
      if (wrong_.empty()) wrong_ = place(id, operand) + *wrong;
    }
    return;
  }
  const std::vector<ValueId>& inputs = graph.inputs();
  const auto input = std::find(inputs.begin(), inputs.end(), *origin);
  if (input == inputs.end()) return;
  made.input = static_cast<std::size_t>(input - inputs.begin());
  if (operand.shapes) decides_shapes_[made.input] = true;
  checks_.push_back(std::move(made));
}

bool ValueChecks::has_open_sizes() const {
  const Graph& graph = *function_;
  const auto is_open = [&](ValueId v) {
    return v.valid() && graph.type(v).is_tensor() && !graph.type(v).is_static();
  };
  if (judge_ == Judge::kAll && unknown_size(graph)) return true;
  if (std::none_of(graph.inputs().begin(), graph.inputs().end(), is_open)) return false;
  if (judge_ == Judge::kAll || judge_ == Judge::kBounded) return true;
  const auto waits = [](const Check& check) { return !check.sizes; };
  if (std::any_of(checks_.begin(), checks_.end(), waits)) return true;
  const std::vector<NodeId> nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    const std::vector<ValueId>& read = graph.node(id).inputs;
    return std::any_of(read.begin(), read.end(), is_open) && may_disagree(graph, graph.node(id));
  });
}

std::string ValueChecks::place(NodeId id, const DecidingOperand& operand) const {
  const Node& node = function_->node(id);
  return fmt::format("node '{}' ({}): input {}: ", node.name, node.op, operand.operand);
}

void ValueChecks::check(const Check& check, const Tensor& tensor,
                        const std::optional<Sizes>& sizes) const {
  if (!sizes || !tensor.on_host()) return;
  const auto wrong = refusal(tensor, check.operand.decides, *sizes);
  if (wrong) refuse(place(check.node, check.operand) + *wrong);
}

std::optional<std::string> ValueChecks::run(std::span<const Data> inputs) const {
  if (!wrong_.empty()) refuse(wrong_);
  // First what needs no sizes: inference is to see numbers that it can compute with.
  for (const Check& one : checks_) {
    if (!one.sizes || one.constant.defined() || !inputs[one.input].is_tensor()) continue;
    check(one, inputs[one.input].tensor(), one.sizes);
  }
  if (!is_open_) return std::nullopt;
  const std::shared_ptr<const Resolved> known = resolved(inputs);
  check_least_time(known->least_time);
  check_least_memory(known->least_memory);
  for (std::size_t i = 0; i < checks_.size(); ++i) {
    const Check& one = checks_[i];
    if (one.sizes) continue;
    if (one.constant.defined()) {
      check(one, one.constant, known->sizes[i]);
    } else if (inputs[one.input].is_tensor()) {
      check(one, inputs[one.input].tensor(), known->sizes[i]);
    }
  }
  return known->unfit;
}

void ValueChecks::append_key(std::span<const Data> inputs, Sizes& key) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor()) {
      key.push_back(-1);
      continue;
    }
    const Tensor& tensor = inputs[i].tensor();
    key.push_back(static_cast<std::int64_t>(tensor.rank()));
    key.insert(key.end(), tensor.dims().begin(), tensor.dims().end());
    if (!decides_shapes_[i] || !tensor.on_host() || tensor.count() > kMaxShapeElements ||
        tensor.dtype() == DType::kString) {
      continue;
    }
    const auto* bytes = static_cast<const std::uint8_t*>(tensor.raw());
    key.insert(key.end(), bytes, bytes + tensor.bytes());
  }
}

std::shared_ptr<const ValueChecks::Resolved> ValueChecks::resolved(
    std::span<const Data> inputs) const {
  thread_local Sizes key;  // its memory is kept from run to run
  key.clear();
  append_key(inputs, key);
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
  }
  const Sizes own = key;
  std::shared_ptr<const Resolved> made = infer(inputs);
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.emplace(own, made);
  return made;
}

void ValueChecks::check_sized(const Graph& graph) const {
  for (const auto& [id, operand] : sized_) {
    const Node& node = graph.node(id);
    const auto sizes = deciding_sizes(graph, node, operand);
    if (!sizes) continue;
    const auto indices = computed(graph, node.input(operand.operand), most_bytes_);
    if (!indices) continue;
    const auto wrong = refusal(*indices, operand.decides, *sizes);
    if (wrong) refuse(place(id, operand) + *wrong);
  }
}

std::shared_ptr<const ValueChecks::Resolved> ValueChecks::infer(
    std::span<const Data> inputs) const {
  Graph graph = *function_;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor()) continue;
    const ValueId id = graph.inputs()[i];
    const Tensor& tensor = inputs[i].tensor();
    Shape shape(tensor.dims().begin(), tensor.dims().end());
    graph.set_type(id, Type::tensor(tensor.dtype(), std::move(shape)));
    if (!decides_shapes_[i] || !tensor.on_host() || tensor.count() > kMaxShapeElements) continue;
    graph.replace_uses(id, graph.add_constant({}, tensor));
  }
  try {
    infer_shapes(graph, /*reset=*/true);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidModel) throw;
    refuse(error.what());
  }
  check_sizes(graph, most_bytes_);
  auto made = std::make_shared<Resolved>();
  for (const Check& one : checks_) {
    made->sizes.push_back(one.sizes ? std::nullopt
                                    : deciding_sizes(graph, graph.node(one.node), one.operand));
  }
  check_sized(graph);
  made->least_time = least_time(graph, /*narrow=*/false, threads_);
  if (!tells_memory_) made->least_memory = least_memory(graph, /*narrow=*/false);
  if (judge_ == Judge::kAll) made->unfit = unfit(std::move(graph), most_bytes_);
  return made;
}

}  // namespace xrt
