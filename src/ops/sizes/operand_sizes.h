// SPDX-License-Identifier: Apache-2.0
// What the rules for sizes (size_rules.h) read of a node, and those rules that are about windows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "xrt/graph.h"

namespace xrt {

using Refusal = std::optional<std::string>;

// The sizes of one node's operands: nothing where they are not all known.
class OperandSizes {
 public:
  OperandSizes(const Graph& graph, const Node& node) : graph_(graph), node(node) {}

  std::optional<Dims> dims(std::size_t i) const {
    const ValueId v = node.input(i);
    if (!v.valid() || !graph_.type(v).is_tensor()) return std::nullopt;
    return graph_.type(v).static_dims();
  }
  std::optional<std::size_t> rank(std::size_t i) const {
    const ValueId v = node.input(i);
    if (!v.valid() || !graph_.type(v).has_rank()) return std::nullopt;
    return graph_.type(v).rank();
  }
  std::optional<std::int64_t> count(std::size_t i) const {
    const auto sizes = dims(i);
    if (!sizes) return std::nullopt;
    return elements(*sizes);
  }
  const Tensor* constant(std::size_t i) const {
    return node.input(i).valid() ? graph_.constant(node.input(i)) : nullptr;
  }
  std::optional<Dims> result() const {
    const ValueId v = node.output(0);
    if (!v.valid() || !graph_.type(v).is_tensor()) return std::nullopt;
    return graph_.type(v).static_dims();
  }
  static std::int64_t elements(const Dims& dims) {
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) count *= dim;
    return count;
  }

 private:
  const Graph& graph_;

 public:
  const Node& node;
};

// Windows over a picture, and blocks of it. Nothing where all is well, as far as sizes are known.
Refusal pool(const OperandSizes& o);
Refusal conv(const OperandSizes& o);
Refusal integer_conv(const OperandSizes& o);
Refusal transposed_conv(const OperandSizes& o);
Refusal quantized_conv(const OperandSizes& o);
Refusal deformed_conv(const OperandSizes& o);
Refusal col2im(const OperandSizes& o);
Refusal global_pool(const OperandSizes& o);
Refusal depth_to_space(const OperandSizes& o);
Refusal space_to_depth(const OperandSizes& o);

}  // namespace xrt
