// SPDX-License-Identifier: Apache-2.0
#include "engines/tensorrt/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "ops/host_fold.h"
#include "ops/lower_by_body.h"
#include "ops/sizes/size_rules.h"
#include "xrt/error.h"

namespace xrt::tensorrt {

namespace {

constexpr int kMaxNesting = 8;  // functions in functions

bool is_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

Dims declared_dims(const Type& type) {
  Dims dims;
  for (const Dim& dim : *type.shape) dims.push_back(dim.value());
  return dims;
}

Value add_input(Net& net, const std::string& name, const Type& type) {
  return net.made(
      net.network().addInput(name.c_str(), to_trt(type.dtype), to_trt(declared_dims(type))),
      "an input");
}

// What the network's value has and the graph does not say it may have, or "".
std::string mismatch(Value made, const Type& declared) {
  const Dims have = dims_of(made);
  const Dims want = declared_dims(declared);
  bool same = dtype_of(made) == declared.dtype && have.size() == want.size();
  for (std::size_t i = 0; same && i < have.size(); ++i) {
    same = have[i] < 0 || want[i] < 0 || have[i] == want[i];
  }
  if (same) return {};
  return fmt::format("{}{} where the graph says {}", to_string(dtype_of(made)), to_string(have),
                     to_string(declared));
}

// The builder that support queries make their networks with.
struct Probe {
  std::mutex mutex;
  std::unique_ptr<nvinfer1::IBuilder> builder = make_builder();
};

Probe& probe() {
  // Never destroyed: when a process ends, the library's own state may go first.
  static auto* const instance = new Probe;
  return *instance;
}

}  // namespace

std::optional<std::string> refuse_type(const xrt::Value& value) {
  if (!value.type.is_tensor()) {
    return fmt::format("'{}' is {}, not a tensor", value.name, to_string(value.type));
  }
  if (!has_trt_type(value.type.dtype)) {
    return fmt::format("'{}' is {}; TensorRT has no such elements", value.name,
                       to_string(value.type));
  }
  if (!value.type.has_rank()) return fmt::format("the rank of '{}' is not known", value.name);
  if (value.type.rank() > static_cast<std::size_t>(nvinfer1::Dims::MAX_DIMS)) {
    return fmt::format("'{}' is of rank {}; TensorRT's limit is 8", value.name, value.type.rank());
  }
  return std::nullopt;
}

Support can_lower(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  for (const ValueId input : graph.dependencies(id)) {
    // An operand that the lowering reads on the host may be of any type.
    if (graph.constant(input) != nullptr) continue;
    if (auto reason = refuse_type(graph.value(input))) return Support::no("input " + *reason);
  }
  for (const ValueId output : node.outputs) {
    if (!output.valid()) continue;
    if (auto reason = refuse_type(graph.value(output))) return Support::no("output " + *reason);
  }
  Probe& p = probe();
  const std::lock_guard lock(p.mutex);
  logger().take_error();
  const auto network = make_network(*p.builder);
  Net net(*network);
  GraphLowerer lowerer(net, graph, 0);
  try {
    int position = 0;
    for (const ValueId input : graph.dependencies(id)) {
      if (graph.constant(input) != nullptr) continue;
      Bound value;
      value.tensor = add_input(net, fmt::format("i{}", position++), graph.type(input));
      lowerer.bind(input, value);
    }
    lowerer.lower_node(id);
    for (const ValueId output : node.outputs) {
      if (!output.valid()) continue;
      if (!lowerer.bound(output)) {
        return Support::no(
            fmt::format("its output '{}' has no lowering", graph.value(output).name));
      }
      const std::string wrong = mismatch(lowerer.tensor(output), graph.type(output));
      if (!wrong.empty()) {
        return Support::no(
            fmt::format("the lowering makes '{}' {}", graph.value(output).name, wrong));
      }
    }
    for (int i = 0; i < network->getNbInputs(); ++i) {
      if (network->getInput(i)->isShapeTensor()) {
        return Support::no("an operand that decides a shape is not a constant");
      }
    }
  } catch (const Refusal& refusal) {
    return Support::no(refusal.reason);
  }
  return Support::yes();
}

void lower_function(const Graph& graph, const std::string& name, Net& net) {
  GraphLowerer lowerer(net, graph, 0);
  const auto fail = [&](const std::string& what, const std::string& reason) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("TensorRT: function '{}': {}: {}", name, what, reason));
  };
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const xrt::Value& value = graph.value(graph.inputs()[i]);
    if (auto reason = refuse_type(value)) throw fail("an input cannot be taken", *reason);
    Bound bound;
    try {
      bound.tensor = add_input(net, fmt::format("i{}", i), value.type);
    } catch (const Refusal& refusal) {
      throw fail(fmt::format("input '{}'", value.name), refusal.reason);
    }
    lowerer.bind(graph.inputs()[i], bound);
  }
  for (const NodeId id : graph.topological_order()) {
    try {
      lowerer.lower_node(id);
    } catch (const Refusal& refusal) {
      const Node& node = graph.node(id);
      throw fail(fmt::format("node '{}' ({}) cannot be lowered", node.name, node.qualified_op()),
                 refusal.reason);
    }
  }
  for (std::size_t k = 0; k < graph.outputs().size(); ++k) {
    const xrt::Value& value = graph.value(graph.outputs()[k]);
    try {
      Value result = lowerer.tensor(graph.outputs()[k]);
      // An input or a constant, or a value that is an output twice, needs a tensor of its own.
      result = net.out(net.made(net.network().addIdentity(*result), "an identity"));
      const std::string wrong = mismatch(result, value.type);
      if (!wrong.empty()) throw Refusal{"the network makes it " + wrong};
      result->setName(fmt::format("o{}", k).c_str());
      net.network().markOutput(*result);
    } catch (const Refusal& refusal) {
      throw fail(fmt::format("output '{}'", value.name), refusal.reason);
    }
  }
}

// --- GraphLowerer -------------------------------------------------------------------------------

Bound& GraphLowerer::at(ValueId id) {
  const auto found = values_.find(id);
  if (found != values_.end()) return found->second;
  const Tensor* tensor = graph_.constant(id);
  if (tensor == nullptr) {
    throw Error(ErrorCode::kInternal, fmt::format("TensorRT: value '{}' is read before it is made",
                                                  graph_.value(id).name));
  }
  Bound& value = values_[id];
  value.constant = *tensor;
  return value;
}

Value GraphLowerer::tensor(ValueId id) {
  Bound& value = at(id);
  if (value.tensor == nullptr) value.tensor = net_.constant(*value.constant);
  return value.tensor;
}

void GraphLowerer::lower_all() {
  for (const NodeId id : graph_.topological_order()) lower_node(id);
}

void GraphLowerer::lower_node(NodeId id) {
  const Node& node = graph_.node(id);
  if (auto wrong = sizes_refusal(graph_, node)) throw Refusal{*wrong};
  if (fold(node)) return;
  if (const LowerFunction* lower = lowerings().find(node.qualified_op())) {
    NodeContext context(*this, id);
    (*lower)(context);
    return;
  }
  if (is_plugin(node)) {
    NodeContext context(*this, id);
    lower_plugin(context);
    return;
  }
  if (lower_by_function_body(id)) return;
  throw Refusal{fmt::format("no lowering for {}", node.qualified_op())};
}

// What is known on the host stays there: shapes that function bodies and exporters compute.
bool GraphLowerer::fold(const Node& node) {
  std::vector<const Tensor*> constants;
  std::vector<std::optional<Dims>> dims;
  for (const ValueId input : node.inputs) {
    constants.push_back(nullptr);
    dims.emplace_back();
    if (!input.valid()) continue;
    const Bound& value = at(input);
    if (value.constant) {
      constants.back() = &*value.constant;
      dims.back() = value.constant->dims();
    } else if (Dims known = dims_of(value.tensor); is_static(known)) {
      dims.back() = std::move(known);
    }
  }
  std::optional<Tensor> folded = fold_on_host(node, constants, dims);
  if (!folded) return false;
  Bound value;
  value.constant = std::move(*folded);
  bind(node.outputs.at(0), std::move(value));
  return true;
}

bool GraphLowerer::lower_by_function_body(NodeId id) {
  if (nesting_ >= kMaxNesting) return false;
  return lower_by_body<Refusal>(
      *this, id, [this](const Graph& body) { return GraphLowerer(net_, body, nesting_ + 1); });
}

std::vector<Bound> GraphLowerer::lower_subgraph(const Graph& body,
                                                const std::function<Value(Value)>& enter) {
  if (nesting_ >= kMaxNesting) throw Refusal{"its branches are nested too deeply"};
  GraphLowerer inner(net_, body, nesting_ + 1);
  for (const Capture& capture : body.captures()) {
    Bound value = at(capture.outer);
    if (value.constant) value.tensor = nullptr;  // a constant of its own, inside
    if (value.tensor != nullptr && enter) value.tensor = enter(value.tensor);
    inner.bind(capture.inner, std::move(value));
  }
  inner.lower_all();
  std::vector<Bound> results;
  for (const ValueId output : body.outputs()) results.push_back(inner.at(output));
  return results;
}

// --- NodeContext --------------------------------------------------------------------------------

Value NodeContext::in(std::size_t i) {
  need(has(i), fmt::format("operand {} is missing", i));
  return lowerer_.tensor(node.input(i));
}

DType NodeContext::dtype(std::size_t i) {
  const Bound& value = lowerer_.at(node.input(i));
  return value.constant ? value.constant->dtype() : dtype_of(value.tensor);
}

Dims NodeContext::dims(std::size_t i) {
  const Bound& value = lowerer_.at(node.input(i));
  return value.constant ? value.constant->dims() : dims_of(value.tensor);
}

std::vector<float> NodeContext::floats(std::size_t i, std::string_view what) {
  const Tensor* tensor = constant(i);
  need(tensor != nullptr, fmt::format("{} is not a constant", what));
  need(tensor->dtype() == DType::kFloat32, fmt::format("{} is not float32", what));
  return {tensor->data<float>(), tensor->data<float>() + tensor->count()};
}

DType NodeContext::out_dtype(std::size_t k) {
  return lowerer_.graph().type(node.outputs.at(k)).dtype;
}

bool NodeContext::read_only_by(std::size_t k, std::string_view op) const {
  const Graph& graph = lowerer_.graph();
  const ValueId value = node.outputs.at(k);
  const std::vector<Use>& uses = graph.uses(value);
  return !uses.empty() && !graph.is_output(value) &&
         std::all_of(uses.begin(), uses.end(),
                     [&](const Use& use) { return graph.node(use.node).qualified_op() == op; });
}

void NodeContext::require_float(std::size_t i) {
  need(is_float(dtype(i)),
       fmt::format("TensorRT takes floating-point operands only, not {}", to_string(dtype(i))));
}

void NodeContext::require_number(std::size_t i) {
  const DType type = dtype(i);
  need(is_float(type) || type == DType::kInt32 || type == DType::kInt64,
       fmt::format("TensorRT does not compute in {}", to_string(type)));
}

void NodeContext::require_computed(DType dtype) const {
  need(is_float(dtype) || dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kBool,
       fmt::format("TensorRT casts between float32, float16, bfloat16, int32, int64 and bool only, "
                   "not {}",
                   to_string(dtype)));
}

Dims NodeContext::require_static(std::size_t i, std::string_view why) {
  const Dims known = dims(i);
  need(is_static(known), fmt::format("{} needs a static shape", why));
  return known;
}

void NodeContext::out(std::size_t k, Bound value) {
  if (wants(k)) lowerer_.bind(node.outputs[k], std::move(value));
}

void NodeContext::out(std::size_t k, Value value) {
  Bound bound;
  bound.tensor = value;
  out(k, std::move(bound));
}

void NodeContext::out_constant(std::size_t k, Tensor tensor) {
  Bound bound;
  bound.constant = std::move(tensor);
  out(k, std::move(bound));
}

const LoweringTable& lowerings() {
  static const LoweringTable table = [] {
    LoweringTable t;
    register_elementwise(t);
    register_unary(t);
    register_convolution(t);
    register_pool(t);
    register_linear(t);
    register_reduce(t);
    register_normalization(t);
    register_shape(t);
    register_indexing(t);
    register_resize(t);
    register_quantize(t);
    register_recurrent(t);
    register_control(t);
    return t;
  }();
  return table;
}

}  // namespace xrt::tensorrt
