// SPDX-License-Identifier: Apache-2.0
// Normalisations. Composed of reductions and elementwise layers, which TensorRT's builder fuses,
// with moments in float32 as the standard asks of 16-bit data.
#include <algorithm>

#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

namespace {

// (x - mean) / sqrt(variance + epsilon) over the axes, in the type of x.
Value normalized(NodeContext& c, Value x, const Dims& axes, double epsilon,
                 Value* mean_out = nullptr, Value* inverse_out = nullptr) {
  const Value mean = c.net.reduce(x, RD::kAVG, axes, true);
  const Value centred = c.net.binary(x, mean, EW::kSUB);
  const Value variance =
      c.net.reduce(c.net.binary(centred, centred, EW::kPROD), RD::kAVG, axes, true);
  const Value deviation = c.net.unary(c.net.binary(variance, epsilon, EW::kSUM), UN::kSQRT);
  if (mean_out != nullptr) *mean_out = mean;
  if (inverse_out != nullptr) *inverse_out = c.net.unary(deviation, UN::kRECIP);
  return c.net.binary(centred, deviation, EW::kDIV);
}

// [C] → [C, 1, …], to meet x of rank `rank` on axis 1.
Value per_channel(NodeContext& c, Value v, std::int64_t rank) {
  Extents extents{Extent(v, 0)};
  for (std::int64_t i = 2; i < rank; ++i) extents.emplace_back(1);
  return c.net.reshape(v, extents);
}

// scale (x - mean) / sqrt(variance + epsilon) + bias
void batch_norm(NodeContext& c) {
  c.require_float(0);
  c.need(c.attr("training_mode") == 0, "training_mode");
  c.need(c.rank(0) >= 2, "the data have no channels");
  const DType type = c.dtype(0);
  const std::int64_t rank = c.rank(0);
  const auto operand = [&](std::size_t i) {
    return per_channel(c, c.net.cast(c.in(i), DType::kFloat32), rank);
  };
  const double epsilon = need_float(c.node, "epsilon");
  const Value deviation = c.net.unary(c.net.binary(operand(4), epsilon, EW::kSUM), UN::kSQRT);
  // Two numbers per channel, folded by the builder where all four operands are constants.
  const Value factor = c.net.binary(operand(1), deviation, EW::kDIV);
  const Value offset =
      c.net.binary(operand(2), c.net.binary(operand(3), factor, EW::kPROD), EW::kSUB);
  const Value x = c.net.cast(c.in(0), DType::kFloat32);
  const Value y = c.net.binary(c.net.binary(x, factor, EW::kPROD), offset, EW::kSUM);
  c.out(c.net.cast(y, type));
}

void instance_norm(NodeContext& c) {
  c.require_float(0);
  c.need(c.rank(0) >= 3, "the data have no spatial dimension");
  Dims axes;
  for (std::int64_t i = 2; i < c.rank(0); ++i) axes.push_back(i);
  const auto operand = [&](std::size_t i) {
    return per_channel(c, c.net.cast(c.in(i), DType::kFloat32), c.rank(0));
  };
  const Value x = c.net.cast(c.in(0), DType::kFloat32);
  Value y = normalized(c, x, axes, need_float(c.node, "epsilon"));
  y = c.net.binary(c.net.binary(y, operand(1), EW::kPROD), operand(2), EW::kSUM);
  c.out(c.net.cast(y, c.dtype(0)));
}

void group_norm(NodeContext& c) {
  c.require_float(0);
  const DType type = c.dtype(0);
  const Dims dims = c.require_static(0, "a normalisation of groups");
  const std::int64_t groups = c.attr("num_groups");
  c.need(dims.size() >= 2 && groups > 0 && dims[1] % groups == 0,
         "the channels do not divide into the groups");
  std::int64_t rest = dims[1] / groups;
  for (std::size_t i = 2; i < dims.size(); ++i) rest *= dims[i];
  const Value x = c.net.cast(c.in(0), DType::kFloat32);
  const Value grouped = c.net.reshape(x, {dims[0], groups, rest});
  Value y = normalized(c, grouped, {2}, need_float(c.node, "epsilon"));
  y = c.net.reshape(y, Extents(dims.begin(), dims.end()));
  const auto operand = [&](std::size_t i) {
    return per_channel(c, c.net.cast(c.in(i), DType::kFloat32), c.rank(0));
  };
  // Scale and bias: in the type of the data, or, where stash_type says so, in float32.
  y = c.net.binary(c.net.binary(y, operand(1), EW::kPROD), operand(2), EW::kSUM);
  c.out(c.net.cast(y, type));
}

void layer_norm(NodeContext& c) {
  c.require_float(0);
  const DType type = c.dtype(0);
  c.need(static_cast<DType>(c.attr("stash_type")) == DType::kFloat32,
         "moments in another type than float32");
  const std::int64_t rank = c.rank(0);
  Dims axes;
  for (std::int64_t i = c.attr("axis"); i < rank; ++i) axes.push_back(i);
  const Value x = c.net.cast(c.in(0), DType::kFloat32);
  Value mean = nullptr;
  Value inverse = nullptr;
  Value y =
      normalized(c, x, axes, need_float(c.node, "epsilon"), &mean, c.wants(2) ? &inverse : nullptr);
  y = c.net.cast(y, type);
  y = c.net.binary(y, c.in(1), EW::kPROD);
  if (c.has(2)) y = c.net.binary(y, c.in(2), EW::kSUM);
  c.out(0, y);
  c.out(1, mean);
  if (c.wants(2)) c.out(2, inverse);
}

// x / sqrt(mean(x²) + epsilon) · scale
void rms_norm(NodeContext& c) {
  c.require_float(0);
  const DType type = c.dtype(0);
  c.need(static_cast<DType>(c.attr("stash_type")) == DType::kFloat32,
         "moments in another type than float32");
  const std::int64_t rank = c.rank(0);
  Dims axes;
  for (std::int64_t i = c.attr("axis"); i < rank; ++i) axes.push_back(i);
  const Value x = c.net.cast(c.in(0), DType::kFloat32);
  const Value squares = c.net.reduce(c.net.binary(x, x, EW::kPROD), RD::kAVG, axes, true);
  const Value root =
      c.net.unary(c.net.binary(squares, need_float(c.node, "epsilon"), EW::kSUM), UN::kSQRT);
  const Value y = c.net.cast(c.net.binary(x, root, EW::kDIV), type);
  c.out(c.net.binary(y, c.in(1), EW::kPROD));
}

void lp_norm(NodeContext& c) {
  c.require_float(0);
  const Dims axes{c.attr("axis")};
  const Value x = c.in(0);
  Value norm = nullptr;
  if (c.attr("p") == 1) {
    norm = c.net.reduce(c.net.unary(x, UN::kABS), RD::kSUM, axes, true);
  } else {
    norm =
        c.net.unary(c.net.reduce(c.net.binary(x, x, EW::kPROD), RD::kSUM, axes, true), UN::kSQRT);
  }
  // A vector of zeros stays one.
  const Value zero = c.net.binary(norm, 0.0, EW::kEQUAL);
  const Value divisor = c.net.select(zero, c.net.scalar(c.dtype(0), 1.0, c.rank(0)), norm);
  c.out(c.net.binary(x, divisor, EW::kDIV));
}

void lrn(NodeContext& c) {
  c.require_float(0);
  c.need(c.rank(0) == 4, "TensorRT's LRN takes images of rank 4");
  const std::int64_t size = c.attr("size");
  c.need(size % 2 == 1 && size <= 15, "TensorRT's LRN takes odd windows of up to 15");
  c.out(c.net.out(
      c.net.made(c.net.network().addLRN(*c.in(0), size, need_float(c.node, "alpha"),
                                        need_float(c.node, "beta"), need_float(c.node, "bias")),
                 "an LRN")));
}

}  // namespace

void register_normalization(LoweringTable& t) {
  t.add("BatchNormalization", batch_norm);
  t.add("InstanceNormalization", instance_norm);
  t.add("GroupNormalization", group_norm);
  t.add("LayerNormalization", layer_norm);
  t.add("RMSNormalization", rms_norm);
  t.add("LpNormalization", lp_norm);
  t.add("LRN", lrn);
}

}  // namespace xrt::tensorrt
