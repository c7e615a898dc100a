// SPDX-License-Identifier: Apache-2.0
#include "ops/sizes/open_sizes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xrt {
namespace {

// Ops on one tensor, which take any size of each axis; what else they read is a constant.
constexpr auto kTakeAnySize = std::to_array<std::string_view>(
    {"Abs",      "Cast",       "Ceil",      "Clip",       "Elu",       "Erf",
     "Exp",      "Floor",      "Gelu",      "Hardmax",    "HardSwish", "Identity",
     "IsNaN",    "LeakyRelu",  "Log",       "LogSoftmax", "Mish",      "Neg",
     "Not",      "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum",
     "Relu",     "Round",      "Shape",     "Sigmoid",    "Sign",      "Softmax",
     "Softplus", "Sqrt",       "Swish",     "Tanh",       "Transpose", "Unsqueeze"});
constexpr auto kBroadcast = std::to_array<std::string_view>(
    {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min",
     "Mul", "Or", "Pow", "Sub", "Sum", "Where"});

bool is_same(const Dim& a, const Dim& b) {
  return (a.is_known() && b.is_known() && a.value() == b.value()) || (a.is_symbol() && a == b);
}

bool is_one(const Dim& dim) { return dim.is_known() && dim.value() == 1; }

// All axes but the last `left_out` of them.
bool surely_broadcast(const std::vector<const Shape*>& shapes, std::size_t left_out = 0) {
  Shape sizes;  // from the back; 1 where none is another
  for (const Shape* shape : shapes) {
    for (std::size_t i = left_out; i < shape->size(); ++i) {
      const Dim& size = (*shape)[shape->size() - 1 - i];
      if (sizes.size() <= i - left_out) sizes.push_back(Dim(1));
      Dim& common = sizes[i - left_out];
      if (is_one(common)) {
        common = size;
      } else if (!is_one(size) && !is_same(common, size)) {
        return false;
      }
    }
  }
  return true;
}

bool surely_joins(const std::vector<const Shape*>& shapes, std::int64_t axis) {
  const Shape& first = *shapes[0];
  if (axis < 0) axis += static_cast<std::int64_t>(first.size());
  for (const Shape* shape : shapes) {
    if (shape->size() != first.size()) return false;
    for (std::size_t a = 0; a < first.size(); ++a) {
      if (static_cast<std::int64_t>(a) != axis && !is_same(first[a], (*shape)[a])) return false;
    }
  }
  return true;
}

// The product of the sizes that are numbers, and the symbols of the others; nothing where one has
// neither.
std::optional<std::pair<std::int64_t, std::vector<std::string>>> factors(const Shape& shape) {
  std::pair<std::int64_t, std::vector<std::string>> found{1, {}};
  for (const Dim& dim : shape) {
    if (dim.is_known()) {
      found.first *= dim.value();
    } else if (dim.is_symbol()) {
      found.second.push_back(dim.symbol());
    } else {
      return std::nullopt;
    }
  }
  std::sort(found.second.begin(), found.second.end());
  return found;
}

template <typename List>
bool contains(const List& list, std::string_view op) {
  return std::find(list.begin(), list.end(), op) != list.end();
}

}  // namespace

bool may_disagree(const Graph& graph, const Node& node) {
  if (!node.domain.empty()) return true;
  std::vector<const Shape*> shapes;
  for (const ValueId v : node.inputs) {
    if (!v.valid()) continue;
    const Type& type = graph.type(v);
    if (!type.is_tensor() || !type.has_rank()) return true;
    shapes.push_back(&*type.shape);
  }
  if (shapes.empty()) return true;
  const std::string_view op = node.op;
  if (contains(kTakeAnySize, op)) {
    return std::any_of(node.inputs.begin() + 1, node.inputs.end(),
                       [&](ValueId v) { return v.valid() && graph.constant(v) == nullptr; });
  }
  if (contains(kBroadcast, op)) {
    return !surely_broadcast(shapes);
  }
  if (op == "Concat") return !surely_joins(shapes, node.attr_int("axis", 0));
  if (op == "MatMul") {
    const Shape& a = *shapes.front();
    const Shape& b = *shapes.back();
    if (shapes.size() != 2 || a.size() < 2 || b.size() < 2) return true;
    return !is_same(a.back(), b[b.size() - 2]) || !surely_broadcast(shapes, 2);
  }
  if (op == "LayerNormalization") {
    for (std::size_t i = 1; i < shapes.size(); ++i) {
      if (shapes[i]->size() > shapes[0]->size() || !surely_broadcast({shapes[i], shapes[0]})) {
        return true;
      }
    }
    return false;
  }
  if (op == "Reshape") {
    const Type& made = graph.type(node.outputs.at(0));
    if (!made.has_rank()) return true;
    const auto from = factors(*shapes[0]);
    return !from || from != factors(*made.shape);
  }
  return true;
}

}  // namespace xrt
