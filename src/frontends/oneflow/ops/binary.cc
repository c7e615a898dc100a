// SPDX-License-Identifier: Apache-2.0
// Ops of two tensors, of a tensor and a number, and sums of many.
#include <cmath>
#include <string_view>
#include <variant>

#include "frontends/oneflow/lowering.h"
#include "frontends/oneflow/ops/op_name.h"

namespace xrt::oneflow {
namespace {

// Comparisons give bool; OneFlow may want another dtype.
void typed_result(Lowering& l, ValueId value, DType made) {
  const DType to = l.result_type().dtype;
  l.result(0, made == to ? value : l.cast(value, to));
}

template <OpName kOp>
void arithmetic(Lowering& l) {
  l.result(0, l.op(kOp.value, {l.in(0), l.in(1)}));
}

template <OpName kOp>
void comparison(Lowering& l) {
  typed_result(l, l.op(kOp.value, {l.in(0), l.in(1)}), DType::kBool);
}

void not_equal(Lowering& l) {
  typed_result(l, l.op("Not", {l.op("Equal", {l.in(0), l.in(1)})}), DType::kBool);
}

ValueId as_bool(Lowering& l, std::size_t operand) {
  return l.dtype(operand) == DType::kBool ? l.in(operand) : l.cast(l.in(operand), DType::kBool);
}

template <OpName kOp>
void logical(Lowering& l) {
  typed_result(l, l.op(kOp.value, {as_bool(l, 0), as_bool(l, 1)}), DType::kBool);
}

// The remainder has the sign of the divisor (floor_mod) or of the dividend (fmod).
void floor_mod(Lowering& l) {
  if (!is_floating(l.dtype())) return l.result(0, l.op("Mod", {l.in(0), l.in(1)}));
  const ValueId quotient = l.op("Floor", {l.div(l.in(0), l.in(1))});
  l.result(0, l.sub(l.in(0), l.mul(quotient, l.in(1))));
}

void fmod(Lowering& l) {
  l.result(0, l.op("Mod", {l.in(0), l.in(1)}, {{"fmod", std::int64_t{1}}}));
}

// OneFlow rounds the quotient of integers towards zero, as Div does.
ValueId divided_down(Lowering& l, ValueId a, ValueId b, DType dtype) {
  const ValueId quotient = l.div(a, b);
  return is_floating(dtype) ? l.op("Floor", {quotient}) : quotient;
}

void floordiv(Lowering& l) { l.result(0, divided_down(l, l.in(0), l.in(1), l.dtype())); }

void add_n(Lowering& l) {
  const auto terms = l.flat();
  if (terms.empty()) l.invalid("there is nothing to add");
  if (terms.size() == 1) return l.result(0, terms.front());
  ValueId sum = l.add(terms[0], terms[1]);
  for (std::size_t i = 2; i < terms.size(); ++i) sum = l.add(sum, terms[i]);
  l.result(0, sum);
}

// --- a tensor and a number ----------------------------------------------------------------------

Number number_of(const Lowering& l) {
  if (l.flag("has_int_operand")) return l.integer("int_operand");
  return l.real("float_operand");
}

bool equals(Number number, double value) {
  return std::visit([&](auto n) { return static_cast<double>(n) == value; }, number);
}

// The tensor in the dtype of the result, as OneFlow promotes it.
ValueId promoted(Lowering& l, DType to) { return l.dtype() == to ? l.in() : l.cast(l.in(), to); }

template <OpName kOp>
void scalar(Lowering& l) {
  const DType to = l.result_type().dtype;
  l.result(0, l.op(kOp.value, {promoted(l, to), l.scalar(number_of(l), to)}));
}

void scalar_pow(Lowering& l) {
  const DType to = l.result_type().dtype;
  const Number exponent = number_of(l);
  const ValueId x = promoted(l, to);
  if (equals(exponent, 2)) return l.result(0, l.mul(x, x));
  l.result(0, l.op("Pow", {x, l.scalar(exponent, to)}));
}

void scalar_reverse_pow(Lowering& l) {
  const DType to = l.result_type().dtype;
  l.result(0, l.op("Pow", {l.scalar(number_of(l), to), promoted(l, to)}));
}

void scalar_floordiv(Lowering& l) {
  const DType to = l.result_type().dtype;
  l.result(0, divided_down(l, promoted(l, to), l.scalar(number_of(l), to), to));
}

void scalar_fmod(Lowering& l) {
  const DType to = l.result_type().dtype;
  l.result(0,
           l.op("Mod", {promoted(l, to), l.scalar(number_of(l), to)}, {{"fmod", std::int64_t{1}}}));
}

// Integers are compared with a number that has a fraction as floating-point numbers.
std::pair<ValueId, ValueId> comparable(Lowering& l) {
  const Number number = number_of(l);
  const auto* real = std::get_if<double>(&number);
  const bool whole = real == nullptr || *real == std::floor(*real);
  const DType dtype = is_floating(l.dtype()) || whole ? l.dtype() : DType::kFloat32;
  if (dtype == DType::kBool) {
    return {l.cast(l.in(), DType::kInt32), l.scalar(number, DType::kInt32)};
  }
  return {promoted(l, dtype), l.scalar(number, dtype)};
}

template <OpName kOp>
void scalar_comparison(Lowering& l) {
  const auto [x, number] = comparable(l);
  typed_result(l, l.op(kOp.value, {x, number}), DType::kBool);
}

void scalar_not_equal(Lowering& l) {
  const auto [x, number] = comparable(l);
  typed_result(l, l.op("Not", {l.op("Equal", {x, number})}), DType::kBool);
}

template <OpName kOp>
void scalar_logical(Lowering& l) {
  const ValueId number = l.scalar(number_of(l), DType::kBool);
  typed_result(l, l.op(kOp.value, {as_bool(l, 0), number}), DType::kBool);
}

// --- choices ------------------------------------------------------------------------------------

void where(Lowering& l) { l.result(0, l.where(as_bool(l, 0), l.in(1), l.in(2))); }

// In the dtype of the result; with only one tensor, or none, the others are numbers.
void where_scalar_x(Lowering& l) {
  const DType to = l.result_type().dtype;
  l.result(0, l.where(as_bool(l, 0), l.scalar(number_of(l), to), l.in(1)));
}

void where_scalar_y(Lowering& l) {
  const DType to = l.result_type().dtype;
  l.result(0, l.where(as_bool(l, 0), l.in(1), l.scalar(number_of(l), to)));
}

void masked_fill(Lowering& l) {
  const Number number =
      l.flag("has_bool_operand") ? Number(l.flag("bool_operand") ? 1 : 0) : number_of(l);
  l.result(0, l.where(as_bool(l, 1), l.scalar(number, l.dtype()), l.in()));
}

}  // namespace

void register_binary(Registry& r) {
  r.add({"broadcast_add", "scalar_add_by_tensor"}, arithmetic<"Add">);
  r.add({"broadcast_sub", "scalar_sub_by_tensor"}, arithmetic<"Sub">);
  r.add({"broadcast_mul", "multiply", "scalar_mul_by_tensor"}, arithmetic<"Mul">);
  r.add({"broadcast_div", "scalar_div_by_tensor"}, arithmetic<"Div">);
  r.add({"broadcast_max", "broadcast_maximum", "elementwise_maximum"}, arithmetic<"Max">);
  r.add({"broadcast_min", "broadcast_minimum", "elementwise_minimum"}, arithmetic<"Min">);
  r.add({"broadcast_pow", "pow"}, arithmetic<"Pow">);
  r.add("broadcast_floor_mod", floor_mod);
  r.add("broadcast_fmod", fmod);
  r.add("floordiv", floordiv);
  r.add("broadcast_equal", comparison<"Equal">);
  r.add("broadcast_greater", comparison<"Greater">);
  r.add("broadcast_greater_equal", comparison<"GreaterOrEqual">);
  r.add("broadcast_less", comparison<"Less">);
  r.add("broadcast_less_equal", comparison<"LessOrEqual">);
  r.add("broadcast_not_equal", not_equal);
  r.add("broadcast_logical_and", logical<"And">);
  r.add("broadcast_logical_or", logical<"Or">);
  r.add("broadcast_logical_xor", logical<"Xor">);
  r.add({"add_n", "add_n2"}, add_n);
  r.add("scalar_add", scalar<"Add">);
  r.add("scalar_sub", scalar<"Sub">);
  r.add("scalar_mul", scalar<"Mul">);
  r.add("scalar_div", scalar<"Div">);
  r.add("scalar_pow", scalar_pow);
  r.add("scalar_reverse_pow", scalar_reverse_pow);
  r.add("scalar_floordiv", scalar_floordiv);
  r.add("scalar_fmod", scalar_fmod);
  r.add("scalar_logical_equal", scalar_comparison<"Equal">);
  r.add("scalar_logical_greater", scalar_comparison<"Greater">);
  r.add("scalar_logical_greater_equal", scalar_comparison<"GreaterOrEqual">);
  r.add("scalar_logical_less", scalar_comparison<"Less">);
  r.add("scalar_logical_less_equal", scalar_comparison<"LessOrEqual">);
  r.add("scalar_logical_not_equal", scalar_not_equal);
  r.add("scalar_logical_and", scalar_logical<"And">);
  r.add("scalar_logical_or", scalar_logical<"Or">);
  r.add("scalar_logical_xor", scalar_logical<"Xor">);
  r.add("where", where);
  r.add("where_scalar_x", where_scalar_x);
  r.add("where_scalar_y", where_scalar_y);
  r.add("masked_fill", masked_fill);
}

}  // namespace xrt::oneflow
