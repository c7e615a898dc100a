// SPDX-License-Identifier: Apache-2.0
// Ops on two and more operands, element by element.
#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

namespace {

template <EW kOp>
void arithmetic(NodeContext& c) {
  c.require_number(0);
  c.out(c.net.binary(c.in(0), c.in(1), kOp));
}

template <EW kOp>
void variadic(NodeContext& c) {
  c.require_number(0);
  Value total = c.in(0);
  for (std::size_t i = 1; i < c.input_count(); ++i) total = c.net.binary(total, c.in(i), kOp);
  c.out(total);
}

void mean(NodeContext& c) {
  c.require_float(0);
  Value total = c.in(0);
  for (std::size_t i = 1; i < c.input_count(); ++i) total = c.net.binary(total, c.in(i), EW::kSUM);
  c.out(c.net.binary(total, static_cast<double>(c.input_count()), EW::kDIV));
}

void power(NodeContext& c) {
  c.require_float(0);
  c.require_number(1);
  c.out(c.net.binary(c.in(0), c.net.cast(c.in(1), c.dtype(0)), EW::kPOW));
}

void modulo(NodeContext& c) {
  c.require_number(0);
  c.need(is_integer(c.dtype(0)),
         "the remainder of floating-point numbers is not exact by TensorRT's layers");
  const Value a = c.in(0);
  const Value b = c.in(1);
  // fmod: the sign of the dividend; else the sign of the divisor.
  const Value quotient = c.net.binary(a, b, c.attr("fmod") != 0 ? EW::kDIV : EW::kFLOOR_DIV);
  c.out(c.net.binary(a, c.net.binary(quotient, b, EW::kPROD), EW::kSUB));
}

template <EW kOp>
void logical(NodeContext& c) {
  c.need(c.dtype(0) == DType::kBool, "the operands are not bool");
  c.out(c.net.binary(c.in(0), c.in(1), kOp));
}

template <EW kOp>
void compare(NodeContext& c) {
  Value a = c.in(0);
  Value b = c.in(1);
  if (c.dtype(0) == DType::kBool) {  // compared as numbers
    a = c.net.cast(a, DType::kInt32);
    b = c.net.cast(b, DType::kInt32);
  } else {
    c.require_number(0);
  }
  c.out(c.net.binary(a, b, kOp));
}

// Not "not less": that would be true of NaN.
template <EW kOp>
void compare_or_equal(NodeContext& c) {
  c.require_number(0);
  const Value a = c.in(0);
  const Value b = c.in(1);
  c.out(c.net.binary(c.net.binary(a, b, kOp), c.net.binary(a, b, EW::kEQUAL), EW::kOR));
}

void where(NodeContext& c) {
  if (c.dtype(1) == DType::kBool) {
    const Value yes = c.net.cast(c.in(1), DType::kInt32);
    const Value no = c.net.cast(c.in(2), DType::kInt32);
    c.out(c.net.cast(c.net.select(c.in(0), yes, no), DType::kBool));
    return;
  }
  c.require_number(1);
  c.out(c.net.select(c.in(0), c.in(1), c.in(2)));
}

void prelu(NodeContext& c) {
  c.require_float(0);
  const Value x = c.in(0);
  const Value slope = c.net.pad_rank(c.in(1), c.rank(0));
  c.out(c.net.out(c.net.made(c.net.network().addParametricReLU(*x, *slope), "a parametric ReLU")));
}

}  // namespace

void register_elementwise(LoweringTable& t) {
  t.add("Add", arithmetic<EW::kSUM>);
  t.add("Sub", arithmetic<EW::kSUB>);
  t.add("Mul", arithmetic<EW::kPROD>);
  t.add("Div", arithmetic<EW::kDIV>);
  t.add("Sum", variadic<EW::kSUM>);
  t.add("Max", variadic<EW::kMAX>);
  t.add("Min", variadic<EW::kMIN>);
  t.add("Mean", mean);
  t.add("Pow", power);
  t.add("Mod", modulo);
  t.add("And", logical<EW::kAND>);
  t.add("Or", logical<EW::kOR>);
  t.add("Xor", logical<EW::kXOR>);
  t.add("Equal", compare<EW::kEQUAL>);
  t.add("Greater", compare<EW::kGREATER>);
  t.add("Less", compare<EW::kLESS>);
  t.add("GreaterOrEqual", compare_or_equal<EW::kGREATER>);
  t.add("LessOrEqual", compare_or_equal<EW::kLESS>);
  t.add("Where", where);
  t.add("PRelu", prelu);
}

}  // namespace xrt::tensorrt
