// SPDX-License-Identifier: Apache-2.0
#include "partition/cost.h"

#include <algorithm>

#include "ops/op_facts.h"
#include "ops/sizes/wide_window.h"

namespace xrt {
namespace {

// The i-th dimension counted from the end for negative i; 1 where it is not known.
double dim(const Type& type, std::int64_t i) {
  if (!type.is_tensor() || !type.shape) return 1;
  const auto rank = static_cast<std::int64_t>(type.shape->size());
  if (i < 0) i += rank;
  if (i < 0 || i >= rank) return 1;
  const Dim& d = (*type.shape)[static_cast<std::size_t>(i)];
  return d.is_known() ? static_cast<double>(d.value()) : 1.0;
}

double elements(const Type& type) {
  if (!type.is_tensor() || !type.shape) return 1;
  double count = 1;
  for (std::size_t i = 0; i < type.shape->size(); ++i) {
    count *= dim(type, static_cast<std::int64_t>(i));
  }
  return count;
}

// Product of a filter's dimensions but the first.
double filter_size(const Type& type) {
  const double first = dim(type, 0);
  return first > 0 ? elements(type) / first : 0;
}

const Type* type_of(const Graph& graph, const std::vector<ValueId>& ids, std::size_t i) {
  return i < ids.size() && ids[i].valid() ? &graph.type(ids[i]) : nullptr;
}

// An input, or ~i for output i, as ops/op_facts.h counts them.
const Type* operand_type(const Graph& graph, const Node& node, int operand) {
  return operand < 0 ? type_of(graph, node.outputs, static_cast<std::size_t>(~operand))
                     : type_of(graph, node.inputs, static_cast<std::size_t>(operand));
}

void add_windows(const Graph& graph, const Node& node, const OpFacts& facts, NodeWork& work) {
  const Type* weights = operand_type(graph, node, facts.filters);
  const Type* result = operand_type(graph, node, facts.result);
  if (weights == nullptr || result == nullptr) return;
  work.kind = WorkKind::kConvolution;
  const std::int64_t groups = node.attr_int("group", 1);
  if (groups > 1 && dim(*weights, 1) == 1) work.kind = WorkKind::kDepthwise;
  work.operations = 2 * elements(*result) * filter_size(*weights);
}

// A window may be larger than the image; of LpPool each element is raised to a power.
void add_pool(const Graph& graph, const Node& node, NodeWork& work) {
  constexpr double kPower = 16;
  const Type* image = type_of(graph, node.inputs, 0);
  const Type* result = type_of(graph, node.outputs, 0);
  if (image == nullptr || result == nullptr) return;
  double window = 1;
  double lines = 0;
  const std::vector<std::int64_t> kernel = node.attr_ints("kernel_shape");
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const double size =
        std::min(static_cast<double>(kernel[i]), dim(*image, static_cast<std::int64_t>(i) + 2));
    window *= size;
    lines += size;
  }
  const double each = node.op == "LpPool" ? kPower : 1;
  work.operations = elements(*result) * (window > kLargePool ? lines : window) * each;
}

void add_product(const Graph& graph, const Node& node, NodeWork& work) {
  const Type* result = type_of(graph, node.outputs, 0);
  const Type* first = type_of(graph, node.inputs, 0);
  if (result == nullptr) return;
  const std::int64_t inner = node.attr_int("transA", 0) != 0 ? -2 : -1;
  work.kind = WorkKind::kMatrix;
  work.operations = 2 * elements(*result) * (first == nullptr ? 1 : dim(*first, inner));
}

// Both matrices of a recurrent cell, over all steps: W [directions, gates·hidden, input] and
// R [directions, gates·hidden, hidden].
void add_recurrence(const Graph& graph, const Node& node, NodeWork& work) {
  const Type* x = type_of(graph, node.inputs, 0);
  const Type* w = type_of(graph, node.inputs, 1);
  const Type* r = type_of(graph, node.inputs, 2);
  if (x == nullptr || w == nullptr || r == nullptr) return;
  work.kind = WorkKind::kMatrix;
  work.operations = 2 * dim(*x, 0) * dim(*x, 1) * (elements(*w) + elements(*r));
}

void add_attention(const Graph& graph, const Node& node, NodeWork& work) {
  const Type* q = type_of(graph, node.inputs, 0);
  const Type* k = type_of(graph, node.inputs, 1);
  if (q == nullptr || k == nullptr) return;
  work.kind = WorkKind::kMatrix;
  work.operations = 4 * elements(*q) * dim(*k, -2);
}

void add_arithmetic(const Graph& graph, const Node& node, NodeWork& work) {
  const OpFacts& facts = op_facts(node);
  switch (facts.cost) {
    case CostClass::kElements:
      return;
    case CostClass::kWindows:
      return add_windows(graph, node, facts, work);
    case CostClass::kPool:
      return add_pool(graph, node, work);
    case CostClass::kProduct:
      return add_product(graph, node, work);
    case CostClass::kRecurrence:
      return add_recurrence(graph, node, work);
    case CostClass::kAttention:
      return add_attention(graph, node, work);
  }
}

bool is_quantised(const Graph& graph, const Node& node) {
  if (op_facts(node).on_bytes) return true;
  const auto dequantised = [&](ValueId id) {
    return id.valid() && graph.value(id).origin == Origin::kNode &&
           graph.node(graph.value(id).producer).op == "DequantizeLinear";
  };
  return dequantised(node.input(0)) && dequantised(node.input(1));
}

}  // namespace

std::size_t value_bytes(const Graph& graph, ValueId id) {
  const Type& type = graph.type(id);
  if (!type.is_tensor() || type.dtype == DType::kUndefined) return 0;
  const std::int64_t one[] = {2};  // two elements: packed types have whole bytes then
  const double each = static_cast<double>(byte_count(type.dtype, one)) / 2;
  constexpr double kMost = 0x1p56;  // what no machine has; sums of many fit
  return static_cast<std::size_t>(std::min(each * elements(type), kMost));
}

NodeWork node_work(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  NodeWork work;
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const ValueId v : *list) {
      if (v.valid()) work.bytes += static_cast<double>(value_bytes(graph, v));
    }
  }
  add_arithmetic(graph, node, work);
  work.quantised = work.operations > 0 && is_quantised(graph, node);
  for (const Graph* body : Graph::subgraphs(node)) {
    for (const NodeId inner : body->nodes()) {
      const NodeWork part = node_work(*body, inner);
      if (part.operations > 0) work.kind = part.kind;
      work.operations += part.operations;
      work.bytes += part.bytes;
    }
  }
  return work;
}

}  // namespace xrt
