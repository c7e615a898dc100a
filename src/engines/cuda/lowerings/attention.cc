// SPDX-License-Identifier: Apache-2.0
// Attention as one node (engines/cuda/attention.h): a step of cuDNN's.
#include "engines/cuda/attention.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engines/cuda/lowering.h"

namespace xrt::cuda {
namespace {

constexpr std::int64_t kVector = 16;  // bytes that the library reads at a time

// With a batch axis and an axis of heads.
View with_heads(View view) {
  if (view.dims.size() == 4) return view;
  view.dims.insert(view.dims.begin() + 1, 1);
  view.strides.insert(view.strides.begin() + 1, view.dims[2] * view.dims[3]);
  return view;
}

// An operand whose rows the library can read; copied where they lie otherwise.
View in_vectors(Planner& planner, const View& view) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(view.dtype));
  bool fits = view.strides.back() == 1 && view.offset * bytes % kVector == 0;
  for (std::size_t i = 0; i + 1 < view.dims.size(); ++i) {
    if (view.dims[i] == 1) continue;
    fits = fits && view.strides[i] > 0 && view.strides[i] * bytes % kVector == 0;
  }
  return fits ? view : planner.dense(view);
}

// As [batch, heads, S, T]; axes along which the values repeat are of size 1, but for the last one.
View mask_of(Planner& planner, View mask, std::size_t rank, std::int64_t keys) {
  while (mask.dims.size() < rank) {
    mask.dims.insert(mask.dims.begin(), 1);
    mask.strides.insert(mask.strides.begin(), 0);
  }
  for (std::size_t i = 0; i + 1 < rank; ++i) {
    if (mask.strides[i] == 0) mask.dims[i] = 1;
  }
  Dims dims = mask.dims;
  dims.back() = keys;
  mask = broadcast(mask, dims);
  const auto bytes = static_cast<std::int64_t>(bytes_of(mask.dtype));
  if (!mask.is_row_major() || mask.offset * bytes % kVector != 0) {
    const View made = planner.temporary(mask.dtype, dims);
    planner.copy("a copy for " + planner.what(), mask, made);
    mask = made;
  }
  mask.strides = row_major_strides(dims);
  if (rank == 3) {
    mask.dims.insert(mask.dims.begin() + 1, 1);
    mask.strides.insert(mask.strides.begin() + 1, mask.dims[2] * mask.dims[3]);
  }
  return mask;
}

// Whether heads are brought behind positions by the only node that reads the result.
bool are_heads_joined(const GraphView& graph, ValueId result) {
  const std::vector<Use> uses = graph.uses(result);
  if (graph.is_output(result) || uses.size() != 1) return false;
  const NodeView reader = graph.node(uses.front().node);
  return reader.qualified_op() == "Transpose" &&
         reader.attr_ints("perm") == std::vector<std::int64_t>{0, 2, 1, 3};
}

}  // namespace

void emit_attention(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  const ValueId result = node.output(0);
  const TypeView type = graph.type(result);
  const std::size_t rank = type.rank();
  View keys = planner.view(node.input(1));
  std::swap(keys.dims[rank - 2], keys.dims[rank - 1]);
  std::swap(keys.strides[rank - 2], keys.strides[rank - 1]);
  std::vector<std::size_t> order;
  if (rank == 4 && are_heads_joined(graph, result)) order = {0, 2, 1, 3};
  const View o = planner.temporary(type.dtype(), type.dims(), order);

  AttentionStep step;
  step.q = with_heads(in_vectors(planner, planner.view(node.input(0))));
  step.k = with_heads(in_vectors(planner, keys));
  step.v = with_heads(in_vectors(planner, planner.view(node.input(2))));
  step.o = with_heads(o);
  Dims sums = step.o.dims;
  sums.back() = 1;
  step.sums = planner.temporary(DType::kFloat32, sums);
  if (node.input(3).valid()) {
    step.mask = mask_of(planner, planner.view(node.input(3)), rank, step.k.dims[2]);
  }
  step.scale = node.attr_float("scale", 1);
  step.causal = node.attr_int("causal", 0) != 0;
  Step made;
  made.what = planner.what();
  made.first = std::string(node.name());
  made.reads = {step.q.buffer, step.k.buffer, step.v.buffer};
  if (step.mask) made.reads.push_back(step.mask->buffer);
  made.writes = {o.buffer, step.sums.buffer};
  planner.define(result, o);
  made.work = std::move(step);
  planner.step(std::move(made));
}

void add_attention(LoweringRegistry& registry) {
  // It is written out before steps are made.
  registry.add("Attention", {.supports = supports_attention});
}

}  // namespace xrt::cuda
