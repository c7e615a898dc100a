// SPDX-License-Identifier: Apache-2.0
// What the rewritings of contributed ops share: the op that is rewritten (its operands, attributes
// and what is known of their types) and the nodes that are put in its place.
//
//   void rewrite_bias_gelu(Rewriting& r) {
//     r.finish({r.op("Gelu", {r.add(r.need(0), r.need(1))})});
//   }
//
// A rewriting depends on no size: where one is needed it adds the nodes that compute it, so that
// open dimensions stay open. Ranks and element types are those known where the node stands.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/reader.h"
#include "onnx/upgrade_draft.h"
#include "xrt/graph.h"

namespace xrt::contributed {

using upgrade::Ints;
using Values = std::vector<ValueId>;

class Rewriting;

// What an integer of an attribute may be, both ends included.
struct Within {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

// A number that is only compared, or handed on as a number.
inline constexpr Within kAny{};
// A length: two of them multiplied fit in int64, for more there is product().
inline constexpr Within kLength{1, std::int64_t{1} << 30};
inline constexpr Within kLengthOrNone{0, std::int64_t{1} << 30};
inline constexpr Within kHeads{1, 1 << 16};
inline constexpr Within kHeadsOrNone{0, 1 << 16};
// Words in a row: a rewriting adds nodes for each of them.
inline constexpr Within kNGram{1, 1024};
inline constexpr Within kInt32{std::numeric_limits<std::int32_t>::min(),
                               std::numeric_limits<std::int32_t>::max()};
inline constexpr Within kAxis{-1024, 1023};

// The product of numbers that are not negative. Throws kInvalidModel where it is beyond 2^62.
std::int64_t product(std::initializer_list<std::int64_t> numbers);

// The body of a Loop while it is built: its inputs are added to `graph`, its nodes by rewriting().
struct Body {
  std::shared_ptr<Graph> owner;
  Graph& graph;
  NodeDraft draft;  // gives the names
  const std::function<void(Graph&, NodeId)>& infer;

  Rewriting rewriting();
  // What a value of the graph around is inside.
  ValueId capture(const Graph& around, ValueId outer);
};

class Rewriting {
 public:
  // `infer` is run for every node that is added, and may throw where there are too many of them.
  Rewriting(Graph& graph, NodeDraft& draft,
            const std::function<void(Graph& graph, NodeId node)>& infer);

  // --- the op ---------------------------------------------------------------------------------
  const std::string& op_name() const { return op_; }
  Graph& graph() { return graph_; }
  std::size_t input_count() const { return draft_.inputs.size(); }
  ValueId input(std::size_t i) const;  // invalid where it is left out
  // Throws kInvalidModel where it is left out.
  ValueId need(std::size_t i) const;
  // Whether the model names the output.
  bool wants(std::size_t i) const;
  // Whether an integer is not 0.
  bool flag(std::string_view name, bool fallback = false);
  // Each integer says what it may be, so that it can size, divide, shift, count and index. Throws
  // kInvalidModel, naming the attribute, where it is something else.
  std::int64_t int_attr(std::string_view name, std::int64_t fallback, Within within);
  float float_attr(std::string_view name, float fallback);
  std::string string_attr(std::string_view name, std::string fallback);
  // Throws kInvalidModel where it is absent.
  std::int64_t required_int(std::string_view name, Within within);
  // A list of such integers; `fallback` where it is absent.
  Ints ints_attr(std::string_view name, Within each, Ints fallback = {});
  // An axis of a value of that rank, from the front.
  std::size_t axis_attr(std::string_view name, std::int64_t fallback, std::size_t rank);
  bool has_attr(std::string_view name) const { return draft_.attributes.contains(name); }
  Attributes& attributes() { return draft_.attributes; }
  // Throws kUnsupported: "<op>: <message>".
  [[noreturn]] void refuse(const std::string& message) const;

  // --- what is known --------------------------------------------------------------------------
  DType dtype(ValueId v) const;  // kUndefined: not known
  std::optional<std::size_t> rank(ValueId v) const;
  // Throws kUnsupported where the rank is not known, naming the input.
  std::size_t need_rank(std::size_t input) const;
  std::optional<std::int64_t> dim(ValueId v, std::int64_t axis) const;  // axis < 0: from the back
  // The constant that a value is, else one that is not defined().
  Tensor known(ValueId v) const;
  // The same where its elements are of one of the types; throws kInvalidModel for others.
  Tensor known(ValueId v, std::initializer_list<DType> types) const;

  // --- what takes its place -------------------------------------------------------------------
  // An op of the pinned opset with one output, or several. Trailing invalid inputs are left out.
  ValueId op(std::string_view name, Values inputs, Attributes attributes = {});
  Values ops(std::string_view name, Values inputs, std::size_t outputs, Attributes attributes = {});
  // An op as opset `version` defined it.
  ValueId old_op(std::string_view name, Values inputs, Attributes attributes, std::int64_t version);
  ValueId constant(Tensor tensor);
  ValueId ints(const Ints& values);   // int64, rank 1
  ValueId whole(std::int64_t value);  // int64, rank 0
  // A scalar of the element type of `like`.
  ValueId number(double value, ValueId like);
  ValueId float_number(float value);  // float32, rank 0
  ValueId cast(ValueId v, DType to);
  ValueId cast_like(ValueId v, ValueId like);

  ValueId add(ValueId a, ValueId b) { return op("Add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return op("Sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return op("Mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return op("Div", {a, b}); }
  ValueId matmul(ValueId a, ValueId b) { return op("MatMul", {a, b}); }
  ValueId where(ValueId condition, ValueId a, ValueId b) { return op("Where", {condition, a, b}); }
  // 0 keeps a dimension, -1 is what is left.
  ValueId reshape(ValueId v, const Ints& shape) { return op("Reshape", {v, ints(shape)}); }
  ValueId reshape_to(ValueId v, ValueId shape) { return op("Reshape", {v, shape}); }
  ValueId transpose(ValueId v, const Ints& perm) { return op("Transpose", {v}, {{"perm", perm}}); }
  // The dimensions [start, end) as an int64 list; end 0: to the last one.
  ValueId shape(ValueId v, std::int64_t start = 0, std::int64_t end = 0);
  ValueId size(ValueId v, std::int64_t axis);  // one dimension, rank 0
  ValueId concat(const Values& values, std::int64_t axis = 0) {
    return op("Concat", values, {{"axis", axis}});
  }
  ValueId slice(ValueId v, const Ints& starts, const Ints& ends, const Ints& axes);
  // [start, end) of one axis, bounds as lists of one number; an invalid bound is the axis's own.
  ValueId slice_axis(ValueId v, ValueId start, ValueId end, std::int64_t axis);
  ValueId unsqueeze(ValueId v, const Ints& axes) { return op("Unsqueeze", {v, ints(axes)}); }
  ValueId squeeze(ValueId v, const Ints& axes) { return op("Squeeze", {v, ints(axes)}); }
  ValueId gather(ValueId v, ValueId indices, std::int64_t axis = 0) {
    return op("Gather", {v, indices}, {{"axis", axis}});
  }
  ValueId reduce(std::string_view name, ValueId v, const Ints& axes, bool keep = true);
  // Parts of the given lengths along an axis.
  Values split(ValueId v, const Ints& lengths, std::int64_t axis);
  ValueId range(ValueId limit);  // 0 … limit - 1; limit: int64, rank 0
  // One number in a list as a scalar, where that can be seen: a scale of the whole tensor.
  ValueId single(ValueId v);
  // A body of that name, and the Loop that runs it `trips` times (int64, rank 0). Its inputs are
  // the number of the step, the condition and the states, its outputs the condition and the states.
  std::unique_ptr<Body> new_body(const std::string& name);
  Values loop(const Body& body, ValueId trips, const Values& states);
  // The graph that an attribute holds.
  std::shared_ptr<const Graph> required_graph(std::string_view name);
  // The nodes of such a graph, for these inputs; its outputs. `captured` tells what a value that
  // the graph captured is here.
  Values call(const Graph& body, const Values& inputs,
              const std::function<ValueId(ValueId)>& captured);
  // The last two axes in the other order. The rank, which is `assumed` where it is not known, has
  // to be at least 2.
  ValueId swapped(ValueId v, std::optional<std::size_t> assumed = {});
  // Channels to the second place and back, whatever the rank, which has to be known and at least 2.
  ValueId channels_first(ValueId v);
  // `like`: a value of the same rank, for a `v` whose rank is not known.
  ValueId channels_last(ValueId v, ValueId like = {});

  // The outputs in order. An invalid one is an error where the model names it.
  void finish(const Values& outputs);
  // The op itself becomes this one, with the outputs it has.
  void become(std::string_view name, Values inputs, Attributes attributes = {},
              std::string_view domain = "");

 private:
  std::string fresh(std::string_view part);
  // The rank, which has to be at least 2.
  std::size_t rank_of_axes(ValueId v, std::string_view what,
                           std::optional<std::size_t> assumed = {}) const;

  Graph& graph_;
  NodeDraft& draft_;
  const std::function<void(Graph&, NodeId)>& infer_;
  std::string op_;
  std::size_t first_new_;
  int added_ = 0;
};

// A contributed op and what puts ops of the standard in its place.
struct Entry {
  std::string_view domain, op;
  void (*rewrite)(Rewriting&);
};

inline constexpr std::string_view kMicrosoft = "com.microsoft";
inline constexpr std::string_view kNchwc = "com.microsoft.nchwc";
inline constexpr std::string_view kOwn = "xrt";  // the domain of ops/own_ops.h

// By subject, one file each.
std::span<const Entry> linear_ops();
std::span<const Entry> convolution_ops();
std::span<const Entry> activation_ops();
std::span<const Entry> normalisation_ops();
std::span<const Entry> attention_ops();
std::span<const Entry> quantised_ops();
std::span<const Entry> weight_ops();
std::span<const Entry> sequence_ops();
std::span<const Entry> expert_ops();
std::span<const Entry> generation_ops();
std::span<const Entry> other_ops();

// Y = op(x) for the activations that FusedConv, FusedGemm and nchwc.Conv name.
ValueId apply_activation(Rewriting& r, ValueId x, const std::string& name,
                         const std::vector<float>& parameters);

// Scores (batch, words) in which a word that would end an n-gram of `ids` (batch, length) once more
// has minus infinity.
ValueId block_repeats(Rewriting& r, ValueId ids, ValueId scores, std::int64_t n);

}  // namespace xrt::contributed
