// SPDX-License-Identifier: Apache-2.0
// Ops that move elements or make new ones: shapes, parts, joins, padding, constants.
#include <algorithm>
#include <limits>
#include <numeric>

#include "frontends/oneflow/lowering.h"

namespace xrt::oneflow {
namespace {

using Sizes = std::vector<std::int64_t>;

// OneFlow says the shape of the result; with an open batch dimension the attribute has a -1.
void reshape(Lowering& l) {
  const auto known = l.result_type().static_dims();
  l.result(0, l.reshape(l.in(), known ? *known : l.integers("shape")));
}

void reshape_like(Lowering& l) { l.result(0, l.reshape(l.in(0), l.dims(1))); }

void transpose(Lowering& l) {
  Sizes order = l.integers("perm");
  for (std::int64_t& axis : order) axis = l.axis(axis, l.rank());
  l.result(0, l.transpose(l.in(), order));
}

// Axes are counted in the tensor that results.
void expand_dims(Lowering& l) {
  l.result(0, l.unsqueeze(l.in(), {l.axis(l.integer("axis"), l.rank() + 1)}));
}

void squeeze(Lowering& l) {
  Sizes axes = l.integers("axes");
  for (std::int64_t& axis : axes) axis = l.axis(axis, l.rank());
  l.result(0, axes.empty() ? l.in() : l.op("Squeeze", {l.in(), l.ints(axes)}));
}

void concat(Lowering& l) {
  const auto parts = l.flat();
  if (parts.empty()) l.invalid("there is nothing to join");
  if (parts.size() == 1) return l.result(0, parts.front());
  const std::int64_t axis = l.axis(l.integer("axis"), l.rank());
  l.result(0, l.op("Concat", parts, {{"axis", axis}}));
}

void stack(Lowering& l) {
  const std::int64_t axis = l.axis(l.integer("axis"), l.rank() + 1);
  std::vector<ValueId> parts;
  for (const ValueId part : l.flat()) parts.push_back(l.unsqueeze(part, {axis}));
  l.result(0, parts.size() == 1 ? parts.front() : l.op("Concat", parts, {{"axis", axis}}));
}

// in, then a tensor per part that tells its size
void split_like(Lowering& l) {
  const std::int64_t axis = l.axis(l.integer("axis"), l.rank());
  Sizes sizes;
  for (std::size_t i = 0; i < l.results(); ++i) {
    const Dims part = l.result_dims(i);
    if (static_cast<std::int64_t>(part.size()) != l.rank()) l.invalid("a part has another rank");
    sizes.push_back(part[static_cast<std::size_t>(axis)]);
  }
  const auto parts = l.ops("Split", {l.in(), l.ints(sizes)}, sizes.size(), {{"axis", axis}});
  for (std::size_t i = 0; i < parts.size(); ++i) l.result(i, parts[i]);
}

// Half-open ranges with a step, one per dimension; those that take everything are left out.
void slice(Lowering& l) {
  const Dims dims = l.dims();
  const Sizes start = l.integers("start"), stop = l.integers("stop"), step = l.integers("step");
  if (start.size() != dims.size() || stop.size() != dims.size() || step.size() != dims.size()) {
    l.invalid("start, stop and step have another length than the tensor has dimensions");
  }
  Sizes starts, stops, steps, axes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (start[i] == 0 && stop[i] >= dims[i] && step[i] == 1) continue;
    starts.push_back(start[i]);
    // Backwards, one before the first element is -1, which ONNX reads as the last one.
    stops.push_back(step[i] < 0 && stop[i] < 0 ? std::numeric_limits<std::int64_t>::min()
                                               : stop[i]);
    steps.push_back(step[i]);
    axes.push_back(static_cast<std::int64_t>(i));
  }
  if (axes.empty()) return l.result(0, l.in());
  l.result(0, l.op("Slice", {l.in(), l.ints(starts), l.ints(stops), l.ints(axes), l.ints(steps)}));
}

// Where the elements of a part of a tensor lie in it, row after row.
Tensor places_of(const Lowering& l, const Dims& dims, const Dims& part, const Sizes& start,
                 const Sizes& step) {
  if (start.size() != dims.size() || step.size() != dims.size() || part.size() != dims.size()) {
    l.invalid("start or step has another length than the tensor has dimensions");
  }
  const auto count = static_cast<std::int64_t>(l.table_size(element_count(part)));
  Tensor places = Tensor::allocate(DType::kInt64, {count});
  Sizes index(part.size(), 0);
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const std::int64_t place = start[i] + index[i] * step[i];
      if (place < 0 || place >= dims[i]) l.invalid("the part lies outside of the tensor");
      at = at * dims[i] + place;
    }
    places.data<std::int64_t>()[n] = at;
    for (std::size_t i = part.size(); i-- > 0;) {
      if (++index[i] < part[i]) break;
      index[i] = 0;
    }
  }
  return places;
}

// `into`, flat, with `part` at these places.
ValueId written(Lowering& l, ValueId into, ValueId part, Tensor places, const Dims& dims) {
  const ValueId flat = l.op("ScatterElements", {into, l.constant(std::move(places)),
                                                l.op("Reshape", {part, l.ints({-1})})});
  return l.reshape(flat, dims);
}

// dy back to where slice took it from, zeros elsewhere.
void slice_grad(Lowering& l) {
  const Dims dims = l.result_dims(), dy = l.dims();
  const Sizes start = l.sizes("start"), step = l.sizes("step");
  if (start.size() != dims.size() || step.size() != dims.size() || dy.size() != dims.size()) {
    l.invalid("start or step has another length than the tensor has dimensions");
  }
  if (std::any_of(step.begin(), step.end(), [](std::int64_t n) { return n != 1; })) {
    const ValueId zeros = l.op("Expand", {l.scalar(0, l.dtype()), l.ints({element_count(dims)})});
    return l.result(0, written(l, zeros, l.in(), places_of(l, dims, dy, start, step), dims));
  }
  ValueId dx = l.in();
  Sizes before = start, after;
  bool pads = false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    after.push_back(dims[i] - start[i] - dy[i]);
    if (start[i] < 0 || after.back() < 0) l.invalid("the part lies outside of the tensor");
    pads = pads || before[i] != 0 || after.back() != 0;
  }
  before.insert(before.end(), after.begin(), after.end());
  if (pads) dx = l.op("Pad", {dx, l.ints(before), l.scalar(0, l.dtype())});
  l.result(0, dx);
}

// ref, value: ref with a part of it replaced.
void slice_update(Lowering& l) {
  const Dims dims = l.dims(0);
  Tensor places = places_of(l, dims, l.dims(1), l.sizes("start"), l.sizes("step"));
  const ValueId flat = l.op("Reshape", {l.in(0), l.ints({-1})});
  const ValueId y = written(l, flat, l.in(1), std::move(places), dims);
  l.result(0, y);
  if (l.results() == 0) l.update(0, y);
}

void narrow(Lowering& l) {
  const std::int64_t axis = l.axis(l.integer("dim"), l.rank());
  const std::int64_t start = l.size("start");
  l.result(0, l.slice(l.in(), {start}, {start + l.size("length")}, {axis}));
}

// dy, like
void narrow_grad(Lowering& l) {
  const Dims dims = l.dims(1);
  const auto axis = static_cast<std::size_t>(l.axis(l.integer("dim"), l.rank(1)));
  Sizes pads(dims.size() * 2, 0);
  pads[axis] = l.size("start");
  pads[dims.size() + axis] = dims[axis] - l.size("start") - l.size("length");
  l.result(0, l.op("Pad", {l.in(0), l.ints(pads), l.scalar(0, l.dtype())}));
}

void expand(Lowering& l) {
  if (l.dims() == l.result_dims()) return l.result(0, l.in());
  l.result(0, l.op("Expand", {l.in(), l.ints(l.result_dims())}));
}

// x, like; broadcast_axes are those that x lacks.
void broadcast_like(Lowering& l) {
  const Dims like = l.dims(1), x = l.dims(0);
  ValueId y = l.in(0);
  if (x.size() < like.size()) {
    Sizes axes = l.integers("broadcast_axes");
    for (std::int64_t& axis : axes) axis = l.axis(axis, static_cast<std::int64_t>(like.size()));
    if (axes.size() + x.size() == like.size()) y = l.unsqueeze(y, axes);
  }
  l.result(0, x == like ? y : l.op("Expand", {y, l.ints(like)}));
}

void repeat(Lowering& l) { l.result(0, l.op("Expand", {l.in(), l.ints(l.result_dims())})); }

void roll(Lowering& l) {
  const Dims dims = l.dims();
  const Sizes shifts = l.sizes("shifts"), axes = l.integers("dims");
  if (shifts.size() != axes.size()) l.invalid("shifts and dims have different lengths");
  ValueId y = l.in();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = l.axis(axes[i], l.rank());
    const std::int64_t size = dims[static_cast<std::size_t>(axis)];
    if (size == 0) continue;
    const std::int64_t shift = ((shifts[i] % size) + size) % size;
    if (shift == 0) continue;
    const ValueId tail = l.slice(y, {size - shift}, {size}, {axis});
    const ValueId head = l.slice(y, {0}, {size - shift}, {axis});
    y = l.op("Concat", {tail, head}, {{"axis", axis}});
  }
  l.result(0, y);
}

void flip(Lowering& l) {
  Sizes axes = l.integers("dims");
  for (std::int64_t& axis : axes) axis = l.axis(axis, l.rank());
  if (axes.empty()) return l.result(0, l.in());
  const Sizes starts(axes.size(), -1), steps(axes.size(), -1);
  const Sizes stops(axes.size(), std::numeric_limits<std::int64_t>::min());
  l.result(0, l.op("Slice", {l.in(), l.ints(starts), l.ints(stops), l.ints(axes), l.ints(steps)}));
}

void triangle(Lowering& l, bool upper) {
  const ValueId diagonal = l.scalar(l.integer("diagonal", 0), DType::kInt64);
  l.result(0, l.op("Trilu", {l.in(), diagonal}, {{"upper", static_cast<std::int64_t>(upper)}}));
}

void tril(Lowering& l) {
  const bool fills = l.flag("is_floating_fill_value") ? l.real("floating_fill_value", 0) != 0
                                                      : l.integer("integer_fill_value", 0) != 0;
  if (fills) l.unsupported("a fill value that is not 0");
  triangle(l, false);
}

void triu(Lowering& l) { triangle(l, true); }

// --- padding ------------------------------------------------------------------------------------

Sizes joined(Sizes before, const Sizes& after) {
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

void pad(Lowering& l) {
  const Sizes pads = joined(l.sizes("padding_before"), l.sizes("padding_after"));
  if (pads.size() != static_cast<std::size_t>(2 * l.rank())) {
    l.invalid("padding_before and padding_after do not fit the tensor");
  }
  const Number value = is_floating(l.dtype()) ? Number(l.real("floating_constant_value", 0))
                                              : Number(l.integer("integral_constant_value", 0));
  l.result(0, l.op("Pad", {l.in(), l.ints(pads), l.scalar(value, l.dtype())}));
}

void pad_grad(Lowering& l) {
  Sizes pads = joined(l.sizes("padding_before"), l.sizes("padding_after"));
  for (std::int64_t& n : pads) n = -n;
  l.result(0, l.op("Pad", {l.in(), l.ints(pads), l.scalar(0, l.dtype())}));
}

// --- constants ----------------------------------------------------------------------------------

void constant(Lowering& l) {
  const bool floating = l.flag("is_floating_value");
  const Number value =
      floating ? Number(l.real("floating_value")) : Number(l.integer("integer_value"));
  l.result(0, l.op("Expand", {l.scalar(value, l.result_type().dtype), l.ints(l.result_dims())}));
}

void filled_like(Lowering& l, Number value) {
  l.result(0, l.op("Expand", {l.scalar(value, l.result_type().dtype), l.ints(l.result_dims())}));
}

void fill(Lowering& l) {
  filled_like(l, l.flag("is_floating_value") ? Number(l.real("floating_value"))
                                             : Number(l.integer("integral_value")));
}

void zeros_like(Lowering& l) { filled_like(l, 0); }
void ones_like(Lowering& l) { filled_like(l, 1); }

void arange(Lowering& l) {
  const DType dtype = l.result_type().dtype;
  const bool floating = is_floating(dtype);
  const auto number = [&](const char* real, const char* integer) {
    return l.scalar(floating ? Number(l.real(real)) : Number(l.integer(integer)), dtype);
  };
  l.result(0, l.op("Range",
                   {number("float_start", "integer_start"), number("float_limit", "integer_limit"),
                    number("float_delta", "integer_delta")}));
}

}  // namespace

void register_shapes(Registry& r) {
  r.add("reshape", reshape);
  r.add("reshape_like", reshape_like);
  r.add("transpose", transpose);
  r.add("expand_dims", expand_dims);
  r.add("squeeze", squeeze);
  r.add({"cat", "concat"}, concat);
  r.add("stack", stack);
  r.add("split_like", split_like);
  r.add("slice", slice);
  r.add("slice_grad", slice_grad);
  r.add("slice_update", slice_update);
  r.add("narrow", narrow);
  r.add("narrow_grad", narrow_grad);
  r.add("expand", expand);
  r.add("broadcast_like", broadcast_like);
  r.add("repeat", repeat);
  r.add("roll", roll);
  r.add("flip", flip);
  r.add("tril", tril);
  r.add("triu", triu);
  r.add({"constant_pad1d", "constant_pad2d", "constant_pad3d", "pad"}, pad);
  r.add("pad_grad", pad_grad);
  r.add("constant", constant);
  r.add({"zero_like", "zeros_like"}, zeros_like);
  r.add("empty", zeros_like);
  r.add("fill_", fill);
  r.add("ones_like", ones_like);
  r.add("arange", arange);
}

}  // namespace xrt::oneflow
