// SPDX-License-Identifier: Apache-2.0
// Half precision. What computes on float16 or bfloat16 computes in float32, between conversions:
// the other steps see float32 alone, and chains that they fuse convert once. Products of bfloat16,
// for which the CPU may have instructions, then read it again, and write it where nobody wants
// more. What only moves elements moves them as they lie.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engines/native/dnn/fuse/optimize.h"
#include "engines/native/dnn/plan.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/common/convert.h"
#include "ir/pattern.h"
#include "ops/canonical.h"
#include "ops/op_facts.h"

namespace xrt::native::dnn {
namespace {

bool is_half(const Type& type) {
  return type.is_tensor() && (type.dtype == DType::kFloat16 || type.dtype == DType::kBFloat16);
}

bool is_float(const Type& type) { return type.is_tensor() && type.dtype == DType::kFloat32; }

Type with_dtype(Type type, DType dtype) {
  type.dtype = dtype;
  return type;
}

bool is_product(const Node& node) {
  return (node.domain.empty() || node.domain == kDomain) &&
         (node.op == "Conv" || node.op == "MatMul" || node.op == "Gemm");
}

ValueId add_cast(Graph& graph, ValueId value, DType to) {
  const Type type = with_dtype(graph.type(value), to);
  const ValueId made = graph.add_op("Cast", {value}, {{"to", static_cast<std::int64_t>(to)}});
  canonicalize_node(graph, graph.value(made).producer);
  graph.set_type(made, type);
  return made;
}

// Ops whose element type is part of what they do, or of what they hand on, or that look at none.
bool is_bound_to_type(const Node& node) {
  static const std::set<std::string, std::less<>> ops{"Bernoulli",
                                                      "BitCast",
                                                      "Cast",
                                                      "CastLike",
                                                      "Constant",
                                                      "ConstantOfShape",
                                                      "EyeLike",
                                                      "Loop",
                                                      "Multinomial",
                                                      "Optional",
                                                      "OptionalGetElement",
                                                      "OptionalHasElement",
                                                      "RandomNormalLike",
                                                      "RandomUniformLike",
                                                      "Shape",
                                                      "Size"};
  return ops.contains(node.op) || node.op.find("Sequence") != std::string::npos ||
         node.has("dtype") || node.has("output_dtype") || !Graph::subgraphs(node).empty();
}

// Elements of the inputs, unchanged.
bool moves_elements(const Node& node) {
  static const std::set<std::string, std::less<>> ops{
      "Compress",        "Concat",    "GatherElements", "GatherND", "Pad",  "ReverseSequence",
      "ScatterElements", "ScatterND", "TensorScatter",  "Trilu",    "Where"};
  return ops.contains(node.op) || (op_facts(node).moves != Moves::kNo && node.op != "MaxPool");
}

class Widen {
 public:
  explicit Widen(Graph& graph) : graph_(graph) {}

  void run() {
    for (const NodeId id : graph_.topological_order()) visit(id);
    for (const ValueId value : casts_) {
      if (graph_.alive(value)) remove_unused(graph_, value);
    }
  }

 private:
  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (is_op(node, "Cast")) return visit_cast(id);
    if (is_to_widen(node)) widen(id);
  }

  bool is_to_widen(const Node& node) const {
    const bool is_gradient = node.domain == "xrt" && node.op.ends_with("Gradient");
    if ((!node.domain.empty() && !is_gradient) || is_bound_to_type(node)) return false;
    const auto reads_half = [&](ValueId v) { return v.valid() && is_half(graph_.type(v)); };
    const auto has_wide = [&](ValueId v) {
      return !reads_half(v) || graph_.constant(v) != nullptr || wide_.contains(v);
    };
    if (std::none_of(node.inputs.begin(), node.inputs.end(), reads_half)) return false;
    // What is moved is converted only where it is at hand in float32.
    return !moves_elements(node) ||
           (std::all_of(node.inputs.begin(), node.inputs.end(), has_wide) &&
            std::any_of(node.inputs.begin(), node.inputs.end(),
                        [&](ValueId v) { return wide_.contains(v); }));
  }

  void widen(NodeId id) {
    const std::vector<ValueId> inputs = graph_.node(id).inputs;
    const bool product = is_product(graph_.node(id));
    bool rounds = false;
    if (product && graph_.type(inputs[0]).dtype == DType::kBFloat16 &&
        graph_.type(inputs[1]).dtype == DType::kBFloat16 && computes(DType::kBFloat16)) {
      graph_.set_attribute(id, kFactorType, static_cast<std::int64_t>(DType::kBFloat16));
      rounds = true;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid() || !is_half(graph_.type(inputs[i]))) continue;
      // Kernels convert the weights of products as they pack them.
      if (product && i == 1 && graph_.constant(inputs[i]) != nullptr) continue;
      const ValueId exact = rounds && i < 2 ? unrounded(inputs[i]) : ValueId{};
      graph_.set_input(id, i, exact.valid() ? exact : wide(inputs[i]));
    }
    const std::vector<ValueId> outputs = graph_.node(id).outputs;
    for (const ValueId v : outputs) {
      if (!v.valid() || !is_half(graph_.type(v))) continue;
      const DType half = graph_.type(v).dtype;
      graph_.set_type(v, with_dtype(graph_.type(v), DType::kFloat32));
      const ValueId narrow = add_cast(graph_, v, half);
      graph_.replace_uses(v, narrow);
      graph_.set_input(graph_.value(narrow).producer, 0, v);
      wide_[narrow] = v;
      casts_.push_back(narrow);
    }
  }

  // A cast that the graph has rounds; those that were put here do not.
  void visit_cast(NodeId id) {
    const Node& node = graph_.node(id);
    const ValueId x = node.inputs[0];
    const ValueId y = node.outputs[0];
    if (!is_half(graph_.type(x))) return;
    const auto found = wide_.find(x);
    if (!is_float(graph_.type(y))) {
      if (found != wide_.end() && !casts_made(id)) graph_.set_input(id, 0, found->second);
    } else if (found != wide_.end()) {
      graph_.replace_uses(y, found->second);
      casts_.push_back(y);
    } else {
      wide_[x] = y;
    }
  }

  // The float32 value that a cast of the graph rounds, for who rounds it anyway.
  ValueId unrounded(ValueId value) {
    const Node* cast = producer(graph_, value, "Cast");
    if (cast == nullptr || !is_float(graph_.type(cast->inputs[0]))) return {};
    casts_.push_back(value);
    return cast->inputs[0];
  }

  bool casts_made(NodeId id) const { return wide_.contains(graph_.node(id).outputs[0]); }

  ValueId wide(ValueId value) {
    const auto found = wide_.find(value);
    if (found != wide_.end()) return found->second;
    ValueId made;
    if (const Tensor* constant = graph_.constant(value)) {
      made = graph_.add_constant(graph_.value(value).name + "/float",
                                 converted(*constant, DType::kFloat32));
    } else {
      made = add_cast(graph_, value, DType::kFloat32);
    }
    return wide_[value] = made;
  }

  Graph& graph_;
  std::map<ValueId, ValueId> wide_;  // of half precision → the same in float32
  std::vector<ValueId> casts_;       // some of which nobody reads
};

class Narrow {
 public:
  explicit Narrow(Graph& graph) : graph_(graph) {}

  void run() {
    widen_stray_weights();
    const std::vector<NodeId> order = graph_.topological_order();
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      if (is_factored(node)) {
        factored_.insert(id);
      } else if (!follows(node)) {
        continue;
      }
      for (const ValueId v : node.outputs) {
        if (v.valid() && is_float(graph_.type(v)) && !graph_.is_output(v)) narrow_.insert(v);
      }
    }
    while (drop_one_round(order)) {
    }
    for (const NodeId id : order) {
      if (graph_.alive(id)) convert(id);
    }
    for (const ValueId value : unread_) {
      if (graph_.alive(value)) remove_unused(graph_, value);
    }
  }

 private:
  // A product that rounds its factors. Of one on bytes nothing is left to round.
  bool is_factored(const Node& node) const {
    return is_product(node) && node.has(kFactorType) && is_float(graph_.type(node.inputs[0]));
  }

  // What gives its first inputs' elements on, of whatever type.
  static bool follows(const Node& node) {
    return node.domain.empty() && moves_elements(node) && node.op != "Where" && node.op != "Pad" &&
           !node.op.starts_with("Scatter") && node.op != "TensorScatter";
  }
  static bool is_data(const Node& node, std::size_t i) { return i == 0 || node.op == "Concat"; }

  // The bfloat16 value that `value` is in float32; not valid where it is none.
  ValueId source(ValueId value) const {
    const Node* cast = producer(graph_, value, "Cast");
    if (cast == nullptr || graph_.type(cast->inputs[0]).dtype != DType::kBFloat16) return {};
    return cast->inputs[0];
  }

  bool reads_half(const Use& use) const {
    const Node& node = graph_.node(use.node);
    if (is_factored(node)) return use.index != 2;
    if (is_op(node, "Cast")) return graph_.type(node.outputs[0]).dtype == DType::kBFloat16;
    return follows(node) && is_data(node, use.index) &&
           std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId v) { return !v.valid() || narrow_.contains(v); });
  }

  bool may_be_narrow(const Node& node, ValueId v) const {
    const std::vector<Use>& uses = graph_.uses(v);
    if (!std::all_of(uses.begin(), uses.end(), [&](const Use& use) { return reads_half(use); })) {
      return false;
    }
    if (is_factored(node)) return true;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_data(node, i)) continue;
      if (!narrow_.contains(node.inputs[i]) && !source(node.inputs[i]).valid()) return false;
    }
    return true;
  }

  bool drop_one_round(const std::vector<NodeId>& order) {
    bool dropped = false;
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      for (const ValueId v : node.outputs) {
        if (v.valid() && narrow_.contains(v) && !may_be_narrow(node, v)) {
          narrow_.erase(v);
          dropped = true;
        }
      }
    }
    return dropped;
  }

  void convert(NodeId id) {
    const std::vector<ValueId> inputs = graph_.node(id).inputs;
    const std::vector<ValueId> outputs = graph_.node(id).outputs;
    if (is_op(graph_.node(id), "Cast") && narrow_.contains(inputs[0]) &&
        graph_.type(outputs[0]).dtype == DType::kBFloat16) {
      graph_.replace_uses(outputs[0], inputs[0]);
      unread_.push_back(outputs[0]);
      return;
    }
    const bool factored = factored_.contains(id);
    bool narrows = false;
    for (const ValueId v : outputs) {
      if (!v.valid() || !narrow_.contains(v)) continue;
      narrows = true;
      graph_.set_type(v, with_dtype(graph_.type(v), DType::kBFloat16));
    }
    if (!factored && !narrows) return;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ValueId v = inputs[i];
      if (!v.valid() || !is_float(graph_.type(v)) || (factored && i == 2)) continue;
      const bool is_factor = factored && i < 2;
      if (graph_.constant(v) != nullptr && !(is_factor && i == 0)) continue;
      ValueId half = source(v);
      if (half.valid()) {
        unread_.push_back(v);
      } else if (is_factor) {
        half = rounded(v);
      } else {
        continue;
      }
      graph_.set_input(id, i, half);
    }
  }

  ValueId rounded(ValueId value) {
    ValueId& made = rounded_[value];
    if (!made.valid()) made = add_cast(graph_, value, DType::kBFloat16);
    return made;
  }

  // Of products that were not fused.
  void widen_stray_weights() {
    for (const NodeId id : graph_.nodes()) {
      const Node& node = graph_.node(id);
      if (!node.domain.empty() || !is_product(node) || !is_float(graph_.type(node.inputs[0]))) {
        continue;
      }
      const Tensor* weights = graph_.constant(node.inputs[1]);
      if (weights == nullptr || weights->dtype() == DType::kFloat32) continue;
      graph_.set_input(id, 1, graph_.add_constant("", converted(*weights, DType::kFloat32)));
    }
  }

  Graph& graph_;
  std::set<NodeId> factored_;
  std::set<ValueId> narrow_;
  std::map<ValueId, ValueId> rounded_;
  std::vector<ValueId> unread_;
};

}  // namespace

void widen_halves(Graph& graph) { Widen(graph).run(); }

void narrow_factors(Graph& graph) { Narrow(graph).run(); }

}  // namespace xrt::native::dnn
