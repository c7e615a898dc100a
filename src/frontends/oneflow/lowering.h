// SPDX-License-Identifier: Apache-2.0
// What a handler of a OneFlow op builds with: the operation's operands, results and attributes, and
// the graph that it adds nodes to.
//
//   void lower_relu(Lowering& l) { l.result(0, l.op("Relu", {l.in()})); }
//
// Operands and results are named by the position they have in OneFlow's definition of the op
// ("segment"): an optional one that is left out, or a variadic one, is a segment all the same.
// Errors name the op's instance (attribute op_name), its kind, and the place in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/op_table.h"
#include "frontends/oneflow/mlir.h"
#include "xrt/graph.h"

namespace xrt::oneflow {

// The graph under construction and what is known of a job's values.
struct JobState {
  Graph& graph;
  const Job& job;
  std::vector<ValueId> values;          // by value of the job
  std::vector<std::int32_t> use_count;  // by value of the job
  // By value of the job that is a variable: what it holds after the job.
  std::map<std::int32_t, ValueId> updates;
  std::map<std::int32_t, std::string> variables;  // value of the job → the variable's name
  std::vector<std::string> schedules;             // inputs that learning-rate schedules became
  std::map<std::string, ValueId> constants;       // small ones, by what they hold
};

// A number as the text has it: an integer keeps all its digits.
using Number = std::variant<double, std::int64_t>;

class Lowering {
 public:
  Lowering(JobState& state, const Operation& operation);

  [[noreturn]] void invalid(const std::string& what) const;
  [[noreturn]] void unsupported(const std::string& what) const;
  // "conv1 (oneflow.conv2d, line 3, column 5)"
  std::string where() const;
  const std::string& instance() const { return instance_; }

  // --- operands -------------------------------------------------------------------------------
  bool has(std::size_t segment) const { return count(segment) > 0; }
  std::size_t count(std::size_t segment) const;
  ValueId in(std::size_t segment = 0, std::size_t index = 0) const;
  // Every operand, whatever segments they are in; kInvalidModel where there are fewer than `least`.
  std::vector<ValueId> flat(std::size_t least = 0) const;
  std::size_t operands() const { return operation_.operands.size(); }
  const Type& type(std::size_t segment = 0, std::size_t index = 0) const;
  DType dtype(std::size_t segment = 0) const { return type(segment).dtype; }
  // kUnsupported where one is unknown, or they are so large that a product of some of them, with a
  // size() as a further factor, could overflow.
  Dims dims(std::size_t segment = 0) const;
  // dims(); kInvalidModel where there are fewer than `least` of them.
  Dims dims(std::size_t segment, std::size_t least) const;
  std::int64_t rank(std::size_t segment = 0) const;
  // `axis`, or counted from the end, as one of [0, rank). A number has no axis.
  std::int64_t axis(std::int64_t axis, std::int64_t rank) const;

  // --- results --------------------------------------------------------------------------------
  std::size_t results() const { return operation_.results.size(); }
  // Whether there is such a result and anything reads it.
  bool wanted(std::size_t segment) const;
  const Type& result_type(std::size_t segment = 0, std::size_t index = 0) const;
  Dims result_dims(std::size_t segment = 0) const;
  // Does nothing where the result is left out.
  void result(std::size_t segment, ValueId value, std::size_t index = 0);
  // The variable that this operand is holds `value` after the job.
  void update(std::size_t segment, ValueId value);
  // What that variable holds by now: the operand, or the latest update.
  ValueId current(std::size_t segment) const;
  // As update(), where the operand is a variable; nothing happens where it is none.
  bool is_variable(std::size_t segment) const;
  // A learning rate that is given from outside: an input float32[1].
  ValueId add_schedule();

  // --- attributes -----------------------------------------------------------------------------
  bool has_attribute(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  double real(std::string_view name) const;
  double real(std::string_view name, double fallback) const;
  bool flag(std::string_view name, bool fallback = false) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  // As integer() and integers(), of a magnitude that can be added to and multiplied with dims().
  std::int64_t size(std::string_view name) const;
  std::vector<std::int64_t> sizes(std::string_view name) const;

  // `count` itself; kUnsupported where a table of so many entries is too large to be made while
  // importing. Types are only said in the text: they are no measure of the model's size.
  std::size_t table_size(std::int64_t count) const;

  // --- building -------------------------------------------------------------------------------
  ValueId op(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {});
  std::vector<ValueId> ops(std::string_view op, std::vector<ValueId> inputs, std::size_t outputs,
                           Attributes attributes = {});
  ValueId constant(Tensor tensor);
  ValueId scalar(Number number, DType dtype);  // rank 0
  ValueId ints(const std::vector<std::int64_t>& numbers);
  // `shape` of equal numbers; kInvalidModel where the dtype is integral and the number outside of
  // it.
  ValueId filled(const Dims& shape, Number number, DType dtype);

  ValueId add(ValueId a, ValueId b) { return op("Add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return op("Sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return op("Mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return op("Div", {a, b}); }
  ValueId cast(ValueId x, DType to);
  ValueId reshape(ValueId x, const Dims& shape);
  ValueId transpose(ValueId x, const std::vector<std::int64_t>& permutation);
  ValueId unsqueeze(ValueId x, const std::vector<std::int64_t>& axes);
  ValueId slice(ValueId x, const std::vector<std::int64_t>& starts,
                const std::vector<std::int64_t>& ends, const std::vector<std::int64_t>& axes);
  ValueId reduce(std::string_view op, ValueId x, const std::vector<std::int64_t>& axes,
                 bool keep_dims);
  ValueId where(ValueId condition, ValueId a, ValueId b) { return op("Where", {condition, a, b}); }

 private:
  Dims bounded(const Type& type, const std::string& what) const;
  void check_size(std::string_view name, std::int64_t size) const;
  template <typename T>
  T converted(Number number, DType dtype) const;
  std::int32_t operand(std::size_t segment, std::size_t index) const;
  std::int32_t result_value(std::size_t segment, std::size_t index) const;  // -1: left out
  const Attribute* find(std::string_view name) const;

  JobState& state_;
  const Operation& operation_;
  std::string instance_;
  std::vector<std::size_t> operand_segments_, result_segments_;  // sizes; empty: one each
};

using Lower = void (*)(Lowering&);

// Which function lowers an op of OneFlow, by the op's name without "oneflow.".
using Registry = OpTable<Lower>;

// All of them, made at the first call.
XRT_API const Registry& registry();

void register_elementwise(Registry& registry);
void register_binary(Registry& registry);
void register_linear(Registry& registry);
void register_convolution(Registry& registry);
void register_pooling(Registry& registry);
void register_normalization(Registry& registry);
void register_shapes(Registry& registry);
void register_resizing(Registry& registry);
void register_indexing(Registry& registry);
void register_reductions(Registry& registry);
void register_losses(Registry& registry);
void register_gradients(Registry& registry);
void register_updates(Registry& registry);

}  // namespace xrt::oneflow
