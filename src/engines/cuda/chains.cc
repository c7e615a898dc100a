// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/chains.h"

#include <string>

#include "engines/cuda/planner.h"

namespace xrt::cuda {
namespace {

// The other operand of an addition.
ValueId other_operand(const NodeView& add, ValueId one) {
  return add.input(0) == one ? add.input(1) : add.input(0);
}

// One number per index of `axis`, counted in the result's shape, and nothing else.
bool is_along(const Dims& operand, const Dims& result, std::size_t axis) {
  if (operand.size() > result.size()) return false;
  const std::size_t shift = result.size() - operand.size();
  if (axis < shift) return false;
  for (std::size_t i = 0; i < operand.size(); ++i) {
    if (operand[i] != (i + shift == axis ? result[axis] : 1)) return false;
  }
  return true;
}

class Reader {
 public:
  Reader(const GraphView& graph, NodeId first) : graph_(graph), first_(graph.node(first)) {
    result_ = graph_.type(first_.output(0)).dims();
    dtype_ = graph_.type(first_.output(0)).dtype();
    is_convolution_ = first_.op() == "Conv";
    if ((is_convolution_ || first_.op() == "Gemm") && first_.input(2).valid()) {
      const Dims dims = graph_.type(first_.input(2)).dims();
      const float beta = is_convolution_ ? 1.0F : first_.attr_float("beta", 1.0F);
      if (is_convolution_ || (beta == 1.0F && is_along(dims, result_, bias_axis()))) {
        chain_.bias = first_.input(2);
      } else if (beta != 0.0F) {
        chain_.residual = first_.input(2);  // of any shape that broadcasts: emit_product copies it
      }
    }
  }

  // Whether the node behind, the only one that reads `value`, is taken in.
  bool take(const NodeView& node, ValueId value) {
    if (chain_.activation != Activation::kNone) return false;
    const TypeView type = graph_.type(node.output(0));
    if (type.dtype() != dtype_ || type.dims() != result_) return false;
    if (node.qualified_op() == "Relu") {
      chain_.activation = Activation::kRelu;
      return true;
    }
    if (node.qualified_op() == "Gelu" && !is_convolution_ && !chain_.residual) {
      if (node.attr_string("approximate", "none") != "tanh") return false;
      chain_.activation = Activation::kGeluTanh;
      return true;
    }
    if (node.qualified_op() != "Add") return false;
    const ValueId other = other_operand(node, value);
    if (other == value) return false;
    const Dims dims = graph_.type(other).dims();
    const bool is_constant = graph_.constant(other).defined();
    if (is_along(dims, result_, bias_axis()) && is_constant && !chain_.bias && !chain_.norm &&
        !chain_.residual && result_[bias_axis()] > 1) {
      chain_.bias = other;
      return true;
    }
    if (dims == result_ && !chain_.residual && !is_constant) {
      chain_.residual = other;
      return true;
    }
    return false;
  }

  // The convolution's normalisation, which is the first thing behind it.
  void set_norm(NodeId norm) {
    chain_.norm = norm;
    chain_.bias.reset();
  }

  const Chain& chain() const { return chain_; }

 private:
  std::size_t bias_axis() const { return is_convolution_ ? 1 : result_.size() - 1; }

  const GraphView& graph_;
  NodeView first_;
  Dims result_;
  DType dtype_ = DType::kUndefined;
  bool is_convolution_ = false;
  Chain chain_;
};

// The node that alone reads a value; none where there are several or it is a result.
std::optional<NodeId> only_reader(const GraphView& graph, ValueId value) {
  const std::vector<Use> uses = graph.uses(value);
  if (graph.is_output(value) || uses.size() != 1) return std::nullopt;
  return uses.front().node;
}

bool is_cast(const GraphView& graph, NodeId id, DType to) {
  const NodeView node = graph.node(id);
  return node.qualified_op() == "Cast" && graph.type(node.output(0)).dtype() == to;
}

// Of inference, with constant statistics.
bool is_norm(const GraphView& graph, NodeId id, ValueId operand) {
  const NodeView node = graph.node(id);
  if (node.qualified_op() != "BatchNormalization" || node.attr_int("training_mode", 0) != 0 ||
      node.input(0) != operand) {
    return false;
  }
  for (std::size_t i = 1; i < 5; ++i) {
    if (!graph.constant(node.input(i)).defined()) return false;
  }
  return true;
}

bool has_library(const GraphView& graph, const NodeView& node, const PlanOptions& options) {
  if (options.generated.contains(std::string(node.name()))) return false;
  if (!node.domain().empty()) return false;
  const DType dtype = graph.type(node.output(0)).dtype();
  const bool is_known = is_half(dtype) || dtype == DType::kFloat32;
  if (node.op() == "Conv") {
    const std::size_t rank = graph.type(node.input(0)).rank();
    return options.has_cudnn && is_known && rank >= 3 && rank <= 5;
  }
  if (node.op() != "MatMul" && node.op() != "Gemm") return false;
  if (graph.type(node.input(0)).rank() < 2 || graph.type(node.input(1)).rank() < 2) return false;
  return options.has_cublas && (is_known || dtype == DType::kFloat64);
}

}  // namespace

std::vector<NodeId> norm_behind(const GraphView& graph, const NodeView& convolution) {
  const ValueId result = convolution.output(0);
  const DType dtype = graph.type(result).dtype();
  if (!is_half(dtype) || !graph.constant(convolution.input(1)).defined()) return {};
  if (convolution.input(2).valid()) return {};
  const auto first = only_reader(graph, result);
  if (!first) return {};
  if (is_norm(graph, *first, result)) return {*first};
  if (!is_cast(graph, *first, DType::kFloat32)) return {};
  const ValueId wide = graph.node(*first).output(0);
  const auto norm = only_reader(graph, wide);
  if (!norm || !is_norm(graph, *norm, wide)) return {};
  const auto last = only_reader(graph, graph.node(*norm).output(0));
  if (!last || !is_cast(graph, *last, dtype)) return {};
  return {*first, *norm, *last};
}

NodeId norm_of(const GraphView& graph, const std::vector<NodeId>& nodes) {
  for (const NodeId id : nodes) {
    if (graph.node(id).op() == "BatchNormalization") return id;
  }
  return {};
}

std::vector<NodeId> chain_from(const GraphView& graph, NodeId first, const PlanOptions& options,
                               const std::function<bool(NodeId)>& is_taken) {
  const NodeView node = graph.node(first);
  if (!has_library(graph, node, options)) return {};
  std::vector<NodeId> chain{first};
  Reader reader(graph, first);
  if (node.op() == "Conv" && !options.unfused.contains(std::string(node.name()))) {
    const std::vector<NodeId> norm = norm_behind(graph, node);
    chain.insert(chain.end(), norm.begin(), norm.end());
    if (!norm.empty()) reader.set_norm(norm_of(graph, norm));
  }
  // cuBLASLt has no epilogues of double.
  const bool is_double = graph.type(node.output(0)).dtype() == DType::kFloat64;
  for (;;) {
    const ValueId value = graph.node(chain.back()).output(0);
    const std::vector<Use> uses = graph.uses(value);
    if (is_double || options.unfused.contains(std::string(node.name())) || graph.is_output(value) ||
        uses.size() != 1)
      return chain;
    if (is_taken(uses.front().node)) return chain;
    const NodeView next = graph.node(uses.front().node);
    if (!reader.take(next, value)) return chain;
    chain.push_back(uses.front().node);
  }
}

Chain read_chain(const GraphView& graph, const std::vector<NodeId>& nodes) {
  Reader reader(graph, nodes.front());
  std::size_t next = 1;
  if (const NodeId norm = norm_of(graph, nodes); norm.valid()) {
    reader.set_norm(norm);
    next = nodes[1] == norm ? 2 : 4;
  }
  for (; next < nodes.size(); ++next) {
    reader.take(graph.node(nodes[next]), graph.node(nodes[next - 1]).output(0));
  }
  return reader.chain();
}

}  // namespace xrt::cuda
