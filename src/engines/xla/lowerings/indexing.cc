// SPDX-License-Identifier: Apache-2.0
// Ops that read elements at computed places: the Gather family, OneHot, ReverseSequence.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "engines/xla/lowerings/places.h"
#include "engines/xla/lowerings/take.h"

namespace xrt::xla {

Hlo wrap_negative(HloBuilder& b, const Hlo& index, std::int64_t size) {
  const Hlo wide = b.convert(index, DType::kInt64);
  const Hlo negative = b.compare("LT", wide, b.zeros_like(wide));
  return b.select(negative, b.binary_scalar("add", wide, static_cast<double>(size)), wide);
}

Hlo take(HloBuilder& b, const Hlo& x, const Hlo& index, std::int64_t axis) {
  GatherSpec spec;
  const std::int64_t index_rank = index.rank();
  spec.offset_dims = range_dims(0, axis);
  for (std::int64_t i = axis + 1; i < x.rank(); ++i) spec.offset_dims.push_back(i + index_rank - 1);
  spec.collapsed_slice_dims = {axis};
  spec.start_index_map = {axis};
  spec.index_vector_dim = index_rank;
  spec.slice_sizes = x.dims;
  spec.slice_sizes[at(axis)] = 1;
  return b.gather(x, index, spec);
}

Hlo take_along(HloBuilder& b, const Hlo& x, const Hlo& index, std::int64_t axis) {
  Dims column = index.dims;
  column.push_back(1);
  Hlos coordinates;
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    coordinates.push_back(
        b.reshape(i == axis ? index : b.iota(DType::kInt64, index.dims, i), column));
  }
  return take_at(b, x, b.concatenate(coordinates, index.rank()));
}

Hlo take_at(HloBuilder& b, const Hlo& x, const Hlo& coordinates) {
  const std::int64_t depth = coordinates.dims.back();
  GatherSpec spec;
  const std::int64_t batch = coordinates.rank() - 1;
  spec.collapsed_slice_dims = range_dims(0, depth);
  spec.start_index_map = range_dims(0, depth);
  spec.index_vector_dim = batch;
  spec.slice_sizes = x.dims;
  for (std::int64_t i = 0; i < depth; ++i) spec.slice_sizes[at(i)] = 1;
  for (std::int64_t i = depth; i < x.rank(); ++i) spec.offset_dims.push_back(batch + i - depth);
  return b.gather(x, coordinates, spec);
}

namespace {

void lower_gather(NodeContext& c) {
  const Hlo x = c.in(0);
  c.need(x.rank() > 0, "a scalar operand");
  const std::int64_t axis = c.attr("axis");
  const std::int64_t size = x.dims[at(axis)];
  if (const Tensor* index = c.constant(1); index != nullptr && index->count() == 1) {
    // One known place is a slice.
    std::int64_t place = index->to_int64()[0];
    if (place < 0) place += size;
    c.need(place >= 0 && place < size, "an index out of range");
    Dims dims(x.dims.begin(), x.dims.begin() + axis);
    dims.insert(dims.end(), index->rank(), 1);
    dims.insert(dims.end(), x.dims.begin() + axis + 1, x.dims.end());
    c.out(c.b.reshape(c.b.slice_axis(x, axis, place, place + 1), dims));
    return;
  }
  c.need(size > 0, "an empty axis");
  c.out(take(c.b, x, wrap_negative(c.b, c.in(1), size), axis));
}

void lower_gather_elements(NodeContext& c) {
  const Hlo x = c.in(0);
  const std::int64_t axis = c.attr("axis");
  c.need(x.rank() == c.rank(1), "the operands' ranks");
  c.out(take_along(c.b, x, wrap_negative(c.b, c.in(1), x.dims[at(axis)]), axis));
}

void lower_gather_nd(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo x = c.in(0);
  const Hlo indices = c.in(1);
  const std::int64_t batch = c.attr("batch_dims");
  c.need(indices.rank() >= 1 && batch >= 0 && batch < indices.rank(), "the indices' rank");
  const std::int64_t depth = indices.dims.back();
  c.need(batch + depth <= x.rank(), "the indices' last dimension");
  Hlos parts;
  Dims column = indices.dims;
  column.back() = 1;
  for (std::int64_t i = 0; i < batch; ++i) parts.push_back(b.iota(DType::kInt64, column, i));
  for (std::int64_t i = 0; i < depth; ++i) {
    const Hlo part = b.slice_axis(indices, indices.rank() - 1, i, i + 1);
    parts.push_back(wrap_negative(b, part, x.dims[at(batch + i)]));
  }
  c.out(take_at(b, x, b.concatenate(parts, indices.rank() - 1)));
}

void lower_one_hot(NodeContext& c) {
  HloBuilder& b = c.b;
  const auto depth = static_cast<std::int64_t>(c.numbers(1, "the depth").at(0));
  const Hlo in = c.in(0);
  const std::int64_t axis = c.attr("axis");
  const Hlo index = wrap_negative(b, cast(b, in, DType::kInt64), depth);
  Dims dims = in.dims;
  dims.insert(dims.begin() + axis, depth);
  Dims map;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(dims.size()); ++i) {
    if (i != axis) map.push_back(i);
  }
  const Hlo hit =
      b.compare("EQ", b.iota(DType::kInt64, dims, axis), b.broadcast_in_dim(index, dims, map));
  const Hlo values = c.in(2);
  const auto value = [&](std::int64_t i) {
    return b.broadcast_in_dim(b.reshape(b.slice_axis(values, 0, i, i + 1), {}), dims, {});
  };
  c.out(b.select(hit, value(1), value(0)));
}

void lower_reverse_sequence(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo x = c.in(0);
  const std::int64_t time = c.attr("time_axis");
  const std::int64_t batch = c.attr("batch_axis");
  const Hlo position = b.iota(DType::kInt64, x.dims, time);
  const Hlo length = b.broadcast_in_dim(b.convert(c.in(1), DType::kInt64), x.dims, {batch});
  const Hlo mirrored = b.binary_scalar("subtract", b.sub(length, position), 1);
  const Hlo index = b.select(b.compare("LT", position, length), mirrored, position);
  c.out(take_along(b, x, index, time));
}

// ai.onnx.ml: columns of the last axis.
void lower_array_feature_extractor(NodeContext& c) {
  const Hlo x = c.in(0);
  c.need(x.rank() > 0, "features of a scalar");
  const Hlo index = c.b.reshape(c.in(1), {element_count(c.dims(1))});
  const Hlo rows = x.rank() == 1 ? c.b.reshape(x, {1, x.dims[0]}) : x;
  c.out(take(c.b, rows, c.b.convert(index, DType::kInt64), rows.rank() - 1));
}

}  // namespace

void register_indexing(LoweringTable& t) {
  t.add("Gather", lower_gather);
  t.add("GatherElements", lower_gather_elements);
  t.add("GatherND", lower_gather_nd);
  t.add("OneHot", lower_one_hot);
  t.add("ReverseSequence", lower_reverse_sequence);
  t.add("ai.onnx.ml.ArrayFeatureExtractor", lower_array_feature_extractor);
}

}  // namespace xrt::xla
