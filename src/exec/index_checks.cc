// SPDX-License-Identifier: Apache-2.0
#include "exec/index_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "ops/op_facts.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// The first input's elements, each as it was or in a wider type, in the same order or another.
bool keeps_integers(const Graph& graph, const Node& node) {
  const Moves moves = op_facts(node).moves;
  if (moves == Moves::kView || moves == Moves::kPermute || moves == Moves::kRepeat) return true;
  if (!node.domain.empty() || node.op != "Cast") return false;
  const DType to = graph.type(node.outputs.at(0)).dtype;
  return to == DType::kInt64 ||
         (to == DType::kInt32 && graph.type(node.inputs.at(0)).dtype != DType::kInt64);
}

// Follows a value to the Gathers that take it for indices.
void follow(const Graph& graph, ValueId value, std::size_t input, std::vector<IndexCheck>& checks) {
  for (const Use& use : graph.uses(value)) {
    const Node& node = graph.node(use.node);
    const bool gathers =
        node.domain.empty() && (node.op == "Gather" || node.op == "GatherElements");
    if (gathers && node.inputs.size() == 2 && node.inputs[1] == value) {
      const Type& data = graph.type(node.inputs[0]);
      if (!data.has_rank() || data.shape->empty()) continue;
      const auto rank = static_cast<std::int64_t>(data.shape->size());
      const std::int64_t axis = node.attr_int("axis", 0);
      if (axis < 0 || axis >= rank) continue;
      const Dim& size = (*data.shape)[static_cast<std::size_t>(axis)];
      if (!size.is_known()) continue;
      checks.push_back(
          {input, size.value(), fmt::format("node '{}' ({}): index", node.name, node.op)});
    } else if (!node.inputs.empty() && node.inputs[0] == value && keeps_integers(graph, node)) {
      follow(graph, node.outputs.at(0), input, checks);
    }
  }
}

template <typename T>
void check(const IndexCheck& check, const Tensor& tensor) {
  const T* values = tensor.data<T>();
  const auto size = static_cast<T>(check.size);
  bool fit = true;
  for (std::int64_t i = 0; i < tensor.count(); ++i) fit &= values[i] < size && values[i] >= -size;
  if (fit) return;
  const T* wrong =
      std::find_if(values, values + tensor.count(), [&](T v) { return v >= size || v < -size; });
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} {} is outside an axis of size {}", check.node, *wrong, check.size));
}

}  // namespace

std::vector<IndexCheck> index_checks(const Graph& function) {
  std::vector<IndexCheck> checks;
  for (std::size_t i = 0; i < function.inputs().size(); ++i) {
    const ValueId input = function.inputs()[i];
    const Type& type = function.type(input);
    if (!type.is_tensor()) continue;
    if (type.dtype != DType::kInt64 && type.dtype != DType::kInt32) continue;
    follow(function, input, i, checks);
  }
  return checks;
}

void check_indices(std::span<const IndexCheck> checks, std::span<const Data> inputs) {
  for (const IndexCheck& one : checks) {
    if (!inputs[one.input].is_tensor()) continue;
    const Tensor& tensor = inputs[one.input].tensor();
    if (!tensor.on_host()) continue;
    if (tensor.dtype() == DType::kInt64) check<std::int64_t>(one, tensor);
    if (tensor.dtype() == DType::kInt32 && one.size <= INT32_MAX) check<std::int32_t>(one, tensor);
  }
}

}  // namespace xrt
