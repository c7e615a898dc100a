// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engines/xla/user_code.h"
#include "ops/host_fold.h"
#include "ops/lower_by_body.h"
#include "ops/op_registry.h"
#include "ops/sizes/size_rules.h"
#include "xrt/error.h"

namespace xrt::xla {

namespace {

constexpr int kMaxNesting = 12;  // functions in functions, branches in branches

}  // namespace

// --- helpers ------------------------------------------------------------------------------------

Dims range_dims(std::int64_t first, std::int64_t last) {
  Dims out;
  for (std::int64_t i = first; i < last; ++i) out.push_back(i);
  return out;
}

Dims channels_last_permutation(std::int64_t rank) {
  Dims out{0};
  for (std::int64_t i = 2; i < rank; ++i) out.push_back(i);
  out.push_back(1);
  return out;
}

Dims channels_first_permutation(std::int64_t rank) {
  Dims out{0, rank - 1};
  for (std::int64_t i = 1; i < rank - 1; ++i) out.push_back(i);
  return out;
}

std::string describe(const Hlo& value) {
  return fmt::format("{}{}", to_string(value.dtype), to_string(value.dims));
}

DType Bound::dtype() const {
  if (plain.valid()) return plain.dtype;
  if (last.valid()) return last.dtype;
  return constant ? constant->dtype() : DType::kUndefined;
}

Dims Bound::dims() const {
  if (plain.valid()) return plain.dims;
  if (last.valid()) {
    Dims out;
    for (const std::int64_t i : channels_first_permutation(last.rank())) {
      out.push_back(last.dims[static_cast<std::size_t>(i)]);
    }
    return out;
  }
  return constant ? constant->dims() : Dims{};
}

// --- GraphLowerer -------------------------------------------------------------------------------

void GraphLowerer::bind(ValueId id, Bound value) {
  value.depth = b_.region_depth();
  values_[id] = std::move(value);
}

Bound& GraphLowerer::at(ValueId id) {
  const auto found = values_.find(id);
  if (found != values_.end()) return found->second;
  const Tensor* tensor = graph_.constant(id);
  if (tensor == nullptr) {
    throw Error(ErrorCode::kInternal,
                fmt::format("XLA: value '{}' is read before it is made", graph_.value(id).name));
  }
  Bound value;
  value.constant = *tensor;
  bind(id, std::move(value));
  return values_[id];
}

Hlo GraphLowerer::plain(ValueId id) {
  Bound& value = at(id);
  if (value.plain.valid()) return value.plain;
  Hlo made;
  if (value.last.valid()) {
    made = b_.transpose(value.last, channels_first_permutation(value.last.rank()));
  } else {
    if (value.constant->dtype() == DType::kString) throw Refusal{"strings are not supported"};
    made = b_.constant(*value.constant);
  }
  // What is made inside a region is not visible after it.
  if (value.depth == b_.region_depth()) value.plain = made;
  return made;
}

Hlo GraphLowerer::last(ValueId id) {
  Bound& value = at(id);
  if (value.last.valid()) return value.last;
  const Hlo x = plain(id);
  const Hlo made = b_.transpose(x, channels_last_permutation(x.rank()));
  if (value.depth == b_.region_depth()) value.last = made;
  return made;
}

std::vector<Bound> GraphLowerer::outputs() {
  std::vector<Bound> out;
  for (const ValueId id : graph_.outputs()) out.push_back(at(id));
  return out;
}

void GraphLowerer::lower_all() {
  for (const NodeId id : graph_.topological_order()) lower_node(id);
}

bool has_lowering(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return lowerings().find(node.qualified_op()) != nullptr ||
         engine_code(graph, node, "xla").has_value() || has_function_body(graph, id);
}

std::string no_lowering(const Node& node) {
  return fmt::format("no lowering for {}", node.qualified_op());
}

void GraphLowerer::lower_node(NodeId id) {
  const Node& node = graph_.node(id);
  // Lowerings read sizes by axes that they do not look at.
  if (auto wrong = sizes_refusal(graph_, node)) throw Refusal{*wrong};
  // What is known on the host stays there: shapes computed inside of functions.
  std::vector<const Tensor*> constants;
  std::vector<std::optional<Dims>> dims;
  for (const ValueId input : node.inputs) {
    constants.push_back(nullptr);
    dims.emplace_back();
    if (!input.valid()) continue;
    Bound& value = at(input);
    if (value.constant) constants.back() = &*value.constant;
    dims.back() = value.dims();
  }
  if (std::optional<Tensor> folded = fold_on_host(node, constants, dims)) {
    Bound value;
    value.constant = std::move(*folded);
    bind(node.outputs.at(0), std::move(value));
    return;
  }
  if (const LowerFunction* lower = lowerings().find(node.qualified_op())) {
    NodeContext context(*this, id);
    try {
      (*lower)(context);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInternal) throw;
      // Type inference lets sizes pass that do not go together: the op that would be ill-typed is
      // no fault of the lowering.
      throw Refusal{fmt::format("its operands do not go together: {}", error.what())};
    }
    return;
  }
  if (lower_by_code(id) || lower_by_function_body(id)) return;
  throw Refusal{no_lowering(node)};
}

// What a user's op brings for this engine: StableHLO.
bool GraphLowerer::lower_by_code(NodeId id) {
  const Node& node = graph_.node(id);
  const std::optional<std::string> text = engine_code(graph_, node, "xla");
  if (!text) return false;
  const UserCode code = read_user_code(*text, fmt::format("f{}_", b_.unique()));
  Hlos operands;
  for (const ValueId input : node.inputs) {
    if (input.valid()) operands.push_back(plain(input));
  }
  std::vector<std::string> given;
  for (const Hlo& operand : operands) given.push_back(hlo_type(operand.dtype, operand.dims));
  std::vector<std::string> wanted;
  std::vector<std::pair<DType, Dims>> results;
  for (const ValueId output : node.outputs) {
    if (!output.valid()) throw Refusal{"its StableHLO returns a result that the node leaves out"};
    const Type& type = graph_.type(output);
    if (!type.static_dims()) throw Refusal{"its results have no static shape"};
    results.emplace_back(type.dtype, *type.static_dims());
    wanted.push_back(hlo_type(type.dtype, *type.static_dims()));
  }
  const auto compare = [](const char* what, const std::vector<std::string>& code_has,
                          const std::vector<std::string>& node_has) {
    if (code_has == node_has) return;
    throw Refusal{fmt::format("@main of its StableHLO {} ({}), the node has ({})", what,
                              fmt::join(code_has, ", "), fmt::join(node_has, ", "))};
  };
  compare("takes", code.inputs, given);
  compare("returns", code.outputs, wanted);
  const Hlos made = b_.call(code.functions, code.main, operands, results);
  for (std::size_t k = 0; k < made.size(); ++k) {
    Bound value;
    value.plain = made[k];
    bind(node.outputs[k], std::move(value));
  }
  return true;
}

bool GraphLowerer::lower_by_function_body(NodeId id) {
  if (nesting_ >= kMaxNesting) return false;
  return lower_by_body<Refusal>(
      *this, id, [this](const Graph& body) { return GraphLowerer(b_, body, nesting_ + 1); });
}

// --- NodeContext --------------------------------------------------------------------------------

NodeContext::NodeContext(GraphLowerer& lowerer, NodeId id)
    : NodeOperands(lowerer, id), b(lowerer.builder()) {}

Hlo NodeContext::in(std::size_t i) {
  need(has(i), fmt::format("operand {} is missing", i));
  return lowerer_.plain(node.input(i));
}

Hlo NodeContext::in_last(std::size_t i) { return lowerer_.last(node.input(i)); }

bool NodeContext::is_last(std::size_t i) {
  if (!has(i)) return false;
  const Bound& value = lowerer_.at(node.input(i));
  return value.last.valid() && !value.plain.valid();
}

DType NodeContext::dtype(std::size_t i) { return lowerer_.at(node.input(i)).dtype(); }
Dims NodeContext::dims(std::size_t i) { return lowerer_.at(node.input(i)).dims(); }
Bound NodeContext::bound(std::size_t i) { return lowerer_.at(node.input(i)); }

std::vector<double> NodeContext::numbers(std::size_t i, std::string_view what) {
  const Tensor* tensor = constant(i);
  need(tensor != nullptr, fmt::format("{} is not a constant", what));
  std::vector<double> out;
  if (tensor->dtype() == DType::kFloat32) {
    for (std::int64_t k = 0; k < tensor->count(); ++k) out.push_back(tensor->data<float>()[k]);
  } else if (tensor->dtype() == DType::kFloat64) {
    for (std::int64_t k = 0; k < tensor->count(); ++k) out.push_back(tensor->data<double>()[k]);
  } else {
    need(is_integer(tensor->dtype()), fmt::format("{} is of type {}, which is not read on the host",
                                                  what, to_string(tensor->dtype())));
    for (const std::int64_t value : tensor->to_int64()) out.push_back(static_cast<double>(value));
  }
  return out;
}

void NodeContext::out(std::size_t k, const Hlo& value) {
  if (!wants(k)) return;
  Bound bound;
  bound.plain = value;
  lowerer_.bind(node.outputs[k], std::move(bound));
}

void NodeContext::out_last(std::size_t k, const Hlo& value) {
  if (!wants(k)) return;
  Bound bound;
  bound.last = value;
  lowerer_.bind(node.outputs[k], std::move(bound));
}

void NodeContext::out_constant(std::size_t k, Tensor tensor) {
  if (!wants(k)) return;
  Bound bound;
  bound.constant = std::move(tensor);
  lowerer_.bind(node.outputs[k], std::move(bound));
}

Hlos NodeContext::broadcast(const Hlos& values) {
  std::size_t rank = 0;
  for (const Hlo& value : values) rank = std::max(rank, value.dims.size());
  Dims dims(rank, 1);
  for (const Hlo& value : values) {
    for (std::size_t i = 0; i < value.dims.size(); ++i) {
      std::int64_t& dim = dims[rank - value.dims.size() + i];
      const std::int64_t mine = value.dims[i];
      need(dim == 1 || mine == 1 || dim == mine, "the operands' shapes do not broadcast");
      if (mine != 1) dim = mine;
    }
  }
  Hlos out;
  for (const Hlo& value : values) out.push_back(b.broadcast_to(value, dims));
  return out;
}

void NodeContext::elementwise(const std::function<Hlo(const Hlos&)>& make) {
  std::vector<std::size_t> operands;
  for (std::size_t i = 0; i < input_count(); ++i) {
    if (has(i)) operands.push_back(i);
  }
  elementwise(operands, make);
}

void NodeContext::elementwise(const std::vector<std::size_t>& operands,
                              const std::function<Hlo(const Hlos&)>& make) {
  std::int64_t rank_of_result = 0;
  bool any_last = false;
  for (const std::size_t i : operands) rank_of_result = std::max(rank_of_result, rank(i));
  for (const std::size_t i : operands) {
    any_last = any_last || (is_last(i) && rank(i) == rank_of_result);
  }
  Hlos values;
  if (!any_last) {
    for (const std::size_t i : operands) values.push_back(in(i));
    out(make(broadcast(values)));
    return;
  }
  for (const std::size_t i : operands) {
    if (rank(i) == rank_of_result) {
      values.push_back(in_last(i));
      continue;
    }
    // Leading ones, then the channels go last: a weight per channel stays small.
    const Hlo small = in(i);
    Dims padded(static_cast<std::size_t>(rank_of_result - small.rank()), 1);
    padded.insert(padded.end(), small.dims.begin(), small.dims.end());
    values.push_back(
        b.transpose(b.reshape(small, padded), channels_last_permutation(rank_of_result)));
  }
  out_last(0, make(broadcast(values)));
}

Hlos NodeContext::lower_nested(HloBuilder& builder, const Graph& graph,
                               const std::vector<Bound>& inputs) {
  need(lowerer_.nesting() < kMaxNesting, "graphs are nested too deeply");
  GraphLowerer inner(builder, graph, lowerer_.nesting() + 1);
  need(inputs.size() == graph.inputs().size(), "the body's count of inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) inner.bind(graph.inputs()[i], inputs[i]);
  for (const Capture& capture : graph.captures()) {
    inner.bind(capture.inner, lowerer_.at(capture.outer));
  }
  inner.lower_all();
  Hlos results;
  for (const ValueId id : graph.outputs()) results.push_back(inner.plain(id));
  return results;
}

Hlos NodeContext::inline_graph(const Graph& graph, const std::vector<Bound>& inputs) {
  return lower_nested(b, graph, inputs);
}

Hlos NodeContext::nested_types(const Graph& graph, const std::vector<Bound>& inputs) {
  HloBuilder unwritten(/*measure_only=*/true);
  return lower_nested(unwritten, graph, inputs);
}

const LoweringTable& lowerings() {
  static const LoweringTable table = [] {
    LoweringTable t;
    register_elementwise(t);
    register_cast(t);
    register_logic(t);
    register_shape(t);
    register_indexing(t);
    register_scatter(t);
    register_reduce(t);
    register_linear(t);
    register_convolution(t);
    register_pool(t);
    register_normalization(t);
    register_sort(t);
    register_resize(t);
    register_recurrent(t);
    register_control(t);
    register_quantize(t);
    register_sampling(t);
    register_signal(t);
    register_optimizers(t);
    register_gradients(t);
    register_random(t);
    return t;
  }();
  return table;
}

}  // namespace xrt::xla
