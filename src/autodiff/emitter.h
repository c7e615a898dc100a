// SPDX-License-Identifier: Apache-2.0
// Writes nodes into a graph, as arithmetic on values:
//
//   Emitter e(graph);
//   Var x = e.var(id);
//   Var y = tanh(x) * 2.0 + x;
//
// A Var knows the element type of its value, so that numbers take it; shapes are left to shape
// inference, which runs when all nodes are there. Constants are made once per value.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "xrt/graph.h"

namespace xrt::autodiff {

class Emitter;

struct Var {
  Emitter* e = nullptr;
  ValueId id = {};
  DType dtype = DType::kUndefined;

  bool valid() const { return id.valid(); }
};

class XRT_API Emitter {
 public:
  explicit Emitter(Graph& graph) : graph_(graph) {}
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;

  Graph& graph() { return graph_; }
  // Names of nodes and values that follow begin with it.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  Var var(ValueId id);
  // An absent Var.
  Var none() { return {this, {}, DType::kUndefined}; }

  Var op(std::string_view op, std::initializer_list<Var> inputs, Attributes attributes = {});
  Var op(std::string_view op, const std::vector<Var>& inputs, Attributes attributes = {});
  // The result has another element type than the first input.
  Var op_to(DType dtype, std::string_view op, const std::vector<Var>& inputs,
            Attributes attributes = {});
  // Several outputs; dtypes give their number.
  std::vector<Var> node(std::string_view domain, std::string_view op,
                        const std::vector<Var>& inputs, const std::vector<DType>& dtypes,
                        Attributes attributes = {});

  Var scalar(double value, DType dtype);
  Var ints(const Dims& values);  // int64, rank 1
  Var constant(Tensor tensor);
  // Row-major `values` rounded to `dtype`.
  Var numbers(std::span<const double> values, Dims dims, DType dtype);

 private:
  Graph& graph_;
  std::string prefix_ = "grad";
  std::map<std::pair<DType, double>, ValueId> scalars_;
  std::map<Dims, ValueId> ints_;
};

// A tensor of `dims` filled with `value`.
XRT_API Tensor filled(DType dtype, Dims dims, double value);
XRT_API Tensor number_tensor(std::span<const double> values, Dims dims, DType dtype);

Var operator+(Var a, Var b);
Var operator-(Var a, Var b);
Var operator*(Var a, Var b);
Var operator/(Var a, Var b);
Var operator+(Var a, double b);
Var operator-(Var a, double b);
Var operator*(Var a, double b);
Var operator/(Var a, double b);
Var operator+(double a, Var b);
Var operator-(double a, Var b);
Var operator*(double a, Var b);
Var operator/(double a, Var b);
Var operator-(Var a);

Var exp(Var x);
Var log(Var x);
Var sqrt(Var x);
Var tanh(Var x);
Var sigmoid(Var x);
Var sign(Var x);
Var abs(Var x);
Var square(Var x);
Var reciprocal(Var x);
Var pow(Var x, double exponent);
Var max(Var a, Var b);
Var min(Var a, Var b);

Var less(Var a, Var b);  // bool
Var greater(Var a, Var b);
Var equal(Var a, Var b);
Var greater_equal(Var a, Var b);
Var less_equal(Var a, Var b);
Var less(Var a, double b);
Var greater(Var a, double b);
Var both(Var a, Var b);
Var negate(Var a);  // not
Var where(Var condition, Var a, Var b);
// `x` where the condition holds, else 0.
Var masked(Var condition, Var x);
Var cast(Var x, DType dtype);

Var matmul(Var a, Var b);
Var transpose(Var x, const Dims& perm);
Var reshape(Var x, const Dims& dims);
Var expand(Var x, const Dims& dims);
Var unsqueeze(Var x, const Dims& axes);
Var squeeze(Var x, const Dims& axes);
// No axes: nothing is summed.
Var sum(Var x, const Dims& axes, bool keepdims);
Var mean(Var x, const Dims& axes, bool keepdims);
Var concat(const std::vector<Var>& parts, std::int64_t axis);
Var slice(Var x, const Dims& starts, const Dims& ends, const Dims& axes, const Dims& steps = {});
Var gather(Var x, Var indices, std::int64_t axis);
// Zeros before and behind each axis; negative numbers cut off.
Var pad(Var x, const Dims& before, const Dims& behind);

Dims range(std::int64_t begin, std::int64_t end);
Dims inverse_permutation(const Dims& perm);

}  // namespace xrt::autodiff
