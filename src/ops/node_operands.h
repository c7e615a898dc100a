// SPDX-License-Identifier: Apache-2.0
// What the lowering of one node reads, for engines that lower a graph node by node: which operands
// there are, those whose elements are known, attributes and axes. The engine's own context of a
// node derives from it.
//
// `Lowerer` knows what the values of the graph are in the engine's terms (ops/lower_by_body.h);
// what it binds a value to has `std::optional<Tensor> constant`. `Refusal` holds a `reason`.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ir/attributes.h"
#include "xrt/graph.h"

namespace xrt {

template <typename Lowerer, typename Refusal>
class NodeOperands {
 public:
  const Node& node;

  // --- operands and results ---
  std::size_t input_count() const { return node.inputs.size(); }
  bool has(std::size_t i) const { return node.input(i).valid(); }
  bool wants(std::size_t k) const { return node.output(k).valid(); }
  // Null if the operand is absent or its elements are not known.
  const Tensor* constant(std::size_t i) const {
    if (!has(i)) return nullptr;
    const auto& value = lowerer_.at(node.input(i));
    return value.constant ? &*value.constant : nullptr;
  }
  // Elements of an operand that decides a shape; refuses if they are not known.
  Dims integers(std::size_t i, std::string_view what) const {
    const Tensor* tensor = constant(i);
    need(tensor != nullptr, fmt::format("{} is not a constant", what));
    need(is_integer(tensor->dtype()) || tensor->dtype() == DType::kBool,
         fmt::format("{} is not of an integer type", what));
    return tensor->to_int64();
  }

  // --- attributes ---
  // Of the canonical form (ops/canonical.h): written out, axes counted from the front.
  std::int64_t attr(std::string_view name) const { return need_int(node, name); }
  // An axis in [0, rank) from one in [-rank, rank), as operands have it; refuses others.
  std::int64_t axis(std::int64_t value, std::int64_t rank) const {
    need(value >= -rank && value < std::max<std::int64_t>(rank, 1),
         fmt::format("axis {} of a value of rank {}", value, rank));
    return value < 0 ? value + rank : value;
  }
  Dims axes(Dims values, std::int64_t rank) const {  // sorted, each once
    for (std::int64_t& value : values) value = axis(value, rank);
    std::sort(values.begin(), values.end());
    need(std::adjacent_find(values.begin(), values.end()) == values.end(),
         "an axis is given twice");
    return values;
  }
  // Axes from operand `i`, else `fallback`.
  Dims axes_operand(std::size_t i, std::int64_t rank, const Dims& fallback) const {
    return has(i) ? axes(integers(i, "the operand of axes"), rank) : fallback;
  }

  // --- requirements ---
  [[noreturn]] void refuse(std::string reason) const { throw Refusal{std::move(reason)}; }
  void need(bool condition, std::string_view reason) const {
    if (!condition) refuse(std::string(reason));
  }

 protected:
  NodeOperands(Lowerer& lowerer, NodeId id) : node(lowerer.graph().node(id)), lowerer_(lowerer) {}

  Lowerer& lowerer_;
};

}  // namespace xrt
