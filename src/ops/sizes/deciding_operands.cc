// SPDX-License-Identifier: Apache-2.0
#include "ops/sizes/deciding_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/half.h"
#include "ops/op_facts.h"

namespace xrt {
namespace {

using enum Decides;
using Sizes = std::vector<std::int64_t>;

// Sorted by op.
constexpr auto kDecidingOperands = std::to_array<DecidingOperand>({
    {.op = "AffineGrid", .operand = 1, .decides = kSizes, .shapes = true},
    {.op = "ArrayFeatureExtractor",
     .operand = 1,
     .decides = kRow,
     .otherwise = -1,
     .domain = "ai.onnx.ml"},
    {.op = "Attention", .operand = 6, .decides = kLength, .otherwise = -2, .of = 1},
    {.op = "BlackmanWindow", .operand = 0, .decides = kSizes, .shapes = true},
    {.op = "CenterCropPad", .operand = 1, .decides = kSizes, .shapes = true},
    {.op = "Col2Im", .operand = 1, .decides = kSizes, .shapes = true},
    {.op = "Col2Im", .operand = 2, .decides = kSizes, .shapes = true},
    {.op = "Compress", .operand = 1, .decides = kMask, .axis = "axis"},
    {.op = "ConstantOfShape", .operand = 0, .decides = kSizes, .shapes = true},
    {.op = "CumProd", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "CumSum", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "DFT", .operand = 1, .decides = kSizes, .shapes = true},
    {.op = "DFT", .operand = 2, .decides = kAxes, .shapes = true},
    {.op = "Expand", .operand = 1, .decides = kSizes, .shapes = true},
    {.op = "GRU", .operand = 4, .decides = kLength, .axis = "layout"},
    {.op = "Gather", .operand = 1, .decides = kIndex, .axis = "axis"},
    {.op = "GatherElements", .operand = 1, .decides = kIndex, .axis = "axis"},
    {.op = "GatherND", .operand = 1, .decides = kCoordinates},
    {.op = "HammingWindow", .operand = 0, .decides = kSizes, .shapes = true},
    {.op = "HannWindow", .operand = 0, .decides = kSizes, .shapes = true},
    {.op = "If", .operand = 0, .decides = kOne},
    {.op = "LSTM", .operand = 4, .decides = kLength, .axis = "layout"},
    {.op = "Loop", .operand = 0, .decides = kOne},
    {.op = "Loop", .operand = 1, .decides = kOne},
    {.op = "MaxUnpool", .operand = 1, .decides = kPlace},
    {.op = "MaxUnpool", .operand = 2, .decides = kSizes, .shapes = true},
    {.op = "NegativeLogLikelihoodLoss", .operand = 1, .decides = kLabel},
    {.op = "OneHot", .operand = 1, .decides = kSizes, .shapes = true},
    {.op = "Pad", .operand = 1, .decides = kAmounts, .shapes = true},
    {.op = "Pad", .operand = 3, .decides = kAxes, .shapes = true},
    {.op = "RNN", .operand = 4, .decides = kLength, .axis = "layout"},
    {.op = "Range", .operand = 0, .decides = kFinite, .shapes = true},
    {.op = "Range", .operand = 1, .decides = kFinite, .shapes = true},
    {.op = "Range", .operand = 2, .decides = kSteps, .shapes = true},
    {.op = "ReduceL1", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "ReduceL2", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "ReduceLogSum", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "ReduceLogSumExp", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "ReduceMax", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "ReduceMean", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "ReduceMin", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "ReduceProd", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "ReduceSum", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "ReduceSumSquare", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "Reshape", .operand = 1, .decides = kShape, .shapes = true},
    {.op = "Resize", .operand = 2, .decides = kScales, .shapes = true},
    {.op = "Resize", .operand = 3, .decides = kSizes, .shapes = true},
    {.op = "ReverseSequence", .operand = 1, .decides = kLength, .axis = "time_axis"},
    {.op = "RoiAlign", .operand = 1, .decides = kFinite},
    {.op = "RoiAlign", .operand = 2, .decides = kRow},
    {.op = "RotaryEmbedding", .operand = 3, .decides = kRow, .of = 1},
    {.op = "STFT", .operand = 1, .decides = kSizes, .shapes = true},
    {.op = "STFT", .operand = 3, .decides = kSizes, .shapes = true},
    {.op = "ScatterElements", .operand = 1, .decides = kIndex, .axis = "axis"},
    {.op = "ScatterND", .operand = 1, .decides = kCoordinates},
    {.op = "Slice", .operand = 1, .decides = kBounds, .shapes = true},
    {.op = "Slice", .operand = 2, .decides = kBounds, .shapes = true},
    {.op = "Slice", .operand = 3, .decides = kAxes, .shapes = true},
    {.op = "Slice", .operand = 4, .decides = kSteps, .shapes = true},
    {.op = "SoftmaxCrossEntropyLoss", .operand = 1, .decides = kLabel},
    {.op = "Split", .operand = 1, .decides = kSizes, .shapes = true},
    {.op = "Squeeze", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "TensorScatter", .operand = 2, .decides = kLength, .axis = "axis", .otherwise = -2},
    {.op = "Tile", .operand = 1, .decides = kSizes, .shapes = true},
    {.op = "TopK",
     .operand = 1,
     .decides = kLength,
     .shapes = true,
     .axis = "axis",
     .otherwise = -1},
    {.op = "Trilu", .operand = 1, .decides = kAmounts},
    {.op = "Unsqueeze", .operand = 1, .decides = kAxes, .shapes = true},
    {.op = "Upsample", .operand = 1, .decides = kScales, .shapes = true},
});
static_assert(std::is_sorted(kDecidingOperands.begin(), kDecidingOperands.end(),
                             [](const DecidingOperand& a, const DecidingOperand& b) {
                               return a.op < b.op;
                             }));

// The sizes of `count` axes from `first` on; nothing where one of them is not known.
std::optional<Sizes> sizes_of(const Type& data, std::int64_t first, std::int64_t count) {
  if (!data.has_rank() || first < 0 || count < 1) return std::nullopt;
  if (first + count > static_cast<std::int64_t>(data.rank())) return std::nullopt;
  Sizes sizes;
  for (std::int64_t axis = first; axis < first + count; ++axis) {
    const Dim& dim = (*data.shape)[static_cast<std::size_t>(axis)];
    if (!dim.is_known()) return std::nullopt;
    sizes.push_back(dim.value());
  }
  return sizes;
}

// How many elements it has.
std::optional<Sizes> count_of(const Type& data) {
  const auto dims = data.static_dims();
  if (!dims) return std::nullopt;
  std::int64_t count = 1;
  for (const std::int64_t dim : *dims) count *= dim;
  return Sizes{count};
}

bool keeps_integers(const Graph& graph, const Node& node, bool in_order) {
  const Moves moves = op_facts(node).moves;
  if (moves == Moves::kView) return true;
  if (moves == Moves::kPermute || moves == Moves::kRepeat) return !in_order;
  if (!node.domain.empty() || node.op != "Cast") return false;
  const DType from = graph.type(node.inputs.at(0)).dtype;
  const DType to = graph.type(node.outputs.at(0)).dtype;
  if (from == DType::kInt32) return to == DType::kInt32 || to == DType::kInt64;
  return from == DType::kInt64 && to == DType::kInt64;
}

// The axis that the operand is about, counted from the front.
std::int64_t axis_of(const Node& node, const DecidingOperand& operand, const Type& data) {
  const std::int64_t axis =
      operand.axis.empty() ? operand.otherwise : node.attr_int(operand.axis, operand.otherwise);
  return axis < 0 && data.has_rank() ? axis + static_cast<std::int64_t>(data.rank()) : axis;
}

// --- elements ------------------------------------------------------------------------------------

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

struct Interval {
  std::int64_t least, most;
};

Interval allowed(Decides decides, std::int64_t size) {
  switch (decides) {
    case kAxes:
    case kIndex:
    case kCoordinates:
      return {-size, size - 1};
    case kRow:
    case kPlace:
      return {0, size - 1};
    case kLength:
      return {0, size};
    case kSizes:
      return {0, kMost};
    case kShape:
      return {-1, kMost};
    case kAmounts:
      return {-kMost, kMost};
    default:
      return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  }
}

std::string said(Decides decides, std::int64_t value, std::int64_t size) {
  switch (decides) {
    case kAxes:
      return fmt::format("axis {} is outside a tensor of rank {}", value, size);
    case kIndex:
    case kCoordinates:
    case kRow:
      return fmt::format("index {} is outside an axis of size {}", value, size);
    case kPlace:
      return fmt::format("index {} is outside a result of {} elements", value, size);
    case kLength:
      return fmt::format("{} is more than an axis of size {} has, or less than 0", value, size);
    default:
      return fmt::format("{} is no size that a result can have", value);
  }
}

template <typename T>
std::optional<std::string> integers_refusal(std::span<const T> values, Decides decides,
                                            std::span<const std::int64_t> sizes) {
  if (decides == kSteps) {
    const bool any = std::find(values.begin(), values.end(), T{0}) != values.end();
    return any ? std::optional<std::string>("a step is 0") : std::nullopt;
  }
  if (decides == kLabel) {
    const std::int64_t classes = sizes[0], ignored = sizes[1];
    const auto wrong = std::find_if(values.begin(), values.end(), [&](T label) {
      return (label < -classes || label >= classes) && label != ignored;
    });
    if (wrong == values.end()) return std::nullopt;
    return said(kIndex, *wrong, classes);
  }
  const std::size_t axes = std::max<std::size_t>(sizes.size(), 1);
  const auto interval = [&](std::size_t i) {
    return allowed(decides, sizes.empty() ? 0 : sizes[i % axes]);
  };
  const auto is_wrong = [&](std::size_t i) {
    const auto [least, most] = interval(i);
    return values[i] < least || values[i] > most;
  };
  bool fit = true;
  if (axes == 1) {  // without a division per index
    const auto [least, most] = interval(0);
    for (const T value : values) fit &= value >= least && value <= most;
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) fit &= !is_wrong(i);
  }
  if (fit) return std::nullopt;
  std::size_t i = 0;
  while (!is_wrong(i)) ++i;
  return said(decides, values[i], sizes.empty() ? 0 : sizes[i % axes]);
}

// The elements of an integer tensor; those that are larger than int64 has, as its largest.
std::vector<std::int64_t> widened(const Tensor& tensor) {
  std::vector<std::int64_t> values;
  const auto read = [&](const auto* from) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      const bool fits = std::in_range<std::int64_t>(from[i]);
      values.push_back(fits ? static_cast<std::int64_t>(from[i])
                            : std::numeric_limits<std::int64_t>::max());
    }
  };
  if (tensor.dtype() == DType::kInt8) read(tensor.data<std::int8_t>());
  if (tensor.dtype() == DType::kInt16) read(tensor.data<std::int16_t>());
  if (tensor.dtype() == DType::kUInt8) read(tensor.data<std::uint8_t>());
  if (tensor.dtype() == DType::kUInt16) read(tensor.data<std::uint16_t>());
  if (tensor.dtype() == DType::kUInt32) read(tensor.data<std::uint32_t>());
  if (tensor.dtype() == DType::kUInt64) read(tensor.data<std::uint64_t>());
  return values;
}

// The elements of a tensor of float32, float64, float16 or bfloat16; none of others.
std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> values;
  const auto read = [&](auto* from, auto&& convert) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) values.push_back(convert(from[i]));
  };
  const auto same = [](auto value) { return static_cast<double>(value); };
  if (tensor.dtype() == DType::kFloat32) read(tensor.data<float>(), same);
  if (tensor.dtype() == DType::kFloat64) read(tensor.data<double>(), same);
  if (tensor.dtype() == DType::kFloat16) {
    read(tensor.data<std::uint16_t>(),
         [](std::uint16_t bits) { return static_cast<double>(half_to_float(bits)); });
  }
  if (tensor.dtype() == DType::kBFloat16) {
    read(tensor.data<std::uint16_t>(), [](std::uint16_t bits) {
      return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16));
    });
  }
  return values;
}

std::optional<std::string> floats_refusal(const Tensor& tensor, Decides decides) {
  for (const double value : numbers(tensor)) {
    if (!std::isfinite(value)) return fmt::format("{} is no finite number", value);
    if (decides == kScales && value <= 0) return fmt::format("the scale {} is not positive", value);
    if (decides == kSteps && value == 0) return "a step is 0";
  }
  return std::nullopt;
}

std::optional<std::string> mask_refusal(const Tensor& tensor, std::span<const std::int64_t> sizes) {
  if (sizes.empty()) return std::nullopt;
  const auto* values = tensor.data<std::uint8_t>();
  for (std::int64_t i = sizes[0]; i < tensor.count(); ++i) {
    if (values[i] != 0) return said(kIndex, i, sizes[0]);
  }
  return std::nullopt;
}

// --- what is computed ----------------------------------------------------------------------------

enum class Source : std::uint8_t { kUnknown, kSizes, kData };

// What values are made of: constants and sizes alone, or elements of tensors.
class Sources {
 public:
  explicit Sources(const Graph& graph) : graph_(graph), of_(graph.value_capacity()) {
    for (const NodeId id : graph.topological_order()) {
      const Node& node = graph.node(id);
      const bool names_sizes = node.domain.empty() && (node.op == "Shape" || node.op == "Size");
      bool from_sizes = names_sizes;
      if (!names_sizes && Graph::subgraphs(node).empty()) {
        from_sizes = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId v) { return !v.valid() || of(v) == Source::kSizes; });
      }
      if (node.op.starts_with("Random") || node.op == "Multinomial") from_sizes = false;
      for (const ValueId v : node.outputs) {
        if (v.valid()) at(v) = from_sizes ? Source::kSizes : Source::kData;
      }
    }
  }

  Source of(ValueId v) const {
    if (graph_.value(v).origin == Origin::kConstant) return Source::kSizes;
    return graph_.value(v).origin == Origin::kNode ? of_[static_cast<std::size_t>(v.index)]
                                                   : Source::kData;
  }

 private:
  Source& at(ValueId v) { return of_[static_cast<std::size_t>(v.index)]; }

  const Graph& graph_;
  std::vector<Source> of_;
};

// Whether all elements are positions in an axis that is no longer than this one of `data`: what
// ArgMax, ArgMin and TopK give, whatever was selected and moved since.
bool is_position(const Graph& graph, ValueId value, ValueId data, std::int64_t axis) {
  const Dim& size = (*graph.type(data).shape)[static_cast<std::size_t>(axis)];
  while (graph.value(value).origin == Origin::kNode) {
    const Node& node = graph.node(graph.value(value).producer);
    if (!node.domain.empty() || !node.input(0).valid()) return false;
    const bool top = node.op == "TopK" && graph.value(value).output_index == 1;
    if (top || node.op == "ArgMax" || node.op == "ArgMin") {
      const Type& searched = graph.type(node.inputs[0]);
      if (!searched.has_rank() || searched.rank() == 0) return false;
      std::int64_t at = node.attr_int("axis", top ? -1 : 0);
      if (at < 0) at += static_cast<std::int64_t>(searched.rank());
      if (at < 0 || at >= static_cast<std::int64_t>(searched.rank())) return false;
      if (node.inputs[0] == data && at == axis) return true;
      const Dim& from = (*searched.shape)[static_cast<std::size_t>(at)];
      if (from.is_known() && size.is_known()) return from.value() <= size.value();
      return from.is_symbol() && from == size;
    }
    if (op_facts(node).moves == Moves::kNo && !keeps_integers(graph, node, false)) return false;
    value = node.inputs[0];
  }
  return false;
}

// Whether they are the indices of a MaxPool over no more elements than the node's result has.
bool is_place(const Graph& graph, const Node& node, ValueId value) {
  if (graph.value(value).origin != Origin::kNode) return false;
  const Node& pool = graph.node(graph.value(value).producer);
  if (!pool.domain.empty() || pool.op != "MaxPool") return false;
  const auto pooled = count_of(graph.type(pool.inputs.at(0)));
  const auto made = count_of(graph.type(node.outputs.at(0)));
  return pooled && made && (*pooled)[0] <= (*made)[0];
}

bool is_in_range(const Graph& graph, const Node& node, const DecidingOperand& operand, ValueId v) {
  if (operand.decides == kPlace) return is_place(graph, node, v);
  if (operand.decides != kIndex) return false;
  if (!node.input(operand.of).valid()) return false;
  const ValueId data = node.inputs[operand.of];
  const Type& type = graph.type(data);
  const std::int64_t axis = axis_of(node, operand, type);
  if (!type.has_rank() || axis < 0 || axis >= static_cast<std::int64_t>(type.rank())) return false;
  return is_position(graph, v, data, axis);
}

// Nobody knows the size of the result before the node has run.
bool is_sized_by_data(const Graph& graph, ValueId v) {
  constexpr auto kOps =
      std::to_array<std::string_view>({"Compress", "NonMaxSuppression", "NonZero", "Unique"});
  if (graph.value(v).origin != Origin::kNode || graph.type(v).is_static()) return false;
  const Node& maker = graph.node(graph.value(v).producer);
  return maker.domain.empty() && std::find(kOps.begin(), kOps.end(), maker.op) != kOps.end();
}

// How often a Loop's body runs at most, where a constant says so.
std::optional<std::int64_t> most_turns(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || node.op != "Loop" || !node.input(0).valid()) return std::nullopt;
  const Tensor* count = graph.constant(node.inputs[0]);
  if (count == nullptr || count->count() != 1) return std::nullopt;
  return count->to_int64().front();
}

// Whether it is the number of a Loop's turn, and no turn is beyond the axis.
bool is_turn_in_range(const Graph& body, const Node& node, const DecidingOperand& operand,
                      ValueId value, std::optional<std::int64_t> turns) {
  if (!turns || operand.decides != kIndex) return false;
  const auto from = origin_of(body, value, /*in_order=*/false);
  if (!from || body.inputs().empty() || *from != body.inputs().front()) return false;
  const auto sizes = deciding_sizes(body, node, operand);
  return sizes && *turns <= sizes->front();
}

// Loops are known by their counts, not by where they came from.
bool wants_border(const DecidingOperand& operand) { return operand.decides != kOne; }

}  // namespace

std::span<const DecidingOperand> all_deciding_operands() { return kDecidingOperands; }

std::string_view wanted_of(Decides decides) {
  switch (decides) {
    case kIndex:
      return "from -n to n - 1, of an axis with n elements";
    case kCoordinates:
      return "in each row an index per axis, from -n to n - 1";
    case kLabel:
      return "from -n to n - 1, of n classes, or `ignore_index`";
    case kRow:
      return "from 0 to n - 1, of an axis with n elements";
    case kPlace:
      return "from 0 to n - 1, of a result with n elements";
    case kLength:
      return "from 0 to n, of an axis with n elements";
    case kMask:
      return "true for elements of the axis only";
    case kSizes:
      return "from 0 to 2³¹ - 1";
    case kShape:
      return "from 0 to 2³¹ - 1, or -1 for what is left over";
    case kAmounts:
      return "from -(2³¹ - 1) to 2³¹ - 1";
    case kBounds:
      return "any number: beyond the axis means its end";
    case kSteps:
      return "any finite number but 0";
    case kAxes:
      return "from -rank to rank - 1";
    case kScales:
      return "finite and larger than 0";
    case kFinite:
      return "finite";
    case kOne:
      return "a tensor of one element";
  }
  return {};
}

std::span<const DecidingOperand> deciding_operands(const Node& node) {
  struct ByOp {
    bool operator()(const DecidingOperand& fact, std::string_view op) const { return fact.op < op; }
    bool operator()(std::string_view op, const DecidingOperand& fact) const { return op < fact.op; }
  };
  const auto [first, last] = std::equal_range(kDecidingOperands.begin(), kDecidingOperands.end(),
                                              std::string_view(node.op), ByOp{});
  if (first != last && first->domain != node.domain) return {};
  return {first, last};
}

std::optional<Sizes> deciding_sizes(const Graph& graph, const Node& node,
                                    const DecidingOperand& operand) {
  if (!node.input(operand.of).valid()) return std::nullopt;
  const Type& data = graph.type(node.inputs[operand.of]);
  switch (operand.decides) {
    case kCoordinates: {
      const Type& indices = graph.type(node.inputs.at(1));
      if (!indices.has_rank() || indices.rank() == 0 || !indices.shape->back().is_known()) {
        return std::nullopt;
      }
      return sizes_of(data, node.attr_int("batch_dims", 0), indices.shape->back().value());
    }
    case kLabel: {
      auto sizes = sizes_of(data, 1, 1);
      if (sizes) sizes->push_back(node.attr_int("ignore_index", 0));
      return sizes;
    }
    case kAxes: {
      // Those of Unsqueeze are the result's.
      const Type& whole = node.op == "Unsqueeze" ? graph.type(node.outputs.at(0)) : data;
      if (!whole.has_rank()) return std::nullopt;
      return Sizes{std::max<std::int64_t>(static_cast<std::int64_t>(whole.rank()), 1)};
    }
    case kIndex:
    case kRow:
      return sizes_of(data, axis_of(node, operand, data), 1);
    case kLength: {
      auto sizes = sizes_of(data, axis_of(node, operand, data), 1);
      if (!sizes || node.op != "TensorScatter") return sizes;
      if (node.attr_string("mode", "linear") == "circular")
        return sizes;  // what is beyond begins anew
      // All that is written has to fit.
      const auto written = sizes_of(graph.type(node.inputs.at(1)), axis_of(node, operand, data), 1);
      if (!written) return std::nullopt;
      sizes->front() -= written->front();
      return sizes;
    }
    case kMask:
      if (node.has(operand.axis)) return sizes_of(data, axis_of(node, operand, data), 1);
      return count_of(data);
    case kPlace:
      return count_of(graph.type(node.outputs.at(0)));
    default:
      return Sizes{};
  }
}

std::optional<std::string> refusal(const Tensor& tensor, Decides decides,
                                   std::span<const std::int64_t> sizes) {
  if (decides == kOne) {
    if (tensor.count() == 1) return std::nullopt;
    return fmt::format("a count or condition of shape {} is not one element",
                       to_string(tensor.dims()));
  }
  if (decides == kMask) return mask_refusal(tensor, sizes);
  if (decides == kBounds || (decides == kAxes && sizes.empty())) return std::nullopt;
  const auto count = static_cast<std::size_t>(tensor.count());
  if (tensor.dtype() == DType::kInt64) {
    return integers_refusal(std::span(tensor.data<std::int64_t>(), count), decides, sizes);
  }
  if (tensor.dtype() == DType::kInt32) {
    return integers_refusal(std::span(tensor.data<std::int32_t>(), count), decides, sizes);
  }
  if (is_floating(tensor.dtype())) return floats_refusal(tensor, decides);
  const std::vector<std::int64_t> values = widened(tensor);
  return integers_refusal(std::span(values), decides, sizes);
}

std::optional<ValueId> origin_of(const Graph& graph, ValueId value, bool in_order) {
  while (graph.value(value).origin == Origin::kNode) {
    const Node& node = graph.node(graph.value(value).producer);
    if (!node.input(0).valid() || !keeps_integers(graph, node, in_order)) return std::nullopt;
    value = node.inputs[0];
  }
  return value;
}

std::vector<ComputedOperand> computed_operands(const Graph& graph) {
  std::vector<ComputedOperand> found;
  std::optional<Sources> sources;
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    for (const DecidingOperand& operand : deciding_operands(node)) {
      const ValueId v = node.input(operand.operand);
      if (!v.valid() || !wants_border(operand)) continue;
      if (graph.value(v).origin != Origin::kNode) continue;
      if (!sources) sources.emplace(graph);
      if (sources->of(v) == Source::kSizes || is_in_range(graph, node, operand, v)) continue;
      if (origin_of(graph, v, /*in_order=*/true)) continue;
      found.push_back({graph.value(v).producer, id});
    }
    for (const ValueId v : node.inputs) {
      if (v.valid() && is_sized_by_data(graph, v)) found.push_back({graph.value(v).producer, id});
    }
  }
  return found;
}

std::vector<SizedOperand> sized_operands(const Graph& graph) {
  std::vector<SizedOperand> found;
  std::optional<Sources> sources;
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    for (const DecidingOperand& operand : deciding_operands(node)) {
      const ValueId v = node.input(operand.operand);
      if (!v.valid() || operand.shapes || graph.value(v).origin != Origin::kNode) continue;
      if (!sources) sources.emplace(graph);
      if (sources->of(v) != Source::kSizes || is_in_range(graph, node, operand, v)) continue;
      if (!origin_of(graph, v, /*in_order=*/true)) found.push_back({id, operand});
    }
  }
  return found;
}

bool leaves_operands_unseen(const Graph& graph, const Node& node) {
  struct Body {
    const Graph* graph;
    std::optional<std::int64_t> turns;  // of a Loop, whose body is told the turn
  };
  std::vector<Body> bodies;
  const auto add_bodies = [&](const Graph& around, const Node& of) {
    const auto turns = most_turns(around, of);
    for (const Graph* body : Graph::subgraphs(of)) bodies.push_back({body, turns});
  };
  add_bodies(graph, node);
  while (!bodies.empty()) {
    const Graph* const body = bodies.back().graph;
    const std::optional<std::int64_t> turns = bodies.back().turns;
    bodies.pop_back();
    std::optional<Sources> sources;
    for (const NodeId id : body->nodes()) {
      const Node& inner = body->node(id);
      add_bodies(*body, inner);
      if (std::any_of(inner.inputs.begin(), inner.inputs.end(),
                      [&](ValueId v) { return v.valid() && is_sized_by_data(*body, v); })) {
        return true;
      }
      for (const DecidingOperand& operand : deciding_operands(inner)) {
        const ValueId v = inner.input(operand.operand);
        if (!v.valid() || !wants_border(operand)) continue;
        if (const Tensor* constant = body->constant(v)) {
          const auto sizes = deciding_sizes(*body, inner, operand);
          if (!sizes || refusal(*constant, operand.decides, *sizes)) return true;
          continue;
        }
        if (!sources) sources.emplace(*body);
        if (operand.shapes && sources->of(v) == Source::kSizes) continue;
        if (is_in_range(*body, inner, operand, v)) continue;
        if (is_turn_in_range(*body, inner, operand, v, turns)) continue;
        return true;
      }
    }
  }
  return false;
}

}  // namespace xrt
