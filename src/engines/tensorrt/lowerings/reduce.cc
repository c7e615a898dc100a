// SPDX-License-Identifier: Apache-2.0
// Reductions, softmax, sorting and running sums.
#include <algorithm>
#include <functional>
#include <numeric>

#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

namespace {

Dims all_axes(std::int64_t rank) {
  Dims axes;
  for (std::int64_t i = 0; i < rank; ++i) axes.push_back(i);
  return axes;
}

// `reduce` gets the operand, the axes and whether to keep them; not called where there is nothing
// to reduce, then `elementwise` is what a reduction of single elements does.
using Reduction = std::function<Value(Value, const Dims&, bool)>;
using Elementwise = std::function<Value(Value)>;

void reduction(NodeContext& c, const Reduction& reduce, const Elementwise& elementwise) {
  const std::int64_t rank = c.rank(0);
  Dims axes = c.axes_operand(1, rank, {});
  if (axes.empty() && c.attr("noop_with_empty_axes") == 0) axes = all_axes(rank);
  if (axes.empty()) {
    c.out(elementwise(c.in(0)));
    return;
  }
  c.out(reduce(c.in(0), axes, c.attr("keepdims") != 0));
}

Value same(Value x) { return x; }

template <RD kOp>
void plain(NodeContext& c) {
  c.require_number(0);
  c.need(kOp != RD::kAVG || !is_integer(c.dtype(0)), "TensorRT has no mean of integers");
  reduction(
      c, [&](Value x, const Dims& axes, bool keep) { return c.net.reduce(x, kOp, axes, keep); },
      same);
}

void l1(NodeContext& c) {
  c.require_number(0);
  const Elementwise absolute = [&](Value x) { return c.net.unary(x, UN::kABS); };
  reduction(
      c,
      [&](Value x, const Dims& axes, bool keep) {
        return c.net.reduce(absolute(x), RD::kSUM, axes, keep);
      },
      absolute);
}

void l2(NodeContext& c) {
  c.require_float(0);
  reduction(
      c,
      [&](Value x, const Dims& axes, bool keep) {
        const Value squares = c.net.binary(x, x, EW::kPROD);
        return c.net.unary(c.net.reduce(squares, RD::kSUM, axes, keep), UN::kSQRT);
      },
      [&](Value x) { return c.net.unary(x, UN::kABS); });
}

void sum_square(NodeContext& c) {
  c.require_number(0);
  const Elementwise square = [&](Value x) { return c.net.binary(x, x, EW::kPROD); };
  reduction(
      c,
      [&](Value x, const Dims& axes, bool keep) {
        return c.net.reduce(square(x), RD::kSUM, axes, keep);
      },
      square);
}

void log_sum(NodeContext& c) {
  c.require_float(0);
  reduction(
      c,
      [&](Value x, const Dims& axes, bool keep) {
        return c.net.unary(c.net.reduce(x, RD::kSUM, axes, keep), UN::kLOG);
      },
      [&](Value x) { return c.net.unary(x, UN::kLOG); });
}

// max + log(sum(exp(x - max))): exact where exp(x) would overflow.
void log_sum_exp(NodeContext& c) {
  c.require_float(0);
  reduction(
      c,
      [&](Value x, const Dims& axes, bool keep) {
        const Value top = c.net.reduce(x, RD::kMAX, axes, true);
        const Value grown = c.net.unary(c.net.binary(x, top, EW::kSUB), UN::kEXP);
        const Value sum = c.net.unary(c.net.reduce(grown, RD::kSUM, axes, true), UN::kLOG);
        const Value y = c.net.binary(sum, top, EW::kSUM);
        return keep ? y : c.net.squeeze(y, axes);
      },
      same);
}

void softmax(NodeContext& c) {
  c.require_float(0);
  c.out(c.net.softmax(c.in(0), c.attr("axis")));
}

// x - max - log(sum(exp(x - max))): the logarithm of a softmax would lose small probabilities.
void log_softmax(NodeContext& c) {
  c.require_float(0);
  const Dims axes{c.attr("axis")};
  const Value x = c.in(0);
  const Value shifted = c.net.binary(x, c.net.reduce(x, RD::kMAX, axes, true), EW::kSUB);
  const Value sum = c.net.reduce(c.net.unary(shifted, UN::kEXP), RD::kSUM, axes, true);
  c.out(c.net.binary(shifted, c.net.unary(sum, UN::kLOG), EW::kSUB));
}

// The k largest or smallest along an axis; the indices are int32.
nvinfer1::ITopKLayer* top(NodeContext& c, Value x, bool largest, std::int64_t k,
                          std::int64_t axis) {
  constexpr std::int64_t kLimit = 3840;  // TensorRT's
  c.need(k <= kLimit, "TensorRT's TopK gives 3840 elements at most");
  c.need(c.rank(0) > 0, "a scalar has no axis");
  const DType type = c.dtype(0);
  c.need(type == DType::kFloat32 || type == DType::kFloat16 || type == DType::kBFloat16 ||
             type == DType::kInt32 || type == DType::kInt64,
         "TensorRT's TopK takes float32, float16, bfloat16, int32 and int64");
  // Before rank 2, TensorRT has no TopK.
  if (c.rank(0) == 1) x = c.net.unsqueeze(x, {0});
  const std::int64_t along = c.rank(0) == 1 ? 1 : axis;
  return c.net.made(c.net.network().addTopK(
                        *x, largest ? nvinfer1::TopKOperation::kMAX : nvinfer1::TopKOperation::kMIN,
                        static_cast<std::int32_t>(k), 1U << static_cast<unsigned>(along)),
                    "a TopK");
}

void top_k(NodeContext& c) {
  const std::int64_t axis = c.attr("axis");
  const Dims k = c.integers(1, "k");
  c.need(k.size() == 1, "k is not one number");
  auto* layer = top(c, c.in(0), c.attr("largest") != 0, k[0], axis);
  const bool vector = c.rank(0) == 1;
  for (int i = 0; i < 2; ++i) {
    Value y = c.net.out(layer, i);
    if (vector) y = c.net.squeeze(y, {0});
    c.out(static_cast<std::size_t>(i), i == 0 ? y : c.net.cast(y, DType::kInt64));
  }
}

// Operand 0 from behind along the axis.
Value reversed(NodeContext& c, std::int64_t axis) {
  const std::int64_t length = c.dims(0)[static_cast<std::size_t>(axis)];
  c.need(length > 0, "the axis is of unknown length");
  const Value x = c.in(0);
  Dims start(static_cast<std::size_t>(c.rank(0)), 0);
  Dims stride(start.size(), 1);
  start[static_cast<std::size_t>(axis)] = length - 1;
  stride[static_cast<std::size_t>(axis)] = -1;
  return c.net.slice(x, start, extents_of(x), stride);
}

template <bool kLargest>
void arg(NodeContext& c) {
  const std::int64_t axis = c.attr("axis");
  // TensorRT gives the first of equal elements: the last one is the first from behind.
  const bool last = c.attr("select_last_index") != 0;
  const Value x = last ? reversed(c, axis) : c.in(0);
  Value y = c.net.out(top(c, x, kLargest, 1, axis), 1);
  if (c.rank(0) == 1) y = c.net.squeeze(y, {0});
  if (last) {
    const auto end = static_cast<double>(c.dims(0)[static_cast<std::size_t>(axis)] - 1);
    const Value ends = c.net.scalar(dtype_of(y), end, rank_of(y));
    y = c.net.binary(ends, y, EW::kSUB);
  }
  if (c.attr("keepdims") == 0) y = c.net.squeeze(y, {axis});
  c.out(c.net.cast(y, DType::kInt64));
}

// 1 at the first of the largest elements along the axis, else 0.
void hardmax(NodeContext& c) {
  c.require_float(0);
  const std::int64_t axis = c.attr("axis");
  const std::int64_t length = c.dims(0)[static_cast<std::size_t>(axis)];
  c.need(length > 0, "the axis is of unknown length");
  Value at = c.net.out(top(c, c.in(0), true, 1, axis), 1);
  if (c.rank(0) == 1) at = c.net.squeeze(at, {0});
  Dims positions(static_cast<std::size_t>(length));
  std::iota(positions.begin(), positions.end(), 0);
  Extents line(static_cast<std::size_t>(c.rank(0)), Extent(1));
  line[static_cast<std::size_t>(axis)] = Extent(length);
  const Value ruler = c.net.cast(c.net.reshape(c.net.integers(positions), line), dtype_of(at));
  c.out(c.net.cast(c.net.binary(at, ruler, EW::kEQUAL), c.dtype(0)));
}

// The layer came with TensorRT 10.9: a template, so that older headers do too.
template <typename Network>
nvinfer1::ILayer* add_running_sum(NodeContext& c, Network& network, Value x, Value axis) {
  if constexpr (requires { &Network::addCumulative; }) {
    return network.addCumulative(*x, *axis, nvinfer1::CumulativeOperation::kSUM,
                                 c.attr("exclusive") != 0, c.attr("reverse") != 0);
  } else {
    c.refuse("this release of TensorRT has no running sum");
  }
}

void cum_sum(NodeContext& c) {
  c.require_number(0);
  const Dims axis = c.integers(1, "the axis");
  c.need(axis.size() == 1, "the axis is not one number");
  const Value at = c.net.constant(Tensor::scalar(c.axis(axis[0], c.rank(0))));
  c.out(c.net.out(c.net.made(add_running_sum(c, c.net.network(), c.in(0), at), "a running sum")));
}

}  // namespace

void register_reduce(LoweringTable& t) {
  t.add("ReduceSum", plain<RD::kSUM>);
  t.add("ReduceMean", plain<RD::kAVG>);
  t.add("ReduceMax", plain<RD::kMAX>);
  t.add("ReduceMin", plain<RD::kMIN>);
  t.add("ReduceProd", plain<RD::kPROD>);
  t.add("ReduceL1", l1);
  t.add("ReduceL2", l2);
  t.add("ReduceSumSquare", sum_square);
  t.add("ReduceLogSum", log_sum);
  t.add("ReduceLogSumExp", log_sum_exp);
  t.add("Softmax", softmax);
  t.add("LogSoftmax", log_softmax);
  t.add("TopK", top_k);
  t.add("ArgMax", arg<true>);
  t.add("ArgMin", arg<false>);
  t.add("Hardmax", hardmax);
  t.add("CumSum", cum_sum);
}

}  // namespace xrt::tensorrt
