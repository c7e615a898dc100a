// SPDX-License-Identifier: Apache-2.0
#include "exec/index_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "ops/op_facts.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using Sizes = std::vector<std::int64_t>;

// The sizes of `count` axes from `first` on; nothing where one of them is not known.
std::optional<Sizes> sizes_of(const Type& data, std::int64_t first, std::int64_t count) {
  if (!data.has_rank() || first < 0 || count < 1) return std::nullopt;
  if (first + count > static_cast<std::int64_t>(data.rank())) return std::nullopt;
  Sizes sizes;
  for (std::int64_t axis = first; axis < first + count; ++axis) {
    const Dim& dim = (*data.shape)[static_cast<std::size_t>(axis)];
    if (!dim.is_known()) return std::nullopt;
    sizes.push_back(dim.value());
  }
  return sizes;
}

// Of the axes that input 1 indexes.
std::optional<Sizes> indexed_sizes(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || node.inputs.size() < 2) return std::nullopt;
  if (node.op == "Gather" || node.op == "GatherElements" || node.op == "ScatterElements") {
    return sizes_of(graph.type(node.inputs[0]), node.attr_int("axis", 0), 1);
  }
  if (node.op == "GatherND" || node.op == "ScatterND") {
    const Type& indices = graph.type(node.inputs[1]);
    if (!indices.has_rank() || indices.rank() == 0 || !indices.shape->back().is_known()) {
      return std::nullopt;
    }
    return sizes_of(graph.type(node.inputs[0]), node.attr_int("batch_dims", 0),
                    indices.shape->back().value());
  }
  return std::nullopt;
}

// The first input's elements, each as it was or in a wider type, in the same order or, where
// `in_order` does not matter, another.
bool keeps_integers(const Graph& graph, const Node& node, bool in_order) {
  const Moves moves = op_facts(node).moves;
  if (moves == Moves::kView) return true;
  if (moves == Moves::kPermute || moves == Moves::kRepeat) return !in_order;
  if (!node.domain.empty() || node.op != "Cast") return false;
  const DType to = graph.type(node.outputs.at(0)).dtype;
  return to == DType::kInt64 ||
         (to == DType::kInt32 && graph.type(node.inputs.at(0)).dtype != DType::kInt64);
}

// The input whose elements the value has; nothing where they are computed.
std::optional<ValueId> origin_of(const Graph& graph, ValueId value, bool in_order) {
  while (graph.value(value).origin == Origin::kNode) {
    const Node& node = graph.node(graph.value(value).producer);
    if (!node.input(0).valid() || !keeps_integers(graph, node, in_order)) return std::nullopt;
    value = node.inputs[0];
  }
  return value;
}

template <typename T>
std::optional<std::string> refusal(const IndexCheck& check, const Tensor& tensor) {
  const T* values = tensor.data<T>();
  const std::size_t axes = check.sizes.size();
  const auto is_wrong = [&](std::int64_t i) {
    const std::int64_t size = check.sizes[static_cast<std::size_t>(i) % axes];
    return values[i] >= size || values[i] < -size;
  };
  bool fit = true;
  if (axes == 1) {  // without a division per index
    const std::int64_t size = check.sizes[0];
    for (std::int64_t i = 0; i < tensor.count(); ++i) fit &= values[i] < size && values[i] >= -size;
  } else {
    for (std::int64_t i = 0; i < tensor.count(); ++i) fit &= !is_wrong(i);
  }
  if (fit) return std::nullopt;
  std::int64_t i = 0;
  while (!is_wrong(i)) ++i;
  return fmt::format("{} {} is outside an axis of size {}", check.node, values[i],
                     check.sizes[static_cast<std::size_t>(i) % axes]);
}

std::optional<std::string> refusal(const IndexCheck& check, const Tensor& tensor) {
  if (!tensor.on_host()) return std::nullopt;
  if (tensor.dtype() == DType::kInt64) return refusal<std::int64_t>(check, tensor);
  if (tensor.dtype() == DType::kInt32) return refusal<std::int32_t>(check, tensor);
  return std::nullopt;
}

}  // namespace

std::vector<IndexCheck> index_checks(const Graph& function) {
  std::vector<IndexCheck> checks;
  for (const NodeId id : function.topological_order()) {
    const Node& node = function.node(id);
    std::optional<Sizes> sizes = indexed_sizes(function, node);
    if (!sizes) continue;
    const auto origin = origin_of(function, node.inputs[1], /*in_order=*/sizes->size() > 1);
    if (!origin) continue;
    IndexCheck check{
        0, std::move(*sizes), fmt::format("node '{}' ({}): index", node.name, node.op), {}};
    if (const Tensor* constant = function.constant(*origin)) {
      const auto wrong = refusal(check, *constant);
      if (!wrong) continue;
      check.wrong = *wrong;
    } else {
      const std::vector<ValueId>& inputs = function.inputs();
      const auto input = std::find(inputs.begin(), inputs.end(), *origin);
      if (input == inputs.end()) continue;
      check.input = static_cast<std::size_t>(input - inputs.begin());
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

void check_indices(std::span<const IndexCheck> checks, std::span<const Data> inputs) {
  for (const IndexCheck& check : checks) {
    if (!check.wrong.empty()) throw Error(ErrorCode::kInvalidArgument, check.wrong);
    if (!inputs[check.input].is_tensor()) continue;
    const auto wrong = refusal(check, inputs[check.input].tensor());
    if (wrong) throw Error(ErrorCode::kInvalidArgument, *wrong);
  }
}

}  // namespace xrt
