// SPDX-License-Identifier: Apache-2.0
// Comparisons, boolean and bitwise ops, Where, tests for NaN and infinity.
#include <cmath>
#include <string>
#include <string_view>

#include "engines/xla/lowering.h"

namespace xrt::xla {

namespace {

void compare(NodeContext& c, std::string_view direction) {
  c.elementwise({0, 1}, [&](const Hlos& x) { return c.b.compare(direction, x[0], x[1]); });
}
void lower_equal(NodeContext& c) { compare(c, "EQ"); }
void lower_greater(NodeContext& c) { compare(c, "GT"); }
void lower_greater_or_equal(NodeContext& c) { compare(c, "GE"); }
void lower_less(NodeContext& c) { compare(c, "LT"); }
void lower_less_or_equal(NodeContext& c) { compare(c, "LE"); }

void binary(NodeContext& c, std::string_view op) {
  c.elementwise({0, 1}, [&](const Hlos& x) { return c.b.binary(op, x[0], x[1]); });
}
void lower_and(NodeContext& c) { binary(c, "and"); }
void lower_or(NodeContext& c) { binary(c, "or"); }
void lower_xor(NodeContext& c) { binary(c, "xor"); }
void lower_not(NodeContext& c) {
  c.elementwise({0}, [&](const Hlos& x) { return c.b.unary("not", x[0]); });
}

// A signed operand keeps its sign to the right. Shifts by less than 0, or by the width or more,
// push every bit out.
void lower_bit_shift(NodeContext& c) {
  const bool left = need_string(c.node, "direction") == "LEFT";
  c.elementwise({0, 1}, [&](const Hlos& x) {
    HloBuilder& b = c.b;
    const bool is_signed = is_signed_integer(x[0].dtype);
    const std::string_view op =
        left ? "shift_left" : (is_signed ? "shift_right_arithmetic" : "shift_right_logical");
    const Hlo zero = b.zeros_like(x[0]);
    const Hlo width = b.splat(bit_width(x[0].dtype), x[0].dtype, x[0].dims);
    const Hlo valid = b.binary("and", b.compare("GE", x[1], zero), b.compare("LT", x[1], width));
    const Hlo shifted = b.binary(op, x[0], b.select(valid, x[1], zero));
    Hlo emptied = zero;
    if (!left && is_signed) {
      emptied = b.select(b.compare("LT", x[0], zero), b.splat(-1, x[0].dtype, x[0].dims), zero);
    }
    return b.select(valid, shifted, emptied);
  });
}

void lower_where(NodeContext& c) {
  c.elementwise({0, 1, 2}, [&](const Hlos& x) { return c.b.select(x[0], x[1], x[2]); });
}

void lower_is_nan(NodeContext& c) {
  c.elementwise({0}, [&](const Hlos& x) {
    const Hlo value = c.b.convert(x[0], compute_dtype(x[0].dtype));
    return c.b.compare("NE", value, value);
  });
}

void lower_is_inf(NodeContext& c) {
  const bool positive = c.attr("detect_positive") != 0;
  const bool negative = c.attr("detect_negative") != 0;
  c.elementwise({0}, [&](const Hlos& x) {
    HloBuilder& b = c.b;
    const Hlo value = b.convert(x[0], compute_dtype(x[0].dtype));
    const Hlo infinity = b.splat(HUGE_VAL, value.dtype, value.dims);
    const Hlo above = b.compare("EQ", value, infinity);
    const Hlo below = b.compare("EQ", value, b.unary("negate", infinity));
    if (positive && negative) return b.binary("or", above, below);
    if (positive) return above;
    return negative ? below : b.splat(0, DType::kBool, value.dims);
  });
}

}  // namespace

void register_logic(LoweringTable& t) {
  t.add("Equal", lower_equal);
  t.add("Greater", lower_greater);
  t.add("GreaterOrEqual", lower_greater_or_equal);
  t.add("Less", lower_less);
  t.add("LessOrEqual", lower_less_or_equal);
  t.add("And", lower_and);
  t.add("Or", lower_or);
  t.add("Xor", lower_xor);
  t.add("Not", lower_not);
  t.add("BitwiseAnd", lower_and);
  t.add("BitwiseOr", lower_or);
  t.add("BitwiseXor", lower_xor);
  t.add("BitwiseNot", lower_not);
  t.add("BitShift", lower_bit_shift);
  t.add("Where", lower_where);
  t.add("IsNaN", lower_is_nan);
  t.add("IsInf", lower_is_inf);
}

}  // namespace xrt::xla
