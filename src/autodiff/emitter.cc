// SPDX-License-Identifier: Apache-2.0
#include "autodiff/emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/half.h"
#include "xrt/error.h"

namespace xrt::autodiff {
namespace {

template <typename T>
void put(Tensor& tensor, std::int64_t i, double value) {
  tensor.data<T>()[i] = static_cast<T>(value);
}

void put_number(Tensor& tensor, std::int64_t i, double value) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return put<float>(tensor, i, value);
    case DType::kFloat64:
      return put<double>(tensor, i, value);
    case DType::kFloat16:
      tensor.data<std::uint16_t>()[i] = float_to_half(narrow_to_odd(value));
      return;
    case DType::kBFloat16:
      tensor.data<std::uint16_t>()[i] = float_to_bfloat16(narrow_to_odd(value));
      return;
    case DType::kInt64:
      return put<std::int64_t>(tensor, i, value);
    case DType::kInt32:
      return put<std::int32_t>(tensor, i, value);
    case DType::kUInt32:
      return put<std::uint32_t>(tensor, i, value);
    case DType::kUInt64:
      return put<std::uint64_t>(tensor, i, value);
    case DType::kUInt8:
    case DType::kBool:
      return put<std::uint8_t>(tensor, i, value);
    default:
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("numbers of type {} in a gradient", to_string(tensor.dtype())));
  }
}

Var scalar_like(double value, Var like) { return like.e->scalar(value, like.dtype); }

// The node of this op of the standard domain that makes the value, or null.
const Node* made_by(const Graph& graph, ValueId id, std::string_view op) {
  const Value& value = graph.value(id);
  if (value.origin != Origin::kNode) return nullptr;
  const Node& node = graph.node(value.producer);
  return node.domain.empty() && node.op == op ? &node : nullptr;
}

struct Transposed {
  ValueId source;
  Dims perm;
};

std::optional<Transposed> transposed_from(const Graph& graph, ValueId id) {
  const Node* node = made_by(graph, id, "Transpose");
  if (node == nullptr || !node->has("perm")) return std::nullopt;
  return Transposed{node->inputs[0], node->attr_ints("perm")};
}

Var compare(std::string_view op, Var a, Var b) { return a.e->op_to(DType::kBool, op, {a, b}); }

}  // namespace

Tensor number_tensor(std::span<const double> values, Dims dims, DType dtype) {
  Tensor tensor = Tensor::allocate(dtype, std::move(dims));
  for (std::int64_t i = 0; i < tensor.count(); ++i) put_number(tensor, i, values[i]);
  return tensor;
}

Tensor filled(DType dtype, Dims dims, double value) {
  Tensor tensor = Tensor::allocate(dtype, std::move(dims));
  for (std::int64_t i = 0; i < tensor.count(); ++i) put_number(tensor, i, value);
  return tensor;
}

Var Emitter::var(ValueId id) {
  if (!id.valid()) return none();
  return {this, id, graph_.type(id).dtype};
}

Var Emitter::op(std::string_view op, std::initializer_list<Var> inputs, Attributes attributes) {
  return this->op(op, std::vector<Var>(inputs), std::move(attributes));
}

Var Emitter::op(std::string_view op, const std::vector<Var>& inputs, Attributes attributes) {
  return op_to(inputs.at(0).dtype, op, inputs, std::move(attributes));
}

Var Emitter::op_to(DType dtype, std::string_view op, const std::vector<Var>& inputs,
                   Attributes attributes) {
  return node("", op, inputs, {dtype}, std::move(attributes))[0];
}

std::vector<Var> Emitter::node(std::string_view domain, std::string_view op,
                               const std::vector<Var>& inputs, const std::vector<DType>& dtypes,
                               Attributes attributes) {
  std::vector<ValueId> ids;
  ids.reserve(inputs.size());
  for (const Var& input : inputs) ids.push_back(input.id);
  const std::string name = fmt::format("{}/{}", prefix_, op);
  const NodeId made =
      graph_.add_node(domain, op, std::move(ids), std::vector<std::string>(dtypes.size(), name),
                      std::move(attributes), name);
  std::vector<Var> results;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    results.push_back({this, graph_.node(made).outputs[i], dtypes[i]});
  }
  return results;
}

Var Emitter::scalar(double value, DType dtype) {
  const auto key = std::make_pair(dtype, value);
  auto found = scalars_.find(key);
  if (found == scalars_.end()) {
    found = scalars_.emplace(key, graph_.add_constant(prefix_, filled(dtype, {}, value))).first;
  }
  return {this, found->second, dtype};
}

Var Emitter::ints(const Dims& values) {
  auto found = ints_.find(values);
  if (found == ints_.end()) {
    found = ints_.emplace(values, graph_.add_constant(prefix_, Tensor::from_int64(values))).first;
  }
  return {this, found->second, DType::kInt64};
}

Var Emitter::constant(Tensor tensor) {
  const DType dtype = tensor.dtype();
  return {this, graph_.add_constant(prefix_, std::move(tensor)), dtype};
}

Var Emitter::numbers(std::span<const double> values, Dims dims, DType dtype) {
  return constant(number_tensor(values, std::move(dims), dtype));
}

Var operator+(Var a, Var b) { return a.e->op("Add", {a, b}); }
Var operator-(Var a, Var b) { return a.e->op("Sub", {a, b}); }
Var operator*(Var a, Var b) { return a.e->op("Mul", {a, b}); }
Var operator/(Var a, Var b) { return a.e->op("Div", {a, b}); }
Var operator+(Var a, double b) { return a + scalar_like(b, a); }
Var operator-(Var a, double b) { return a - scalar_like(b, a); }
Var operator*(Var a, double b) { return a * scalar_like(b, a); }
Var operator/(Var a, double b) { return a / scalar_like(b, a); }
Var operator+(double a, Var b) { return scalar_like(a, b) + b; }
Var operator-(double a, Var b) { return scalar_like(a, b) - b; }
Var operator*(double a, Var b) { return b * a; }
Var operator/(double a, Var b) { return scalar_like(a, b) / b; }
Var operator-(Var a) { return a.e->op("Neg", {a}); }

Var exp(Var x) { return x.e->op("Exp", {x}); }
Var log(Var x) { return x.e->op("Log", {x}); }
Var sqrt(Var x) { return x.e->op("Sqrt", {x}); }
Var tanh(Var x) { return x.e->op("Tanh", {x}); }
Var sigmoid(Var x) { return x.e->op("Sigmoid", {x}); }
Var sign(Var x) { return x.e->op("Sign", {x}); }
Var abs(Var x) { return x.e->op("Abs", {x}); }
Var square(Var x) { return x * x; }
Var reciprocal(Var x) { return x.e->op("Reciprocal", {x}); }
Var pow(Var x, double exponent) { return x.e->op("Pow", {x, scalar_like(exponent, x)}); }
Var max(Var a, Var b) { return a.e->op("Max", {a, b}); }
Var min(Var a, Var b) { return a.e->op("Min", {a, b}); }

Var less(Var a, Var b) { return compare("Less", a, b); }
Var greater(Var a, Var b) { return compare("Greater", a, b); }
Var equal(Var a, Var b) { return compare("Equal", a, b); }
Var greater_equal(Var a, Var b) { return compare("GreaterOrEqual", a, b); }
Var less_equal(Var a, Var b) { return compare("LessOrEqual", a, b); }
Var less(Var a, double b) { return less(a, scalar_like(b, a)); }
Var greater(Var a, double b) { return greater(a, scalar_like(b, a)); }
Var both(Var a, Var b) { return a.e->op("And", {a, b}); }
Var negate(Var a) { return a.e->op("Not", {a}); }
Var where(Var condition, Var a, Var b) { return a.e->op_to(a.dtype, "Where", {condition, a, b}); }
Var masked(Var condition, Var x) { return where(condition, x, scalar_like(0, x)); }

Var cast(Var x, DType dtype) {
  if (x.dtype == dtype) return x;
  return x.e->op_to(dtype, "Cast", {x}, {{"to", static_cast<std::int64_t>(dtype)}});
}

Var matmul(Var a, Var b) { return a.e->op("MatMul", {a, b}); }

Var transpose(Var x, const Dims& perm) {
  if (std::is_sorted(perm.begin(), perm.end())) return x;
  // One transposition for two; none of a product of a transposed matrix: (A'B)' = B'A.
  Emitter& e = *x.e;
  if (const auto inner = transposed_from(e.graph(), x.id);
      inner && inner->perm.size() == perm.size()) {
    Dims both;
    for (const std::int64_t p : perm) both.push_back(inner->perm[static_cast<std::size_t>(p)]);
    return transpose({x.e, inner->source, x.dtype}, both);
  }
  if (const Node* product = made_by(e.graph(), x.id, "MatMul"); product && perm == Dims{1, 0}) {
    const Var b = {x.e, product->inputs[1], x.dtype};
    if (const auto a = transposed_from(e.graph(), product->inputs[0]); a && a->perm == Dims{1, 0}) {
      return matmul(transpose(b, perm), {x.e, a->source, x.dtype});
    }
  }
  return x.e->op("Transpose", {x}, {{"perm", perm}});
}

Var reshape(Var x, const Dims& dims) {
  // A zero is a dimension of no elements, never "as the input's".
  return x.e->op("Reshape", {x, x.e->ints(dims)}, {{"allowzero", std::int64_t{1}}});
}

Var expand(Var x, const Dims& dims) { return x.e->op("Expand", {x, x.e->ints(dims)}); }

Var unsqueeze(Var x, const Dims& axes) {
  return axes.empty() ? x : x.e->op("Unsqueeze", {x, x.e->ints(axes)});
}

Var squeeze(Var x, const Dims& axes) {
  return axes.empty() ? x : x.e->op("Squeeze", {x, x.e->ints(axes)});
}

Var sum(Var x, const Dims& axes, bool keepdims) {
  if (axes.empty()) return x;
  return x.e->op("ReduceSum", {x, x.e->ints(axes)}, {{"keepdims", std::int64_t{keepdims}}});
}

Var mean(Var x, const Dims& axes, bool keepdims) {
  if (axes.empty()) return x;
  return x.e->op("ReduceMean", {x, x.e->ints(axes)}, {{"keepdims", std::int64_t{keepdims}}});
}

Var concat(const std::vector<Var>& parts, std::int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return parts.at(0).e->op("Concat", parts, {{"axis", axis}});
}

Var slice(Var x, const Dims& starts, const Dims& ends, const Dims& axes, const Dims& steps) {
  Emitter& e = *x.e;
  std::vector<Var> inputs{x, e.ints(starts), e.ints(ends), e.ints(axes)};
  if (!steps.empty()) inputs.push_back(e.ints(steps));
  return e.op("Slice", inputs);
}

Var gather(Var x, Var indices, std::int64_t axis) {
  return x.e->op("Gather", {x, indices}, {{"axis", axis}});
}

Var pad(Var x, const Dims& before, const Dims& behind) {
  const auto zero = [](std::int64_t n) { return n == 0; };
  if (std::all_of(before.begin(), before.end(), zero) &&
      std::all_of(behind.begin(), behind.end(), zero)) {
    return x;
  }
  Dims pads = before;
  pads.insert(pads.end(), behind.begin(), behind.end());
  return x.e->op("Pad", {x, x.e->ints(pads), scalar_like(0, x)});
}

Dims range(std::int64_t begin, std::int64_t end) {
  Dims values(static_cast<std::size_t>(std::max<std::int64_t>(end - begin, 0)));
  std::iota(values.begin(), values.end(), begin);
  return values;
}

Dims inverse_permutation(const Dims& perm) {
  Dims inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) {
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  }
  return inverse;
}

}  // namespace xrt::autodiff
