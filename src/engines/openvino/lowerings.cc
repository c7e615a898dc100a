// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/lowerings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <openvino/frontend/onnx/extension/conversion.hpp>
#include <openvino/op/bitwise_left_shift.hpp>
#include <openvino/op/bitwise_right_shift.hpp>
#include <openvino/opsets/opset13.hpp>

#include "engines/openvino/barriers.h"
#include "engines/openvino/types.h"
#include "ir/attributes.h"
#include "ir/pattern.h"

namespace xrt::openvino {
namespace {

namespace ops = ov::opset13;
using Context = ov::frontend::NodeContext;
using Value = ov::Output<ov::Node>;

// --- helpers ------------------------------------------------------------------------------------

bool given(const Context& node, int input) {
  // The frontend stands a node of this type in for an omitted optional input.
  return static_cast<std::size_t>(input) < node.get_input_size() &&
         std::string_view(node.get_input(input).get_node()->get_type_name()) != "NullNode";
}

Value ints(const std::vector<std::int64_t>& values) {
  const ov::Shape shape{values.size()};
  return ops::Constant::create(ov::element::i64, shape, values);
}

template <typename T>
Value scalar(const ov::element::Type& type, T value) {
  return ops::Constant::create(type, ov::Shape{}, {value});
}

Value to_scalar(const Value& value) {
  return std::make_shared<ops::Reshape>(value, ints({}), false);
}

Value convert_to(const Value& value, const ov::element::Type& type) {
  if (value.get_element_type() == type) return value;
  return std::make_shared<ops::Convert>(value, type);
}

bool is_constant(const Value& value) {
  return std::dynamic_pointer_cast<ops::Constant>(value.get_node_shared_ptr()) != nullptr;
}

// The value as it is, by an op that no pass of the plugin moves another across or joins with one.
Value kept(const Value& x) {
  return std::make_shared<ops::Select>(std::make_shared<ops::Equal>(x, x), x, x);
}

// --- lowerings ----------------------------------------------------------------------------------

// Equal elements keep their order, as the standard says; the frontend asks for any order.
ov::OutputVector top_k(const Context& node) {
  const bool largest = node.get_attribute<std::int64_t>("largest", 1) != 0;
  const auto op = std::make_shared<ops::TopK>(
      node.get_input(0), to_scalar(node.get_input(1)), node.get_attribute<std::int64_t>("axis", -1),
      largest ? ops::TopK::Mode::MAX : ops::TopK::Mode::MIN, ops::TopK::SortType::SORT_VALUES,
      ov::element::i64, /*stable=*/true);
  return op->outputs();
}

// The CPU plugin starts a maximum from the lowest finite number, so the maximum of minus infinities
// would be finite. Halving before and doubling after is exact and makes that number overflow to
// minus infinity where it is not an element.
template <typename Reduce>
Value extreme(const Value& x, const Value& axes, bool keep_dims) {
  const auto type = x.get_element_type();
  const Value halved = std::make_shared<ops::Multiply>(x, scalar(type, 0.5F));
  const Value reduced = std::make_shared<Reduce>(halved, axes, keep_dims);
  // Rounding to bytes would become a part of the reduction, which leaves it out, and the factor
  // would be taken for a scale.
  return kept(std::make_shared<ops::Multiply>(reduced, scalar(type, 2.0F)));
}

// The axes from `first` on.
Value axes_from(std::int64_t first, const Value& x) {
  std::vector<std::int64_t> axes;
  for (std::int64_t i = first; i < x.get_partial_shape().rank().get_length(); ++i) {
    axes.push_back(i);
  }
  return ints(axes);
}

template <typename Reduce>
ov::OutputVector reduce_extreme(const Context& node) {
  const Value data = node.get_input(0);
  if (!given(node, 1) && node.get_attribute<std::int64_t>("noop_with_empty_axes", 0) != 0) {
    return {std::make_shared<ops::Convert>(data, data.get_element_type())};
  }
  return {extreme<Reduce>(data, given(node, 1) ? node.get_input(1) : axes_from(0, data),
                          node.get_attribute<std::int64_t>("keepdims", 1) != 0)};
}

ov::OutputVector global_max_pool(const Context& node) {
  const Value x = node.get_input(0);
  return {extreme<ops::ReduceMax>(x, axes_from(2, x), /*keep_dims=*/true)};
}

// The plugin's code for "greater" is true for NaN; that for "less" is not.
template <typename Less>
ov::OutputVector turned_comparison(const Context& node) {
  return {std::make_shared<Less>(node.get_input(1), node.get_input(0))};
}

// OpenVINO's own adds to the norm, which shows where it is small. What has a norm of 0 stays.
ov::OutputVector lp_normalization(const Context& node) {
  const Value x = node.get_input(0), axis = ints({node.get_attribute<std::int64_t>("axis", -1)});
  const bool is_sum = node.get_attribute<std::int64_t>("p", 2) == 1;
  const Value size =
      is_sum ? Value(std::make_shared<ops::Abs>(x)) : Value(std::make_shared<ops::Multiply>(x, x));
  const Value sum = std::make_shared<ops::ReduceSum>(size, axis, /*keep_dims=*/true);
  const Value norm = is_sum ? sum : Value(std::make_shared<ops::Sqrt>(sum));
  const auto number = [&](int value) -> Value {
    return ops::Constant::create(x.get_element_type(), ov::Shape{}, {value});
  };
  const Value is_zero = std::make_shared<ops::Equal>(norm, number(0));
  return {
      std::make_shared<ops::Divide>(x, std::make_shared<ops::Select>(is_zero, number(1), norm))};
}

// The frontend multiplies what is left out by zero, which leaves NaN as it is.
ov::OutputVector shrink(const Context& node) {
  const Value x = node.get_input(0);
  const auto number = [&](float value) { return scalar(x.get_element_type(), value); };
  const float lambd = node.get_attribute<float>("lambd", 0.5F);
  const Value bias = number(node.get_attribute<float>("bias", 0));
  const Value low = std::make_shared<ops::Less>(x, number(-lambd));
  const Value high = std::make_shared<ops::Less>(number(lambd), x);
  return {std::make_shared<ops::Select>(
      low, std::make_shared<ops::Add>(x, bias),
      std::make_shared<ops::Select>(high, std::make_shared<ops::Subtract>(x, bias), number(0)))};
}

ov::OutputVector barrier(const Context& node) { return {kept(node.get_input(0))}; }

// The plugin repeats a tensor of one channel, or of one place per channel, in the wrong order where
// its neighbours lay it out by channels. With one axis more it has no such layout.
Value with_axis(const Value& x) { return std::make_shared<ops::Unsqueeze>(x, ints({0})); }
Value without_axis(const Value& x) { return std::make_shared<ops::Squeeze>(x, ints({0})); }

ov::OutputVector expand(const Context& node) {
  const Value x = node.get_input(0), shape = convert_to(node.get_input(1), ov::element::i64);
  const Value y =
      std::make_shared<ops::Broadcast>(with_axis(x), shape, ov::op::BroadcastType::BIDIRECTIONAL);
  const auto rank = x.get_partial_shape().rank().get_length();
  return {shape.get_partial_shape()[0].get_length() > rank ? y : without_axis(y)};
}

// A tensor put together with itself, which the plugin takes for a Tile.
ov::OutputVector concat_of_one(const Context& node) {
  const Value x = node.get_input(0);
  const auto rank = x.get_partial_shape().rank().get_length();
  const auto axis = node.get_attribute<std::int64_t>("axis");
  std::vector<std::int64_t> repeats(static_cast<std::size_t>(rank + 1), 1);
  repeats[static_cast<std::size_t>(1 + (axis < 0 ? axis + rank : axis))] =
      static_cast<std::int64_t>(node.get_input_size());
  return {without_axis(std::make_shared<ops::Tile>(with_axis(x), ints(repeats)))};
}

// Of repeats that are only known at run time the plugin's Tile takes the wrong ones.
ov::OutputVector tile(const Context& node) {
  const Value x = node.get_input(0);
  const auto rank = x.get_partial_shape().rank().get_length();
  const Value repeats = convert_to(node.get_input(1), ov::element::i64);
  if (is_constant(repeats)) {
    const Value all = std::make_shared<ops::Concat>(ov::OutputVector{ints({1}), repeats}, 0);
    return {without_axis(std::make_shared<ops::Tile>(with_axis(x), all))};
  }
  const Value dims = std::make_shared<ops::ShapeOf>(x, ov::element::i64);
  ov::OutputVector split, spread, joined;
  for (std::int64_t i = 0; i < rank; ++i) {
    const Value index = ints({i});
    const Value axis = scalar(ov::element::i64, 0);
    const Value dim = std::make_shared<ops::Gather>(dims, index, axis);
    const Value times = std::make_shared<ops::Gather>(repeats, index, axis);
    split.insert(split.end(), {ints({1}), dim});
    spread.insert(spread.end(), {times, dim});
    joined.push_back(std::make_shared<ops::Multiply>(times, dim));
  }
  const auto concat = [](const ov::OutputVector& parts) {
    return std::make_shared<ops::Concat>(parts, 0);
  };
  const Value apart = std::make_shared<ops::Reshape>(x, concat(split), false);
  const Value repeated = std::make_shared<ops::Broadcast>(apart, concat(spread));
  return {std::make_shared<ops::Reshape>(repeated, concat(joined), false)};
}

// A row of numbers along the first axis of a tensor of `rank`, or one for all.
Value along_first(const Value& row, std::size_t rank) {
  if (ov::shape_size(row.get_shape()) == 1) return to_scalar(row);
  std::vector<std::int64_t> dims(rank, 1);
  dims[0] = -1;
  return std::make_shared<ops::Reshape>(row, ints(dims), false);
}

Value dequantized(const Value& x, const Value& scale, const Value& zero) {
  const auto f32 = ov::element::f32;
  const Value shifted = std::make_shared<ops::Subtract>(std::make_shared<ops::Convert>(x, f32),
                                                        std::make_shared<ops::Convert>(zero, f32));
  return std::make_shared<ops::Multiply>(shifted, scale);
}

Value quantized(const Value& x, const Value& scale, const Value& zero) {
  const auto f32 = ov::element::f32;
  const auto type = zero.get_element_type();
  const float least = type == ov::element::i8 ? -128 : 0;
  const Value low = scalar(f32, least), high = scalar(f32, least + 255);
  const Value number = std::make_shared<ops::Convert>(zero, f32);
  const auto real = [&](const Value& value) -> Value {
    return std::make_shared<ops::Multiply>(std::make_shared<ops::Subtract>(value, number), scale);
  };
  const Value rounded =
      std::make_shared<ops::FakeQuantize>(x, real(low), real(high), low, high, 256);
  return std::make_shared<ops::Convert>(rounded, type);
}

// Of weights with a scale for each output channel, which the frontend takes for those of input
// channels.
ov::OutputVector quantized_conv(const Context& node) {
  const Value x = node.get_input(0), w = node.get_input(3);
  const ov::Shape& window = w.get_shape();
  const std::size_t rank = window.size(), axes = rank - 2;
  const auto list = [&](const char* name, std::size_t count, std::int64_t usual) {
    return node.get_attribute<std::vector<std::int64_t>>(name,
                                                         std::vector<std::int64_t>(count, usual));
  };
  const auto strides = list("strides", axes, 1), dilations = list("dilations", axes, 1);
  const auto pads = list("pads", 2 * axes, 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(axes);
  const ov::CoordinateDiff begin(pads.begin(), middle), end(middle, pads.end());
  const auto automatic = node.get_attribute<std::string>("auto_pad", "NOTSET");
  const auto padding = automatic == "SAME_UPPER"   ? ov::op::PadType::SAME_UPPER
                       : automatic == "SAME_LOWER" ? ov::op::PadType::SAME_LOWER
                       : automatic == "VALID"      ? ov::op::PadType::VALID
                                                   : ov::op::PadType::EXPLICIT;
  const ov::Strides steps(strides.begin(), strides.end());
  const ov::Strides spread(dilations.begin(), dilations.end());

  const Value x_scale = to_scalar(node.get_input(1)), w_scale = node.get_input(4);
  const Value data = dequantized(x, x_scale, to_scalar(node.get_input(2)));
  Value weights = dequantized(w, along_first(w_scale, rank), along_first(node.get_input(5), rank));
  Value result;
  const auto groups = node.get_attribute<std::int64_t>("group", 1);
  if (groups == 1) {
    result = std::make_shared<ops::Convolution>(data, weights, steps, begin, end, spread, padding);
  } else {
    std::vector<std::int64_t> dims{groups, static_cast<std::int64_t>(window[0]) / groups};
    for (std::size_t i = 1; i < rank; ++i) dims.push_back(static_cast<std::int64_t>(window[i]));
    weights = std::make_shared<ops::Reshape>(weights, ints(dims), false);
    result =
        std::make_shared<ops::GroupConvolution>(data, weights, steps, begin, end, spread, padding);
  }
  if (given(node, 8)) {
    const Value sums = std::make_shared<ops::Convert>(node.get_input(8), ov::element::f32);
    const Value bias =
        std::make_shared<ops::Multiply>(sums, std::make_shared<ops::Multiply>(w_scale, x_scale));
    std::vector<std::int64_t> dims(rank, 1);
    dims[1] = -1;
    result =
        std::make_shared<ops::Add>(result, std::make_shared<ops::Reshape>(bias, ints(dims), false));
  }
  return {quantized(result, to_scalar(node.get_input(6)), to_scalar(node.get_input(7)))};
}

// The plugin shifts bytes as floats: it saturates to the left and rounds to the right.
ov::OutputVector shift_of_bytes(const Context& node) {
  const auto i32 = ov::element::i32;
  const Value x = convert_to(node.get_input(0), i32);
  const Value count = std::make_shared<ops::Minimum>(convert_to(node.get_input(1), i32),
                                                     scalar(i32, 8));  // which leaves none
  Value shifted;
  if (node.get_attribute<std::string>("direction") == "LEFT") {
    shifted = std::make_shared<ops::BitwiseAnd>(
        std::make_shared<ov::op::v15::BitwiseLeftShift>(x, count), scalar(i32, 255));
  } else {
    shifted = std::make_shared<ov::op::v15::BitwiseRightShift>(x, count);
  }
  return {convert_to(shifted, ov::element::u8)};
}

// The CPU plugin suppresses a box from the threshold on, the standard above it: the next larger
// number is given as threshold. For a negative count it writes outside of its memory.
ov::OutputVector non_max_suppression(const Context& node) {
  const auto f32 = ov::element::f32;
  const auto input_or = [&](int i, const Value& fallback) {
    return given(node, i) ? to_scalar(node.get_input(i)) : fallback;
  };
  const Value zero = scalar(f32, 0.0F);
  const Value threshold = std::make_shared<ops::Maximum>(
      std::make_shared<ops::Multiply>(input_or(3, zero),
                                      scalar(f32, 1.0F + std::numeric_limits<float>::epsilon())),
      scalar(f32, std::numeric_limits<float>::min()));
  const bool center = node.get_attribute<std::int64_t>("center_point_box", 0) != 0;
  const Value none = scalar(ov::element::i64, 0);
  const Value most = std::make_shared<ops::Maximum>(input_or(2, none), none);
  const auto op = std::make_shared<ops::NonMaxSuppression>(
      node.get_input(0), node.get_input(1), most, threshold,
      input_or(4, scalar(f32, std::numeric_limits<float>::lowest())),
      center ? ops::NonMaxSuppression::BoxEncodingType::CENTER
             : ops::NonMaxSuppression::BoxEncodingType::CORNER,
      /*sort_result_descending=*/false, ov::element::i64);
  return {op->output(0)};
}

// 8-bit results wrap around; the CPU plugin's saturate.
template <typename Op>
ov::OutputVector wrapping(const Context& node) {
  const Value a = node.get_input(0), b = node.get_input(1);
  const Value wide =
      std::make_shared<Op>(convert_to(a, ov::element::i32), convert_to(b, ov::element::i32));
  return {convert_to(wide, a.get_element_type())};
}

// Constants from here on are masks: divided by a scale, such a number is infinite.
constexpr float kMask = 1e30F;

// The plugin adds to what is dequantised before it multiplies by the scale, a constant divided by
// the scale, and multiplies the infinity that a mask becomes by zero. What is added to a mask is
// lost in rounding: where one stands, nothing is added.
Value unmasked(const Value& x, const Value& constant) {
  const auto type = x.get_element_type();
  const Value small = std::make_shared<ops::Less>(
      std::make_shared<ops::Abs>(convert_to(constant, ov::element::f32)),
      scalar(ov::element::f32, kMask));
  return std::make_shared<ops::Select>(small, x, scalar(type, 0.0F));
}

template <typename Op>
ov::OutputVector sum(const Context& node) {
  const Value a = node.get_input(0), b = node.get_input(1);
  if (a.get_element_type().is_real()) {
    return {is_constant(b) ? std::make_shared<Op>(unmasked(a, b), b)
                           : std::make_shared<Op>(a, unmasked(b, a))};
  }
  return wrapping<Op>(node);
}

// The plugin takes a factor like a mask for the scale of a dequantisation, and divides what is
// added to the product by it: nothing is left. What is chosen is no product; zeros are chosen as
// they are.
ov::OutputVector product(const Context& node) {
  const Value a = node.get_input(0), b = node.get_input(1);
  const auto type = a.get_element_type();
  if (!type.is_real()) return wrapping<ops::Multiply>(node);
  const Value x = is_constant(b) ? a : b;
  const Value is_zero = std::make_shared<ops::Equal>(x, scalar(type, 0.0F));
  return {std::make_shared<ops::Select>(is_zero, x, std::make_shared<ops::Multiply>(a, b))};
}

// Saturates at the largest finite number, infinity too; what is not a number stays so.
Value saturated(const Value& x, const ov::element::Type& type) {
  const double largest = type == ov::element::f8e4m3 ? 448.0 : 57344.0;
  const Value clamped = std::make_shared<ops::Clamp>(x, -largest, largest);
  return convert_to(std::make_shared<ops::Select>(std::make_shared<ops::IsNaN>(x), x, clamped),
                    type);
}

// The plugin does not compile a conversion to bool of one of several results of a node, and writes
// over the result of one that changes nothing.
ov::OutputVector cast(const Context& node) {
  const auto to = static_cast<DType>(node.get_attribute<std::int64_t>("to"));
  const Value x = node.get_input(0);
  if (to_element_type(to) == x.get_element_type()) return {kept(x)};
  if (to == DType::kBool) {
    return {std::make_shared<ops::NotEqual>(x, scalar(x.get_element_type(), 0))};
  }
  const bool e4m3 = to == DType::kFloat8E4M3FN;
  return {saturated(x, e4m3 ? ov::element::f8e4m3 : ov::element::f8e5m2)};
}

ov::OutputVector cast_like_float8(const Context& node) {
  return {saturated(node.get_input(0), node.get_input(1).get_element_type())};
}

// A step of 0 kills the process in the plugin's division: such a range has no elements. Of sizes it
// counts the elements of one that leads away from its end, too.
ov::OutputVector range(const Context& node) {
  const Value start = to_scalar(node.get_input(0)), step = to_scalar(node.get_input(2));
  const auto type = start.get_element_type();
  const Value stands = std::make_shared<ops::Equal>(step, scalar(type, 0));
  const Value limit = to_scalar(node.get_input(1));
  const Value up = std::make_shared<ops::Greater>(step, scalar(type, 0));
  const Value away =
      std::make_shared<ops::LogicalXor>(up, std::make_shared<ops::Greater>(limit, start));
  const Value empty = std::make_shared<ops::LogicalOr>(stands, away);
  const Value stop = std::make_shared<ops::Select>(empty, start, limit);
  const Value safe = std::make_shared<ops::Select>(stands, scalar(type, 1), step);
  return {std::make_shared<ops::Range>(start, stop, safe, type)};
}

// The plugin reads wherever the indices say, outside of its memory too: they are kept within.
ov::OutputVector gather_nd(const Context& node) {
  const auto i64 = ov::element::i64;
  const Value data = node.get_input(0), indices = convert_to(node.get_input(1), i64);
  const auto batch = node.get_attribute<std::int64_t>("batch_dims", 0);
  const Value index_dims = std::make_shared<ops::ShapeOf>(indices, i64);
  const Value coordinates = std::make_shared<ops::Gather>(index_dims, ints({-1}), scalar(i64, 0));
  const Value end = std::make_shared<ops::Add>(coordinates, ints({batch}));
  const Value sizes = std::make_shared<ops::Slice>(std::make_shared<ops::ShapeOf>(data, i64),
                                                   ints({batch}), end, ints({1}), ints({0}));
  const Value first = std::make_shared<ops::Multiply>(sizes, scalar(i64, -1));
  const Value last = std::make_shared<ops::Subtract>(sizes, scalar(i64, 1));
  const Value within =
      std::make_shared<ops::Minimum>(std::make_shared<ops::Maximum>(indices, first), last);
  return {std::make_shared<ops::GatherND>(data, within, static_cast<std::size_t>(batch))};
}

// The plugin refuses an index behind the axis, and writes to one before it: that becomes the first.
ov::OutputVector scatter_elements(const Context& node) {
  using Scatter = ops::ScatterElementsUpdate;
  const auto i64 = ov::element::i64;
  const Value data = node.get_input(0), indices = convert_to(node.get_input(1), i64);
  const auto axis = node.get_attribute<std::int64_t>("axis", 0);
  const auto reduction = node.get_attribute<std::string>("reduction", "none");
  const Value size = std::make_shared<ops::Gather>(std::make_shared<ops::ShapeOf>(data, i64),
                                                   scalar(i64, axis), scalar(i64, 0));
  const Value first = std::make_shared<ops::Multiply>(size, scalar(i64, -1));
  const Value before = std::make_shared<ops::Less>(indices, first);
  const Value refused = std::make_shared<ops::Select>(before, size, indices);
  const auto mode = reduction == "add"   ? Scatter::Reduction::SUM
                    : reduction == "mul" ? Scatter::Reduction::PROD
                    : reduction == "max" ? Scatter::Reduction::MAX
                    : reduction == "min" ? Scatter::Reduction::MIN
                                         : Scatter::Reduction::NONE;
  return {std::make_shared<Scatter>(data, refused, node.get_input(2), scalar(i64, axis), mode,
                                    /*use_init_val=*/true)};
}

// A value that is a tensor is there.
ov::OutputVector optional_has_element(const Context& node) {
  return {scalar(ov::element::boolean, given(node, 0))};
}

ov::OutputVector same(const Context& node) {
  const Value x = node.get_input(0);
  return {std::make_shared<ops::Convert>(x, x.get_element_type())};
}

ov::OutputVector deform_conv(const Context& node) {
  const Value x = node.get_input(0), weight = node.get_input(1), offset = node.get_input(2);
  const auto spatial = static_cast<std::size_t>(x.get_partial_shape().rank().get_length()) - 2;
  const auto attribute = [&](const char* name, std::size_t count, std::int64_t fallback) {
    return node.get_attribute<std::vector<std::int64_t>>(
        name, std::vector<std::int64_t>(count, fallback));
  };
  const auto strides = attribute("strides", spatial, 1);
  const auto dilations = attribute("dilations", spatial, 1);
  const auto pads = attribute("pads", 2 * spatial, 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(spatial);
  const ov::Strides stride(strides.begin(), strides.end());
  const ov::Strides dilation(dilations.begin(), dilations.end());
  const ov::CoordinateDiff begin(pads.begin(), middle), end(middle, pads.end());
  const auto group = node.get_attribute<std::int64_t>("group", 1);
  const auto offset_group = node.get_attribute<std::int64_t>("offset_group", 1);
  Value out;
  if (given(node, 4)) {
    out = std::make_shared<ops::DeformableConvolution>(
        x, offset, weight, node.get_input(4), stride, begin, end, dilation,
        ov::op::PadType::EXPLICIT, group, offset_group, /*bilinear_interpolation_pad=*/true);
  } else {
    out = std::make_shared<ops::DeformableConvolution>(
        x, offset, weight, stride, begin, end, dilation, ov::op::PadType::EXPLICIT, group,
        offset_group, /*bilinear_interpolation_pad=*/true);
  }
  if (!given(node, 3)) return {out};
  std::vector<std::int64_t> shape(spatial + 2, 1);
  shape[1] = -1;
  const Value bias = std::make_shared<ops::Reshape>(node.get_input(3), ints(shape), false);
  return {std::make_shared<ops::Add>(out, bias)};
}

// --- which node goes where ----------------------------------------------------------------------

DType input_dtype(const Graph& graph, const Node& node, std::size_t i) {
  const ValueId id = node.input(i);
  return id.valid() ? graph.type(id).dtype : DType::kUndefined;
}

bool is_constant(const Graph& graph, const Node& node, std::size_t i) {
  return node.input(i).valid() && graph.constant(node.input(i)) != nullptr;
}

bool always(const Graph&, const Node&) { return true; }

bool is_float_data(const Graph& graph, const Node& node) {
  return is_floating(input_dtype(graph, node, 0));
}

template <std::size_t input>
bool is_known_at_run_time(const Graph& graph, const Node& node) {
  return !is_constant(graph, node, input);
}

bool is_computed_range(const Graph& graph, const Node& node) {
  const bool is_computed = !is_constant(graph, node, 0) || !is_constant(graph, node, 2);
  return is_computed && !is_floating(input_dtype(graph, node, 0));
}

bool is_eight_bits(const Graph& graph, const Node& node) {
  const DType dtype = input_dtype(graph, node, 0);
  return dtype == DType::kInt8 || dtype == DType::kUInt8;
}

bool is_of_bytes(const Graph& graph, const Node& node) {
  return input_dtype(graph, node, 0) == DType::kUInt8;
}

bool is_saturating_to_float8(const Graph& graph, const Node& node) {
  const ValueId out = node.output(0);
  if (!out.valid() || need_int(node, "saturate") == 0) return false;
  const DType to = graph.type(out).dtype, from = input_dtype(graph, node, 0);
  return (to == DType::kFloat8E4M3FN || to == DType::kFloat8E5M2) &&
         (from == DType::kFloat32 || from == DType::kFloat16 || from == DType::kBFloat16);
}

bool is_cast_of_its_own(const Graph& graph, const Node& node) {
  const DType from = input_dtype(graph, node, 0);
  const DType to = graph.type(node.outputs[0]).dtype;
  return to == from || to == DType::kBool || is_saturating_to_float8(graph, node);
}

// Layouts by channels are those of three to five axes.
bool is_alike_by_channels(const Graph& graph, ValueId value) {
  const Type& type = graph.type(value);
  if (!type.shape || type.rank() < 3 || type.rank() > 5) return false;
  const auto may_be_one = [](const Dim& dim) { return !dim.is_known() || dim.value() == 1; };
  const std::vector<Dim>& dims = *type.shape;
  return may_be_one(dims[1]) || std::all_of(dims.begin() + 2, dims.end(), may_be_one);
}

bool is_expansion_of_its_own(const Graph& graph, const Node& node) {
  const auto lengths = graph.type(node.input(1)).static_dims();
  return lengths && is_alike_by_channels(graph, node.input(0));
}

bool is_tile_of_its_own(const Graph& graph, const Node& node) {
  return is_known_at_run_time<1>(graph, node) || is_alike_by_channels(graph, node.input(0));
}

bool is_concat_of_its_own(const Graph& graph, const Node& node) {
  const bool of_one =
      node.inputs.size() > 1 && std::all_of(node.inputs.begin(), node.inputs.end(),
                                            [&](ValueId v) { return v == node.inputs[0]; });
  return of_one && is_alike_by_channels(graph, node.input(0));
}

bool is_quantized_by_channel(const Graph& graph, const Node& node) {
  const auto is_one = [&](std::size_t i) {
    const auto dims = graph.type(node.input(i)).static_dims();
    return dims && std::all_of(dims->begin(), dims->end(), [](auto dim) { return dim == 1; });
  };
  return !is_one(4) || !is_one(5);
}

// Where a mask is an operand in a graph of Q/DQ.
bool has_mask(const Graph& graph, const Node& node) {
  if (input_dtype(graph, node, 0) != DType::kFloat32) return false;
  if (is_constant(graph, node, 0) == is_constant(graph, node, 1)) return false;
  const Tensor& constant = *graph.constant(node.inputs[is_constant(graph, node, 0) ? 0 : 1]);
  const auto* values = constant.data<float>();
  if (std::none_of(values, values + constant.count(),
                   [](float v) { return std::fabs(v) >= kMask; })) {
    return false;
  }
  const std::vector<NodeId> nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](NodeId n) { return graph.node(n).op == "DequantizeLinear"; });
}

bool is_sum_of_its_own(const Graph& graph, const Node& node) {
  return is_eight_bits(graph, node) || has_mask(graph, node);
}

// Between what is dequantised and a product by a mask the plugin adds rightly.
bool is_product_of_its_own(const Graph& graph, const Node& node) {
  if (is_eight_bits(graph, node)) return true;
  if (!has_mask(graph, node)) return false;
  for (const Use& use : graph.uses(node.outputs[0])) {
    for (const ValueId v : graph.node(use.node).inputs) {
      if (v.valid() && producer(graph, v, "DequantizeLinear") != nullptr) return false;
    }
  }
  return true;
}

struct Lowering {
  const char* op;
  bool (*takes)(const Graph&, const Node&);
  ov::OutputVector (*lower)(const Context&);
};

constexpr Lowering kLowerings[] = {
    {"Add", is_sum_of_its_own, sum<ops::Add>},
    {"BitShift", is_of_bytes, shift_of_bytes},
    {"Cast", is_cast_of_its_own, cast},
    {"CastLike", is_saturating_to_float8, cast_like_float8},
    {"Concat", is_concat_of_its_own, concat_of_one},
    {"DeformConv", always, deform_conv},
    {"Expand", is_expansion_of_its_own, expand},
    {"GatherND", is_known_at_run_time<1>, gather_nd},
    {"GlobalMaxPool", is_float_data, global_max_pool},
    {"Greater", is_float_data, turned_comparison<ops::Less>},
    {"GreaterOrEqual", is_float_data, turned_comparison<ops::LessEqual>},
    {"LpNormalization", is_float_data, lp_normalization},
    {"Mul", is_product_of_its_own, product},
    {"NonMaxSuppression", always, non_max_suppression},
    {"OptionalGetElement", always, same},
    {"OptionalHasElement", always, optional_has_element},
    {"QLinearConv", is_quantized_by_channel, quantized_conv},
    {"Range", is_computed_range, range},
    {"ReduceMax", is_float_data, reduce_extreme<ops::ReduceMax>},
    {"ReduceMin", is_float_data, reduce_extreme<ops::ReduceMin>},
    {"ScatterElements", is_known_at_run_time<1>, scatter_elements},
    {"Shrink", is_float_data, shrink},
    {"Sub", is_sum_of_its_own, sum<ops::Subtract>},
    {"Tile", is_tile_of_its_own, tile},
    {"TopK", always, top_k},
};

}  // namespace

bool has_lowering(const Graph& graph, const Node& node) {
  if (!node.domain.empty()) return false;
  const auto found = std::find_if(std::begin(kLowerings), std::end(kLowerings),
                                  [&](const Lowering& row) { return node.op == row.op; });
  return found != std::end(kLowerings) && found->takes(graph, node);
}

const std::vector<std::shared_ptr<ov::Extension>>& lowering_extensions() {
  static const std::vector<std::shared_ptr<ov::Extension>> extensions = [] {
    std::vector<std::shared_ptr<ov::Extension>> made;
    for (const Lowering& row : kLowerings) {
      made.push_back(std::make_shared<ov::frontend::onnx::ConversionExtension>(
          row.op, kLoweringDomain, row.lower));
    }
    made.push_back(std::make_shared<ov::frontend::onnx::ConversionExtension>(
        kBarrier, kLoweringDomain, barrier));
    return made;
  }();
  return extensions;
}

std::vector<std::string> lowered_ops() {
  std::vector<std::string> names;
  for (const Lowering& row : kLowerings) names.emplace_back(row.op);
  return names;
}

}  // namespace xrt::openvino
