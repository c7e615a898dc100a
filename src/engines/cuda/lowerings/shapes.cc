// SPDX-License-Identifier: Apache-2.0
// Ops that move elements. Most of them move none: the result is another view of the same memory.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "engines/cuda/lowering.h"

namespace xrt::cuda {
namespace {

Dims result_dims(const Planner& planner, const NodeView& node, std::size_t output = 0) {
  return planner.graph().type(node.output(output)).dims();
}

void reshape(Planner& planner, const NodeView& node) {
  const Dims dims = result_dims(planner, node);
  std::optional<View> made = reshaped(planner.view(node.input(0)), dims);
  if (!made) made = reshaped(planner.dense(node.input(0)), dims);
  planner.define(node.output(0), *made);
}

void transpose(Planner& planner, const NodeView& node) {
  std::vector<std::size_t> permutation;
  for (const std::int64_t axis : node.attr_ints("perm")) {
    permutation.push_back(static_cast<std::size_t>(axis));
  }
  planner.define(node.output(0), transposed(planner.view(node.input(0)), permutation));
}

void expand(Planner& planner, const NodeView& node) {
  const Dims dims = result_dims(planner, node);
  planner.define(node.output(0), broadcast(planner.view(node.input(0)), dims));
}

Support supports_slice(const GraphView& graph, const NodeView& node) {
  const char* const names[] = {"starts", "ends", "axes", "steps"};
  for (std::size_t i = 0; i < 4; ++i) {
    if (Support answer = needs_constant(graph, node, i + 1, names[i]); !answer) return answer;
  }
  return Support::yes();
}

void slice(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  View made = planner.view(node.input(0));
  const auto rank = static_cast<std::int64_t>(made.dims.size());
  const std::vector<std::int64_t> starts = numbers(graph, node, 1);
  std::vector<std::int64_t> axes = numbers(graph, node, 3);
  std::vector<std::int64_t> steps = numbers(graph, node, 4);
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  const Dims dims = result_dims(planner, node);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i] < 0 ? axes[i] + rank : axes[i]);
    const std::int64_t size = made.dims[axis];
    std::int64_t start = starts[i] < 0 ? starts[i] + size : starts[i];
    start = std::clamp<std::int64_t>(start, 0, steps[i] < 0 ? size - 1 : size);
    made.offset += start * made.strides[axis];
    made.strides[axis] *= steps[i];
  }
  made.dims = dims;
  planner.define(node.output(0), made);
}

void split(Planner& planner, const NodeView& node) {
  View rest = planner.view(node.input(0));
  const std::int64_t given = node.attr_int("axis", 0);
  const auto axis = static_cast<std::size_t>(
      given < 0 ? given + static_cast<std::int64_t>(rest.dims.size()) : given);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    if (!node.output(i).valid()) continue;
    View made = rest;
    made.dims = result_dims(planner, node, i);
    planner.define(node.output(i), made);
    rest.offset += made.dims[axis] * made.strides[axis];
  }
}

Support supports_split(const GraphView& /*graph*/, const NodeView& node) {
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    if (!node.output(i).valid()) return Support::no("one of its results is left out");
  }
  return Support::yes();
}

void concat(Planner& planner, const NodeView& node) {
  const Dims dims = result_dims(planner, node);
  const std::int64_t given = node.attr_int("axis", 0);
  const auto axis =
      static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(dims.size()) : given);
  const View first = planner.view(node.input(0));
  const View made = planner.temporary(
      first.dtype, dims, first.is_dense() ? axes_by_stride(first) : std::vector<std::size_t>{});
  View part = made;
  for (const ValueId input : node.inputs()) {
    const View from = planner.view(input);
    part.dims = from.dims;
    planner.copy(planner.what(), from, part);
    part.offset += from.dims[axis] * part.strides[axis];
  }
  planner.define(node.output(0), made);
}

void tile(Planner& planner, const NodeView& node) {
  const View from = planner.view(node.input(0));
  const View to = planner.temporary_for(node.output(0));
  planner.elementwise(planner.what(), {from}, to, [&](const std::vector<std::string>& c) {
    std::string at = "0";
    for (std::size_t i = 0; i < c.size(); ++i) {
      at += fmt::format(" + {} % {} * {}ll", c[i], from.dims[i], from.strides[i]);
    }
    return fmt::format("q0[at] = p0[{}];\n", at);
  });
  planner.define(node.output(0), to);
}

// DepthToSpace and SpaceToDepth: a block's axes move between channels and the plane.
void move_blocks(Planner& planner, const NodeView& node) {
  const View from = planner.dense(node.input(0));
  const std::int64_t block = node.attr_int("blocksize", 1);
  const bool to_space = node.op() == "DepthToSpace";
  const std::int64_t n = from.dims[0], c = from.dims[1], h = from.dims[2], w = from.dims[3];
  Dims dims;
  std::vector<std::size_t> permutation;
  if (!to_space) {
    dims = {n, c, h / block, block, w / block, block};
    permutation = {0, 3, 5, 1, 2, 4};
    if (node.attr_string("mode", "DCR") == "CRD") permutation = {0, 1, 3, 5, 2, 4};
  } else if (node.attr_string("mode", "DCR") == "DCR") {
    dims = {n, block, block, c / (block * block), h, w};
    permutation = {0, 3, 4, 1, 5, 2};
  } else {
    dims = {n, c / (block * block), block, block, h, w};
    permutation = {0, 1, 4, 2, 5, 3};
  }
  const View moved = transposed(*reshaped(from, dims), permutation);
  planner.define(node.output(0), *reshaped(planner.dense(moved), result_dims(planner, node)));
}

}  // namespace

void add_shapes(LoweringRegistry& registry) {
  for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}) {
    registry.add(op, {.emit = reshape});
  }
  registry.add("Transpose", {.emit = transpose});
  registry.add("Expand", {.emit = expand});
  registry.add("Slice", {.supports = supports_slice, .emit = slice});
  registry.add("Split", {.supports = supports_split, .emit = split});
  registry.add("Concat", {.emit = concat});
  registry.add("Tile", {.emit = tile});
  registry.add("DepthToSpace", {.emit = move_blocks});
  registry.add("SpaceToDepth", {.emit = move_blocks});
}

}  // namespace xrt::cuda
