// SPDX-License-Identifier: Apache-2.0
// Ops that read or write by index, and orders.
#include <numeric>

#include "frontends/oneflow/lowering.h"

namespace xrt::oneflow {
namespace {

using Sizes = std::vector<std::int64_t>;

ValueId as_int64(Lowering& l, std::size_t operand) {
  return l.dtype(operand) == DType::kInt64 ? l.in(operand) : l.cast(l.in(operand), DType::kInt64);
}

void gather(Lowering& l) {
  const std::int64_t axis = l.axis(l.integer("axis", 0), l.rank());
  l.result(0, l.op("Gather", {l.in(0), as_int64(l, 1)}, {{"axis", axis}}));
}

// weight, indices
void embedding(Lowering& l) {
  l.result(0, l.op("Gather", {l.in(0), as_int64(l, 1)}, {{"axis", std::int64_t{0}}}));
}

void gather_nd(Lowering& l) { l.result(0, l.op("GatherND", {l.in(0), as_int64(l, 1)})); }

void dim_gather(Lowering& l) {
  const std::int64_t axis = l.axis(l.integer("dim"), l.rank());
  l.result(0, l.op("GatherElements", {l.in(0), as_int64(l, 1)}, {{"axis", axis}}));
}

// in [b…, n, rest…], indices [b…, m]: along the last axis that both have.
void batch_gather(Lowering& l) {
  const std::int64_t batch = l.rank(1) - 1;
  if (batch < 0) l.invalid("indices have no dimension");
  if (batch == 0) return l.result(0, l.op("Gather", {l.in(0), as_int64(l, 1)}));
  const ValueId places = l.unsqueeze(as_int64(l, 1), {l.rank(1)});
  l.result(0, l.op("GatherND", {l.in(0), places}, {{"batch_dims", batch}}));
}

// indices
void one_hot(Lowering& l) {
  const DType dtype = l.result_type().dtype;
  const bool floating = is_floating(dtype);
  const Number on =
      floating ? Number(l.real("floating_on_value", 1)) : Number(l.integer("integer_on_value", 1));
  const Number off = floating ? Number(l.real("floating_off_value", 0))
                              : Number(l.integer("integer_off_value", 0));
  std::vector<std::int64_t> classes(l.table_size(l.integer("depth")));
  std::iota(classes.begin(), classes.end(), 0);
  const ValueId same = l.op("Equal", {l.unsqueeze(as_int64(l, 0), {l.rank()}), l.ints(classes)});
  l.result(0, l.where(same, l.scalar(on, dtype), l.scalar(off, dtype)));
}

// The gradient of a gather along one axis: rows of zeros, to which those of `data` are added.
ValueId summed_by_index(Lowering& l, std::size_t data, std::size_t indices, const Dims& shape,
                        std::int64_t axis) {
  const auto index_rank = l.rank(indices);
  if (l.rank(data) != static_cast<std::int64_t>(shape.size()) - 1 + index_rank) {
    l.invalid("data, indices and the result do not fit");
  }
  const DType dtype = l.dtype(data);
  ValueId updates = l.in(data);
  const auto rank = static_cast<std::int64_t>(shape.size());
  // The gathered axes first: ScatterND writes along the first one.
  Dims moved = shape;
  Sizes back;
  if (axis != 0) {
    Sizes order;
    for (std::int64_t i = 0; i < index_rank; ++i) order.push_back(axis + i);
    for (std::int64_t i = 0; i < rank - 1 + index_rank; ++i) {
      if (i < axis || i >= axis + index_rank) order.push_back(i);
    }
    updates = l.transpose(updates, order);
    moved.erase(moved.begin() + axis);
    moved.insert(moved.begin(), shape[static_cast<std::size_t>(axis)]);
    for (std::int64_t i = 0; i < rank; ++i) back.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
  }
  const ValueId places = l.unsqueeze(as_int64(l, indices), {index_rank});
  const ValueId zeros = l.op("Expand", {l.scalar(0, dtype), l.ints(moved)});
  const ValueId sum =
      l.op("ScatterND", {zeros, places, updates}, {{"reduction", std::string("add")}});
  return axis == 0 ? sum : l.transpose(sum, back);
}

// data, segment_ids, like?
void unsorted_segment_sum(Lowering& l) {
  const Dims shape = l.result_dims();
  const std::int64_t axis = l.axis(l.integer("axis", 0), static_cast<std::int64_t>(shape.size()));
  l.result(0, summed_by_index(l, 0, 1, shape, axis));
}

// data, segment_ids: the sums of each batch by itself.
void unsorted_batch_segment_sum(Lowering& l) {
  const Dims shape = l.result_dims();
  const std::int64_t batch = l.rank(1) - 1;
  if (batch != 1 || l.rank(0) < 2) {
    if (batch == 0) return l.result(0, summed_by_index(l, 0, 1, shape, 0));
    l.unsupported("more than one batch dimension");
  }
  // Rows of all batches in one tensor, each batch with an offset of its own.
  const Dims data = l.dims(0);
  if (shape.size() != data.size()) l.invalid("data and the result have different ranks");
  std::vector<std::int64_t> offsets;
  l.table_size(shape[0]);
  for (std::int64_t i = 0; i < shape[0]; ++i) offsets.push_back(i * shape[1]);
  const ValueId base = l.reshape(l.ints(offsets), {shape[0], 1});
  const ValueId places = l.reshape(l.add(as_int64(l, 1), base), {-1, 1});
  Dims rows{data[0] * data[1]}, flat{shape[0] * shape[1]};
  rows.insert(rows.end(), data.begin() + 2, data.end());
  flat.insert(flat.end(), shape.begin() + 2, shape.end());
  const ValueId zeros = l.op("Expand", {l.scalar(0, l.dtype()), l.ints(flat)});
  const ValueId sum = l.op("ScatterND", {zeros, places, l.reshape(l.in(0), rows)},
                           {{"reduction", std::string("add")}});
  l.result(0, l.reshape(sum, shape));
}

// dy, weight, indices
void embedding_grad(Lowering& l) {
  if (l.flag("scale_grad_by_freq")) l.unsupported("scale_grad_by_freq");
  const Dims shape = l.result_dims();
  const std::int64_t padding = l.integer("padding_idx", -1);
  ValueId dy = l.in(0);
  const ValueId places = l.unsqueeze(as_int64(l, 2), {l.rank(2)});
  if (padding >= 0) {
    const ValueId zero = l.scalar(0, l.dtype());
    const ValueId same = l.op("Equal", {places, l.scalar(padding, DType::kInt64)});
    dy = l.where(same, zero, dy);
  }
  const ValueId zeros = l.op("Expand", {l.scalar(0, l.dtype()), l.ints(shape)});
  l.result(0, l.op("ScatterND", {zeros, places, dy}, {{"reduction", std::string("add")}}));
}

// indices, updates
void scatter_nd(Lowering& l) {
  const ValueId zeros = l.op("Expand", {l.scalar(0, l.dtype(1)), l.ints(l.result_dims())});
  l.result(
      0, l.op("ScatterND", {zeros, as_int64(l, 0), l.in(1)}, {{"reduction", std::string("add")}}));
}

// like, indices, updates
void scatter_nd_like(Lowering& l) {
  const ValueId zeros = l.op("Expand", {l.scalar(0, l.dtype(2)), l.ints(l.dims(0))});
  l.result(
      0, l.op("ScatterND", {zeros, as_int64(l, 1), l.in(2)}, {{"reduction", std::string("add")}}));
}

// params, updates, indices
void tensor_scatter_nd_update(Lowering& l) {
  l.result(0, l.op("ScatterND", {l.in(0), as_int64(l, 2), l.in(1)}));
}

void tensor_scatter_nd_add(Lowering& l) {
  l.result(0, l.op("ScatterND", {l.in(0), as_int64(l, 2), l.in(1)},
                   {{"reduction", std::string("add")}}));
}

// input or like, index, src
ValueId scattered(Lowering& l, ValueId into, const char* reduction) {
  const std::int64_t axis = l.axis(l.integer("dim"), l.rank());
  // ONNX wants as many updates as indices.
  ValueId updates = l.in(2);
  if (l.dims(2) != l.dims(1)) {
    const Dims part = l.dims(1);
    Sizes axes(part.size());
    std::iota(axes.begin(), axes.end(), 0);
    updates = l.slice(updates, Sizes(part.size(), 0), part, axes);
  }
  return l.op("ScatterElements", {into, as_int64(l, 1), updates},
              {{"axis", axis}, {"reduction", std::string(reduction)}});
}

void dim_scatter_add(Lowering& l) { l.result(0, scattered(l, l.in(0), "add")); }
void dim_scatter_update(Lowering& l) { l.result(0, scattered(l, l.in(0), "none")); }

// input, index; a number in place of src
ValueId scattered_number(Lowering& l, const char* reduction) {
  const std::int64_t axis = l.axis(l.integer("dim"), l.rank());
  const ValueId number = l.scalar(l.real("src_scalar"), l.dtype());
  const ValueId updates = l.op("Expand", {number, l.ints(l.dims(1))});
  return l.op("ScatterElements", {l.in(0), as_int64(l, 1), updates},
              {{"axis", axis}, {"reduction", std::string(reduction)}});
}

void dim_scatter_add_scalar(Lowering& l) { l.result(0, scattered_number(l, "add")); }
void dim_scatter_update_scalar(Lowering& l) { l.result(0, scattered_number(l, "none")); }

// How often each place is to be read, and the sums of that: the places.
void repeat_interleave(Lowering& l) {
  std::vector<std::int64_t> places(l.table_size(l.integer("repeat_num")));
  std::iota(places.begin(), places.end(), 0);
  const ValueId ends = l.unsqueeze(as_int64(l, 1), {1});
  const ValueId before = l.cast(l.op("LessOrEqual", {ends, l.ints(places)}), DType::kInt64);
  const ValueId found = l.reduce("ReduceSum", before, {0}, false);
  const DType to = l.result_type().dtype;
  l.result(0, to == DType::kInt64 ? found : l.cast(found, to));
}

void dim_scatter_add_like(Lowering& l) {
  const ValueId zeros = l.op("Expand", {l.scalar(0, l.dtype(2)), l.ints(l.dims(0))});
  l.result(0, scattered(l, zeros, "add"));
}

// The indices of the k largest of the last axis.
void top_k(Lowering& l) {
  const auto outputs = l.ops(
      "TopK", {l.in(), l.ints({l.integer("k")})}, 2,
      {{"axis", std::int64_t{-1}}, {"sorted", static_cast<std::int64_t>(l.flag("sorted", true))}});
  const DType to = l.result_type().dtype;
  l.result(0, to == DType::kInt64 ? outputs[1] : l.cast(outputs[1], to));
}

std::vector<ValueId> ordered(Lowering& l) {
  if (l.rank() < 1) l.unsupported("the order of a single number");
  const bool descending = l.text("direction", "ASCENDING") == "DESCENDING";
  return l.ops("TopK", {l.in(), l.ints({l.dims().back()})}, 2,
               {{"axis", std::int64_t{-1}}, {"largest", static_cast<std::int64_t>(descending)}});
}

void sort(Lowering& l) { l.result(0, ordered(l)[0]); }

void arg_sort(Lowering& l) {
  const ValueId indices = ordered(l)[1];
  const DType to = l.result_type().dtype;
  l.result(0, to == DType::kInt64 ? indices : l.cast(indices, to));
}

}  // namespace

void register_indexing(Registry& r) {
  r.add("gather", gather);
  r.add("embedding", embedding);
  r.add("gather_nd", gather_nd);
  r.add("dim_gather", dim_gather);
  r.add("batch_gather", batch_gather);
  r.add("one_hot", one_hot);
  r.add({"unsorted_segment_sum", "unsorted_segment_sum_like"}, unsorted_segment_sum);
  r.add("unsorted_batch_segment_sum", unsorted_batch_segment_sum);
  r.add("embedding_grad", embedding_grad);
  r.add("scatter_nd", scatter_nd);
  r.add("scatter_nd_like", scatter_nd_like);
  r.add("tensor_scatter_nd_update", tensor_scatter_nd_update);
  r.add("tensor_scatter_nd_add", tensor_scatter_nd_add);
  r.add("dim_scatter_add", dim_scatter_add);
  r.add("dim_scatter_add_like", dim_scatter_add_like);
  r.add("dim_scatter_update", dim_scatter_update);
  r.add("dim_scatter_add_scalar", dim_scatter_add_scalar);
  r.add("dim_scatter_update_scalar", dim_scatter_update_scalar);
  r.add("repeat_interleave", repeat_interleave);
  r.add("top_k", top_k);
  r.add("sort", sort);
  r.add("arg_sort", arg_sort);
}

}  // namespace xrt::oneflow
