// SPDX-License-Identifier: Apache-2.0
// Random numbers: RandomUniform(Like), RandomNormal(Like), Bernoulli, and Dropout in training.
//
// XLA's own generator begins with one state in every executable. So each draw has a generator of
// its own, Philox, whose state is what XLA's generator gives next, which differs from run to run,
// mixed with a number that is drawn when the executable is made.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>

#include "engines/xla/lowering.h"

namespace xrt::xla {

namespace {

// The state of Philox in words of 64 bits: a key, and a counter of two.
constexpr std::int64_t kStateWords = 3;

Tensor drawn_words() {
  std::random_device source;
  Tensor words = Tensor::allocate(DType::kUInt64, {kStateWords});
  for (std::int64_t i = 0; i < kStateWords; ++i) {
    words.data<std::uint64_t>()[i] = (static_cast<std::uint64_t>(source()) << 32) | source();
  }
  return words;
}

// 32 random bits per element.
Hlo random_bits(HloBuilder& b, const Dims& dims) {
  const std::string name = fmt::format("random_bits{}", b.unique());
  const std::string state = hlo_type(DType::kUInt64, {kStateWords});
  const std::string bits = hlo_type(DType::kUInt32, dims);
  const std::string text = fmt::format(
      "func.func private @{0}(%mixed: {1}) -> {2} {{\n"
      "%low = stablehlo.constant dense<0> : tensor<ui32>\n"
      "%high = stablehlo.constant dense<4294967295> : tensor<ui32>\n"
      "%shape = stablehlo.constant dense<{3}> : tensor<1xi64>\n"
      "%next = stablehlo.rng %low, %high, %shape, distribution = UNIFORM : "
      "(tensor<ui32>, tensor<ui32>, tensor<1xi64>) -> tensor<{3}xui32>\n"
      "%wide = stablehlo.convert %next : (tensor<{3}xui32>) -> {1}\n"
      "%state = stablehlo.xor %wide, %mixed : {1}\n"
      "%after, %bits = stablehlo.rng_bit_generator %state, algorithm = PHILOX : "
      "({1}) -> ({1}, {2})\n"
      "return %bits : {2}\n}}",
      name, state, bits, kStateWords);
  const Hlo mixed = b.weight("random numbers", DType::kUInt64, {kStateWords}, drawn_words);
  return b.call(text, name, {mixed}, {{DType::kUInt32, dims}})[0];
}

// Uniform over [0, 1), in as many steps as a number of `dtype` tells apart.
Hlo unit(HloBuilder& b, const Dims& dims, DType dtype) {
  int steps = 32;
  if (dtype == DType::kFloat32) steps = 24;
  if (dtype == DType::kFloat16) steps = 11;
  if (dtype == DType::kBFloat16) steps = 8;
  Hlo bits = random_bits(b, dims);
  if (steps < 32) bits = b.binary_scalar("shift_right_logical", bits, 32 - steps);
  const DType exact = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
  const Hlo value = b.binary_scalar("multiply", b.convert(bits, exact), std::ldexp(1.0, -steps));
  return b.convert(value, dtype);
}

// Box and Muller's transform of two uniform numbers.
Hlo normal(HloBuilder& b, const Dims& dims, DType dtype) {
  const DType exact = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
  const Hlo positive = b.sub(b.splat(1, exact, dims), unit(b, dims, exact));
  const Hlo radius = b.unary("sqrt", b.binary_scalar("multiply", b.unary("log", positive), -2));
  const Hlo angle = b.binary_scalar("multiply", unit(b, dims, exact), 2 * std::numbers::pi);
  return b.convert(b.mul(radius, b.unary("cosine", angle)), dtype);
}

// The dtype of the result. A seed asks for the same numbers in every run.
DType random_type(NodeContext& c, DType otherwise) {
  c.need(!c.node.has("seed"), "a seed: XLA's generator goes on from run to run");
  return static_cast<DType>(c.node.attr_int("dtype", static_cast<std::int64_t>(otherwise)));
}

DType float_type(NodeContext& c, DType otherwise) {
  const DType dtype = random_type(c, otherwise);
  c.need(dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 ||
             dtype == DType::kBFloat16,
         fmt::format("random numbers of type {}", to_string(dtype)));
  return dtype;
}

Hlo moved(HloBuilder& b, const Hlo& x, double scale, double offset) {
  return b.binary_scalar("add", b.binary_scalar("multiply", x, scale), offset);
}

Hlo uniform_of(NodeContext& c, const Dims& dims, DType dtype) {
  const double low = c.node.attr_float("low", 0);
  const double high = c.node.attr_float("high", 1);
  const Hlo x = unit(c.b, dims, dtype);
  return low == 0 && high == 1 ? x : moved(c.b, x, high - low, low);
}

Hlo normal_of(NodeContext& c, const Dims& dims, DType dtype) {
  return moved(c.b, normal(c.b, dims, dtype), c.node.attr_float("scale", 1),
               c.node.attr_float("mean", 0));
}

void lower_uniform(NodeContext& c) {
  c.out(uniform_of(c, c.node.attr_ints("shape", {}), float_type(c, DType::kFloat32)));
}

void lower_uniform_like(NodeContext& c) {
  c.out(uniform_of(c, c.dims(0), float_type(c, c.dtype(0))));
}

void lower_normal(NodeContext& c) {
  c.out(normal_of(c, c.node.attr_ints("shape", {}), float_type(c, DType::kFloat32)));
}

void lower_normal_like(NodeContext& c) {
  c.out(normal_of(c, c.dims(0), float_type(c, c.dtype(0))));
}

void lower_bernoulli(NodeContext& c) {
  const DType dtype = random_type(c, c.dtype(0));
  const Hlo hit = c.b.compare("LT", unit(c.b, c.dims(0), c.dtype(0)), c.in(0));
  c.out(c.b.convert(hit, dtype));
}

// Outside of training it passes its operand on, and its mask is all true.
void lower_dropout(NodeContext& c) {
  const bool training = c.has(2) && c.integers(2, "the operand training_mode").at(0) != 0;
  const bool given = training && c.has(1);  // else nobody reads it
  const double ratio = given ? c.numbers(1, "the operand ratio").at(0) : 0.5;
  if (training && ratio > 0) {
    c.need(!c.node.has("seed"), "a seed: XLA's generator goes on from run to run");
    const Hlo drawn = unit(c.b, c.dims(0), DType::kFloat32);
    const Hlo kept = c.b.compare("GE", drawn, c.b.splat(ratio, drawn.dtype, drawn.dims));
    const double scale = ratio < 1 ? 1 / (1 - ratio) : 0;
    const Hlo x = c.in(0);
    c.out(c.b.select(kept, c.b.binary_scalar("multiply", x, scale), c.b.zeros_like(x)));
    c.out(1, kept);
    return;
  }
  if (c.is_last(0)) {
    c.out_last(0, c.in_last(0));
  } else {
    c.out(c.in(0));
  }
  c.out(1, c.b.splat(1, DType::kBool, c.dims(0)));
}

}  // namespace

void register_random(LoweringTable& t) {
  t.add("RandomUniform", lower_uniform);
  t.add("RandomUniformLike", lower_uniform_like);
  t.add("RandomNormal", lower_normal);
  t.add("RandomNormalLike", lower_normal_like);
  t.add("Bernoulli", lower_bernoulli);
  t.add("Dropout", lower_dropout);
}

}  // namespace xrt::xla
