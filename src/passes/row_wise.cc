// SPDX-License-Identifier: Apache-2.0
#include "passes/row_wise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "ops/op_facts.h"
#include "xrt/op.h"

namespace xrt {
namespace {

using Ints = std::vector<std::int64_t>;

// What a value is made of: rows along an axis (0 or more), or one of these.
constexpr int kFree = -1;   // nothing that the rows decide
constexpr int kSizes = -2;  // numbers that depend on how many rows there are
constexpr int kMixed = -3;  // what it is cannot be said

template <std::size_t N>
bool is_one_of(std::string_view op, const std::array<std::string_view, N>& ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

// Of the first input's axis 0 each entry is computed by itself; the other inputs are parameters.
constexpr std::array<std::string_view, 16> kPerSample{"AveragePool",
                                                      "BatchNormalization",
                                                      "Conv",
                                                      "ConvInteger",
                                                      "ConvTranspose",
                                                      "DepthToSpace",
                                                      "GlobalAveragePool",
                                                      "GlobalLpPool",
                                                      "GlobalMaxPool",
                                                      "GroupNormalization",
                                                      "InstanceNormalization",
                                                      "LRN",
                                                      "LpPool",
                                                      "MaxPool",
                                                      "Resize",
                                                      "SpaceToDepth"};
// Entries along one axis are read together, and that axis stays.
constexpr std::array<std::string_view, 7> kAlongAxis{
    "Softmax", "LogSoftmax", "Hardmax", "CumSum", "TopK", "Split", "LpNormalization"};
constexpr std::array<std::string_view, 12> kReductions{
    "ArgMax",    "ArgMin",     "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp",
    "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",    "ReduceSumSquare"};
// What may be computed of sizes on their way to a shape.
constexpr std::array<std::string_view, 16> kOfSizes{
    "Add",    "Sub",   "Mul",    "Div",     "Max",       "Min",        "Cast",  "Identity",
    "Gather", "Slice", "Concat", "Squeeze", "Unsqueeze", "ReduceProd", "Where", "Equal"};

class Analysis {
 public:
  Analysis(const Graph& graph, const std::string& dimension)
      : graph_(graph), rows_(dimension), kinds_(graph.value_capacity(), kFree) {}

  RowWise run() {
    RowWise result;
    for (const ValueId v : graph_.inputs()) {
      kind(v) = kind_of_input(v);
      if (kind(v) != kMixed) continue;
      result.why_not = fmt::format("input '{}' ({}) has no single axis of '{}'",
                                   graph_.value(v).name, to_string(graph_.type(v)), rows_.symbol());
      return result;
    }
    for (const NodeId id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      const int axis = judge(id);
      if (axis == kMixed) {
        result.why_not = fmt::format("node '{}' ({}) may mix the rows of '{}'", node.name,
                                     node.qualified_op(), rows_.symbol());
        return result;
      }
      if (axis != kGivenAlready) {
        for (const ValueId v : node.outputs) {
          if (v.valid()) kind(v) = axis;
        }
      }
      for (const ValueId v : node.outputs) {
        if (!v.valid() || kind(v) < 0 || has_rows_at(v, kind(v))) continue;
        result.why_not = fmt::format("the sizes of '{}' ({}) are not those of its rows",
                                     graph_.value(v).name, to_string(graph_.type(v)));
        return result;
      }
    }
    for (const ValueId v : graph_.outputs()) {
      if (kind(v) == kSizes) {
        result.why_not =
            fmt::format("output '{}' depends on the number of rows", graph_.value(v).name);
        return result;
      }
      result.output_axes.push_back(kind(v));
    }
    return result;
  }

 private:
  static constexpr int kGivenAlready = -4;

  int& kind(ValueId v) { return kinds_[static_cast<std::size_t>(v.index)]; }
  int kind(ValueId v) const { return kinds_[static_cast<std::size_t>(v.index)]; }

  int kind_of_input(ValueId v) const {
    const Type& type = graph_.type(v);
    if (!type.is_tensor()) return type.kind == Type::Kind::kOptional ? kMixed : kFree;
    if (!type.has_rank()) return kMixed;
    const auto count = std::count(type.shape->begin(), type.shape->end(), rows_);
    if (count == 0) return kFree;
    return count == 1 ? position_of_rows(type) : kMixed;
  }
  int position_of_rows(const Type& type) const {
    return static_cast<int>(std::find(type.shape->begin(), type.shape->end(), rows_) -
                            type.shape->begin());
  }
  bool has_rows_at(ValueId v, int axis) const {
    const Type& type = graph_.type(v);
    return type.has_rank() && static_cast<std::size_t>(axis) < type.rank() &&
           std::count(type.shape->begin(), type.shape->end(), rows_) == 1 &&
           position_of_rows(type) == axis;
  }
  int rank(ValueId v) const { return static_cast<int>(graph_.type(v).rank()); }
  bool has_rank(ValueId v) const { return v.valid() && graph_.type(v).has_rank(); }
  bool is_free(ValueId v) const { return !v.valid() || kind(v) == kFree; }
  bool are_free(const Node& node, std::size_t from) const {
    for (std::size_t i = from; i < node.inputs.size(); ++i) {
      if (!is_free(node.inputs[i])) return false;
    }
    return true;
  }
  // Attribute or constant operand; nothing where it is not known here.
  std::optional<Ints> integers(ValueId v) const {
    const Tensor* constant = v.valid() ? graph_.constant(v) : nullptr;
    if (constant == nullptr) return std::nullopt;
    return constant->to_int64();
  }

  // The axis that the rows have in a result of `out_rank` axes to which the inputs are broadcast.
  int broadcast(const std::vector<ValueId>& inputs, int out_rank) const {
    int axis = kFree;
    for (const ValueId v : inputs) {
      if (!v.valid() || kind(v) < 0) continue;
      if (!has_rank(v)) return kMixed;
      const int here = kind(v) + out_rank - rank(v);
      if (axis != kFree && axis != here) return kMixed;
      axis = here;
    }
    for (const ValueId v : inputs) {
      if (!v.valid() || kind(v) != kFree) continue;
      if (!has_rank(v)) return kMixed;
      const int here = axis - out_rank + rank(v);
      if (here >= 0 && (*graph_.type(v).shape)[static_cast<std::size_t>(here)] != Dim(1)) {
        return kMixed;
      }
    }
    return axis;
  }

  int judge(NodeId id) {
    const Node& node = graph_.node(id);
    const std::vector<ValueId> reads = graph_.dependencies(id);
    const bool all_free =
        std::all_of(reads.begin(), reads.end(), [&](ValueId v) { return kind(v) == kFree; });
    if (all_free) return kFree;
    if (!node.domain.empty() || !Graph::subgraphs(node).empty()) return kMixed;
    if (node.op == "Shape" || node.op == "Size") return kSizes;
    const bool reads_rows =
        std::any_of(reads.begin(), reads.end(), [&](ValueId v) { return kind(v) >= 0; });
    if (!reads_rows) {
      if (node.op == "ConstantOfShape") return rows_of_result(node);
      if (is_one_of(node.op, kOfSizes)) return kSizes;
      if (node.op == "Expand" || node.op == "Tile") return rows_of_result(node);
      return kMixed;
    }
    if (node.op == "Reshape") return reshape(node);
    if (node.op == "Expand") return expand(node);
    if (std::any_of(reads.begin(), reads.end(), [&](ValueId v) { return kind(v) == kSizes; })) {
      return kMixed;
    }
    return judge_rows(node);
  }

  // No input has rows and a shape made of sizes: all rows of the result are equal.
  int rows_of_result(const Node& node) const {
    if (node.op == "Tile") return kMixed;
    const ValueId out = node.output(0);
    if (!has_rank(out)) return kMixed;
    const Shape& shape = *graph_.type(out).shape;
    const auto count = std::count(shape.begin(), shape.end(), rows_);
    const bool all_told =
        std::all_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim != Dim(); });
    return count == 1 && all_told ? position_of_rows(graph_.type(out)) : kMixed;
  }

  // Only inputs with rows and free ones.
  int judge_rows(const Node& node) {
    const std::string& op = node.op;
    const ValueId x = node.input(0);
    const ValueId out = node.output(0);
    if (is_elementwise(node)) {
      return has_rank(out) ? broadcast(node.inputs, rank(out)) : kMixed;
    }
    if (op == "MatMul" || op == "MatMulInteger") return product(node);
    if (op == "Gemm") return gemm(node);
    if (op == "Gather") return gather(node);
    if (op == "Concat") return concat(node);
    if (op == "LSTM" || op == "GRU" || op == "RNN") return recurrent(node);
    // The others: the first input has the rows, the rest are parameters.
    if (!x.valid() || kind(x) < 0 || !has_rank(x) || !are_free(node, 1)) return kMixed;
    const int axis = kind(x);
    const auto normal = [&](std::int64_t a) { return a < 0 ? a + rank(x) : a; };
    if (is_one_of(op, kPerSample)) {
      const bool trains = node.attr_int("training_mode", 0) != 0;
      return axis == 0 && !trains ? 0 : kMixed;
    }
    if (op == "LayerNormalization" || op == "RMSNormalization") {
      return axis < normal(node.attr_int("axis", -1)) ? axis : kMixed;
    }
    if (is_one_of(op, kAlongAxis)) {
      std::int64_t along = node.attr_int("axis", op == "Split" ? 0 : -1);
      if (op == "CumSum") {
        const std::optional<Ints> given = integers(node.input(1));
        if (!given || given->size() != 1) return kMixed;
        along = given->front();
      }
      return normal(along) != axis ? axis : kMixed;
    }
    if (is_one_of(op, kReductions)) return reduction(node);
    if (op == "Transpose") {
      const Ints order = node.attr_ints("perm");
      if (order.empty()) return rank(x) - 1 - axis;
      const auto at = std::find(order.begin(), order.end(), axis);
      return at == order.end() ? kMixed : static_cast<int>(at - order.begin());
    }
    if (op == "Flatten") return axis == 0 && normal(node.attr_int("axis", 1)) == 1 ? 0 : kMixed;
    if (op == "Unsqueeze" || op == "Squeeze") return squeezed(node);
    if (op == "Slice" || op == "Pad") return sliced(node);
    if (op == "QuantizeLinear" || op == "DequantizeLinear") {
      const ValueId scale = node.input(1);
      if (!has_rank(scale)) return kMixed;
      if (rank(scale) == 0) return axis;
      const bool blocked = node.attr_int("block_size", 0) != 0;
      return !blocked && normal(node.attr_int("axis", 1)) != axis ? axis : kMixed;
    }
    return kMixed;
  }

  int product(const Node& node) const {
    const ValueId a = node.input(0);
    const ValueId b = node.input(1);
    const ValueId out = node.output(0);
    if (!are_free(node, 2) || !has_rank(a) || !has_rank(b) || !has_rank(out)) return kMixed;
    if (rank(a) < 2 || rank(b) < 2) return kMixed;
    const int last = rank(out) - 1;
    if (kind(a) == rank(a) - 1 || kind(b) == rank(b) - 2) return kMixed;  // summed over
    if (kind(a) == rank(a) - 2) return kind(b) == kFree ? last - 1 : kMixed;
    if (kind(b) == rank(b) - 1) return kind(a) == kFree ? last : kMixed;
    return broadcast({a, b}, rank(out));
  }

  int gemm(const Node& node) const {
    const ValueId a = node.input(0);
    const bool over_rows = node.attr_int("transA", 0) != 0 ? kind(a) == 1 : kind(a) == 0;
    if (!over_rows || !are_free(node, 1)) return kMixed;
    const ValueId c = node.input(2);
    if (!c.valid()) return 0;
    if (!has_rank(c)) return kMixed;
    return rank(c) < 2 || graph_.type(c).shape->front() == Dim(1) ? 0 : kMixed;
  }

  int gather(const Node& node) const {
    const ValueId data = node.input(0);
    const ValueId indices = node.input(1);
    if (!has_rank(data) || !has_rank(indices)) return kMixed;
    const std::int64_t given = node.attr_int("axis", 0);
    const int axis = static_cast<int>(given < 0 ? given + rank(data) : given);
    if (kind(data) == kFree) return axis + kind(indices);
    if (kind(indices) != kFree || kind(data) == axis) return kMixed;
    return kind(data) < axis ? kind(data) : kind(data) + rank(indices) - 1;
  }

  int concat(const Node& node) const {
    const int axis = kind(node.input(0));
    for (const ValueId v : node.inputs) {
      if (axis < 0 || kind(v) != axis || !has_rank(v)) return kMixed;
    }
    const std::int64_t along = node.attr_int("axis", 0);
    return (along < 0 ? along + rank(node.input(0)) : along) != axis ? axis : kMixed;
  }

  int recurrent(const Node& node) {
    if (node.attr_int("layout", 0) != 0 || kind(node.input(0)) != 1) return kMixed;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (!v.valid()) continue;
      const int wanted = i == 4 ? 0 : i == 5 || i == 6 ? 1 : kFree;  // lengths; first states
      if (kind(v) != wanted) return kMixed;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) kind(node.outputs[i]) = i == 0 ? 2 : 1;
    }
    return kGivenAlready;
  }

  int reduction(const Node& node) const {
    const ValueId x = node.input(0);
    Ints axes;
    if (node.op.starts_with("Arg")) {
      axes = {node.attr_int("axis", 0)};
    } else if (node.input(1).valid()) {
      const std::optional<Ints> given = integers(node.input(1));
      if (!given) return kMixed;
      axes = *given;
    } else {
      axes = node.attr_ints("axes");
    }
    if (axes.empty()) return kMixed;
    int before = 0;
    for (const std::int64_t a : axes) {
      const std::int64_t axis = a < 0 ? a + rank(x) : a;
      if (axis == kind(x)) return kMixed;
      before += axis < kind(x) ? 1 : 0;
    }
    return node.attr_int("keepdims", 1) != 0 ? kind(x) : kind(x) - before;
  }

  int squeezed(const Node& node) const {
    const ValueId x = node.input(0);
    const ValueId out = node.output(0);
    std::optional<Ints> axes = integers(node.input(1));
    if (!axes || !has_rank(out)) return kMixed;
    const bool adds = node.op == "Unsqueeze";
    const int counted = adds ? rank(out) : rank(x);
    for (std::int64_t& a : *axes) a = a < 0 ? a + counted : a;
    std::sort(axes->begin(), axes->end());
    int axis = kind(x);
    for (const std::int64_t a : *axes) {
      if (adds && a <= axis) ++axis;
    }
    if (adds) return axis;
    if (std::find(axes->begin(), axes->end(), axis) != axes->end()) return kMixed;
    return axis - static_cast<int>(std::count_if(axes->begin(), axes->end(),
                                                 [&](std::int64_t a) { return a < axis; }));
  }

  // Slice and Pad leave the rows alone where they name other axes.
  int sliced(const Node& node) const {
    const ValueId x = node.input(0);
    const std::optional<Ints> axes = integers(node.input(3));
    if (!axes) return kMixed;
    for (const std::int64_t a : *axes) {
      if ((a < 0 ? a + rank(x) : a) == kind(x)) return kMixed;
    }
    return kind(x);
  }

  // The number of elements between two axes; nothing where it is not known.
  static std::optional<std::int64_t> elements(const Shape& shape, std::size_t from,
                                              std::size_t to) {
    std::int64_t count = 1;
    for (std::size_t d = from; d < to; ++d) {
      if (!shape[d].is_known()) return std::nullopt;
      count *= shape[d].value();
    }
    return count;
  }

  int reshape(const Node& node) const {
    const ValueId x = node.input(0);
    const ValueId out = node.output(0);
    if (kind(x) < 0 || !has_rank(x) || !has_rank(out)) return kMixed;
    const Shape& from = *graph_.type(x).shape;
    const Shape& to = *graph_.type(out).shape;
    if (std::count(to.begin(), to.end(), rows_) != 1) return kMixed;
    const auto axis = static_cast<std::size_t>(kind(x));
    const auto at = static_cast<std::size_t>(position_of_rows(graph_.type(out)));
    const auto before = elements(from, 0, axis);
    const auto after = elements(from, axis + 1, from.size());
    const bool fits = before && after && before == elements(to, 0, at) &&
                      after == elements(to, at + 1, to.size());
    return fits ? static_cast<int>(at) : kMixed;
  }

  int expand(const Node& node) const {
    const ValueId x = node.input(0);
    const ValueId out = node.output(0);
    if (kind(x) < 0 || !has_rank(x) || !has_rank(out)) return kMixed;
    return kind(x) + rank(out) - rank(x);
  }

  const Graph& graph_;
  const Dim rows_;
  std::vector<int> kinds_;
};

}  // namespace

RowWise row_wise(const Graph& graph, const std::string& dimension) {
  return Analysis(graph, dimension).run();
}

}  // namespace xrt
