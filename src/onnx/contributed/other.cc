// SPDX-License-Identifier: Apache-2.0
// Ops that the standard has by now, and those that belong nowhere else.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "onnx/contributed/rewriting.h"
#include "xrt/error.h"

namespace xrt::contributed {
namespace {

// The op has the same name and meaning in the standard.
void rewrite_as_it_is(Rewriting& r) {
  Values inputs;
  for (std::size_t i = 0; i < r.input_count(); ++i) inputs.push_back(r.input(i));
  r.become(r.op_name(), std::move(inputs), std::move(r.attributes()));
}

void rewrite_identity(Rewriting& r) { r.become("Identity", {r.need(0)}); }

void rewrite_dynamic_slice(Rewriting& r) {
  r.become("Slice", {r.need(0), r.need(1), r.need(2), r.input(3)});
}

void rewrite_gather_nd(Rewriting& r) {
  r.become("GatherND", {r.need(0), r.cast(r.need(1), DType::kInt64)});
}

void rewrite_expand_dims(Rewriting& r) {
  r.become("Unsqueeze", {r.need(0), r.reshape(r.cast(r.need(1), DType::kInt64), {1})});
}

// A cubic sample at the border reads the border's pixels again and again, where the standard's
// reference moves the sample itself. With two more pixels around the picture both are the same.
void rewrite_grid_sample(Rewriting& r) {
  constexpr std::int64_t kAround = 2;
  const auto is = [&](const char* name, const char* value) {
    const auto it = r.attributes().find(name);
    const auto* text = it == r.attributes().end() ? nullptr : std::get_if<std::string>(&it->second);
    return text != nullptr && *text == value;
  };
  ValueId x = r.need(0);
  ValueId grid = r.need(1);
  if (is("mode", "bicubic") && is("padding_mode", "border")) {
    const bool corners = r.flag("align_corners");
    r.attributes()["align_corners"] = std::int64_t{1};
    // The grid names the last axis first.
    const ValueId sizes = r.cast_like(r.gather(r.shape(x), r.ints({3, 2})), grid);
    const ValueId one = r.number(1.0, grid);
    const ValueId whole = r.add(sizes, r.number(2 * kAround - 1, grid));
    const ValueId from_one = r.add(grid, one);
    const ValueId pixels =
        corners ? r.add(r.mul(from_one, r.sub(sizes, one)), r.number(2 * kAround, grid))
                : r.add(r.mul(from_one, sizes), r.number(2 * kAround - 1, grid));
    grid = r.sub(r.div(pixels, whole), one);
    x = r.op("Pad", {x, r.ints({kAround, kAround, kAround, kAround}), {}, r.ints({2, 3})},
             {{"mode", std::string("edge")}});
  }
  r.finish({r.old_op("GridSample", {x, grid}, std::move(r.attributes()), 16)});
}

ValueId as_scalar(Rewriting& r, ValueId v) {
  return r.rank(v) == 0U ? v : r.reshape_to(v, r.ints({}));
}

void rewrite_range(Rewriting& r) {
  const ValueId start = as_scalar(r, r.need(0));
  const ValueId step = r.input(2).valid() ? as_scalar(r, r.input(2)) : r.number(1.0, start);
  r.become("Range", {start, as_scalar(r, r.need(1)), step});
}

void rewrite_pad(Rewriting& r) {
  const ValueId value = r.input(2).valid() ? as_scalar(r, r.input(2)) : ValueId{};
  r.become("Pad", {r.need(0), r.reshape(r.need(1), {-1}), value}, std::move(r.attributes()));
}

// In the order in which they come.
void rewrite_unique(Rewriting& r) {
  const Values u = r.ops("Unique", {r.need(0)}, 4, {{"sorted", std::int64_t{0}}});
  r.finish({u[0], u[2], u[3]});
}

void rewrite_cdist(Rewriting& r) {
  const std::string metric = r.string_attr("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") {
    r.refuse(fmt::format("the metric '{}': ONNX Runtime has euclidean and sqeuclidean", metric));
  }
  const ValueId a = r.need(0);
  const ValueId b = r.need(1);
  const ValueId products = r.matmul(a, r.transpose(b, {1, 0}));
  const ValueId squares_a = r.reduce("ReduceSum", r.mul(a, a), {1});
  const ValueId squares_b = r.reduce("ReduceSum", r.mul(b, b), {1}, /*keep=*/false);
  const ValueId twice = r.mul(products, r.number(-2.0, a));
  const ValueId y = r.op("Abs", {r.add(r.add(twice, squares_a), squares_b)});
  r.finish({metric == "euclidean" ? r.op("Sqrt", {y}) : y});
}

// Slices of `size` elements every `step` along an axis; the elements of a slice are a new last
// axis.
void rewrite_unfold_tensor(Rewriting& r) {
  const auto size = r.required_int("size", kLength);
  const auto step = r.int_attr("step", 1, kLength);
  const auto rank = static_cast<std::int64_t>(r.need_rank(0));
  const auto axis = static_cast<std::int64_t>(r.axis_attr("dim", -1, r.need_rank(0)));
  const ValueId x = r.need(0);
  const ValueId count =
      r.add(r.div(r.sub(r.size(x, axis), r.whole(size)), r.whole(step)), r.whole(1));
  const ValueId starts = r.mul(r.unsqueeze(r.range(count), {1}), r.whole(step));
  const ValueId slices = r.gather(x, r.add(starts, r.range(r.whole(size))), axis);
  Ints perm;
  for (std::int64_t i = 0; i <= rank; ++i) {
    if (i != axis + 1) perm.push_back(i);
  }
  perm.push_back(axis + 1);
  r.finish({r.transpose(slices, perm)});
}

// Gauss and Jordan's elimination with the largest pivot of a column, a step of a Loop for each row
// of (matrix | identity).
void rewrite_inverse(Rewriting& r) {
  const ValueId given = r.need(0);
  const ValueId x = r.dtype(given) == DType::kFloat16 ? r.cast(given, DType::kFloat32) : given;
  const ValueId n = r.shape(x, -1);
  const ValueId matrices = r.reshape_to(x, r.concat({r.ints({-1}), n, n}));
  const ValueId at = r.range(r.squeeze(n, {0}));
  const ValueId unit = r.cast_like(r.op("Equal", {r.unsqueeze(at, {1}), at}), x);
  const ValueId identities = r.op("Expand", {unit, r.shape(matrices)});
  const ValueId start = r.concat({matrices, identities}, 2);

  auto body = r.new_body("eliminate");
  const Type type = Type::tensor(r.dtype(x), Shape{Dim(), Dim(), Dim()});
  const ValueId step = body->graph.add_input("step", Type::tensor(DType::kInt64, Shape{}));
  const ValueId go = body->graph.add_input("go", Type::tensor(DType::kBool, Shape{}));
  const ValueId rows = body->graph.add_input("rows", type);
  Rewriting b = body->rewriting();
  const ValueId index = b.range(b.size(rows, 1));
  const ValueId here = b.op("Equal", {index, step});
  const ValueId column = b.gather(rows, step, 2);  // (B, n)
  const ValueId sizes =
      b.where(b.op("Less", {index, step}), b.number(-1.0, rows), b.op("Abs", {column}));
  const ValueId largest =
      b.op("ArgMax", {sizes}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{1}}});
  const ValueId chosen = b.unsqueeze(b.op("Equal", {index, largest}), {2});  // (B, n, 1)
  const ValueId zero = b.number(0.0, rows);
  const ValueId pivot_row = b.reduce("ReduceSum", b.where(chosen, rows, zero), {1});
  const ValueId step_row = b.unsqueeze(b.gather(rows, step, 1), {1});
  const ValueId here_rows = b.unsqueeze(here, {1});
  const ValueId swapped = b.where(here_rows, pivot_row, b.where(chosen, step_row, rows));
  const ValueId pivot = b.unsqueeze(b.gather(pivot_row, step, 2), {2});
  const ValueId normal = b.div(pivot_row, pivot);
  const ValueId factors = b.unsqueeze(b.gather(swapped, step, 2), {2});
  const ValueId next = b.where(here_rows, normal, b.sub(swapped, b.mul(factors, normal)));
  body->graph.add_output(b.op("Identity", {go}));
  body->graph.add_output(next);
  const ValueId done = r.loop(*body, r.squeeze(n, {0}), {start}).at(0);
  const ValueId inverse = r.slice_axis(done, n, {}, 2);
  r.finish({r.cast_like(r.reshape_to(inverse, r.shape(x)), given)});
}

// Boxes of pictures, each sampled at a grid of `crop_size` points, corners on corners.
void rewrite_crop_and_resize(Rewriting& r) {
  const std::string mode = r.string_attr("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest") r.refuse("the mode '" + mode + "' is not known");
  const float outside = r.float_attr("extrapolation_value", 0.0F);
  const ValueId x = r.need(0);
  const ValueId boxes = r.need(1);  // (R, 4): top, left, bottom, right
  const ValueId size = r.cast(r.need(3), DType::kInt64);
  const ValueId pictures = r.gather(x, r.need(2));  // (R, C, H, W)
  const ValueId one = r.number(1.0, x);
  const ValueId half = r.number(0.5, x);
  const ValueId two = r.number(2.0, x);
  // Points of one axis in [0, 1] of the picture: (R, count).
  const auto points = [&](std::int64_t axis) {
    const ValueId start = r.slice(boxes, {axis}, {axis + 1}, {1});
    const ValueId end = r.slice(boxes, {axis + 2}, {axis + 3}, {1});
    const ValueId count = r.gather(size, r.whole(axis));
    const ValueId last = r.sub(count, r.whole(1));
    const ValueId at = r.range(count);
    const ValueId steps = r.op("Max", {r.cast_like(last, x), one});
    const ValueId inside = r.add(start, r.mul(r.cast_like(at, x), r.div(r.sub(end, start), steps)));
    const ValueId several = r.where(r.op("Equal", {at, last}), end, inside);
    return r.where(r.op("Greater", {count, r.whole(1)}), several, r.mul(half, r.add(start, end)));
  };
  const ValueId y = points(0);
  const ValueId u = points(1);
  const auto beyond = [&](ValueId v) {
    return r.op("Or", {r.op("Less", {v, r.number(0.0, x)}), r.op("Greater", {v, one})});
  };
  // From [0, 1] to [-1, 1], for the nearest point at the middle of one.
  const auto coordinate = [&](ValueId v, std::int64_t axis) {
    if (mode != "bilinear") {
      const ValueId last =
          r.op("Max", {r.cast_like(r.sub(r.shape(x, axis, axis + 1), r.ints({1})), x), one});
      v = r.div(r.op("Floor", {r.add(r.mul(v, last), half)}), last);
    }
    return r.sub(r.mul(v, two), one);
  };
  const ValueId grid_shape = r.concat({r.shape(y), r.shape(u, 1, 2), r.ints({1})});
  const ValueId rows = r.op("Expand", {r.unsqueeze(coordinate(y, 2), {2, 3}), grid_shape});
  const ValueId columns = r.op("Expand", {r.unsqueeze(coordinate(u, 3), {1, 3}), grid_shape});
  const ValueId sampled = r.op("GridSample", {pictures, r.concat({columns, rows}, 3)},
                               {{"align_corners", std::int64_t{1}},
                                {"padding_mode", std::string("border")},
                                {"mode", std::string(mode == "bilinear" ? "linear" : "nearest")}});
  const ValueId out = r.op("Or", {r.unsqueeze(beyond(y), {1, 3}), r.unsqueeze(beyond(u), {1, 2})});
  r.finish({r.where(out, r.number(outside, x), sampled)});
}

constexpr auto kOther = std::to_array<Entry>({
    {"", "DynamicSlice", rewrite_dynamic_slice},
    {"", "ThresholdedRelu", rewrite_as_it_is},
    {kMicrosoft, "CDist", rewrite_cdist},
    {kMicrosoft, "CropAndResize", rewrite_crop_and_resize},
    {kMicrosoft, "ExpandDims", rewrite_expand_dims},
    {kMicrosoft, "GatherND", rewrite_gather_nd},
    {kMicrosoft, "GridSample", rewrite_grid_sample},
    {kMicrosoft, "Inverse", rewrite_inverse},
    {kMicrosoft, "Pad", rewrite_pad},
    {kMicrosoft, "Range", rewrite_range},
    {kMicrosoft, "SampleOp", rewrite_identity},
    {kMicrosoft, "Trilu", rewrite_as_it_is},
    {kMicrosoft, "UnfoldTensor", rewrite_unfold_tensor},
    {kMicrosoft, "Unique", rewrite_unique},
});

}  // namespace

std::span<const Entry> other_ops() { return kOther; }

}  // namespace xrt::contributed
