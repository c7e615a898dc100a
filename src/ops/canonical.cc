// SPDX-License-Identifier: Apache-2.0
#include "ops/canonical.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/rewrite.h"
#include "ops/axes.h"
#include "ops/own_ops.h"
#include "ops/schema.h"
#include "ops/sizes/padding.h"

namespace xrt {
namespace {

using Numbers = std::vector<std::int64_t>;

// --- windows ------------------------------------------------------------------------------------

struct WindowOp {
  std::string_view op = {}, domain = {};
  int weights = -1;  // the input that gives kernel_shape where the attribute does not
  bool dilations = true;
  bool transposed = false;
};

constexpr auto kWindowOps = std::to_array<WindowOp>({
    {.op = "AveragePool"},
    {.op = "Conv", .weights = 1},
    {.op = "ConvInteger", .weights = 1},
    {.op = "ConvTranspose", .weights = 1, .transposed = true},
    {.op = "ConvWeightGradient", .domain = kOwnDomain},
    {.op = "DeformConv", .weights = 1},
    {.op = "LpPool"},
    {.op = "MaxPool"},
    {.op = "MaxPoolGradient", .domain = kOwnDomain},
    {.op = "MaxUnpool", .dilations = false},
    {.op = "QLinearConv", .weights = 3},
});

const WindowOp* window_op(const Node& node) {
  const auto* found = std::find_if(kWindowOps.begin(), kWindowOps.end(), [&](const WindowOp& w) {
    return w.op == node.op && w.domain == node.domain;
  });
  return found == kWindowOps.end() ? nullptr : found;
}

std::optional<Numbers> kernel_of(const Graph& graph, const Node& node, const WindowOp& op,
                                 std::size_t spatial) {
  Numbers kernel = node.attr_ints("kernel_shape");
  if (kernel.empty() && op.weights >= 0) {
    const ValueId weights = node.input(static_cast<std::size_t>(op.weights));
    const auto dims = weights.valid() ? graph.type(weights).static_dims() : std::nullopt;
    if (!dims || dims->size() != spatial + 2) return std::nullopt;
    kernel.assign(dims->begin() + 2, dims->end());
  }
  if (kernel.size() != spatial) return std::nullopt;
  return kernel;
}

bool is_positive(const Numbers& values) {
  return std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v > 0; });
}

// Numbers beyond this are refused by whoever computes with them; here they must not overflow.
bool is_sane(const Numbers& values) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  return std::all_of(values.begin(), values.end(),
                     [](std::int64_t v) { return v >= -kMost && v <= kMost; });
}

// A node whose attributes are set when they are complete: one that is not stays as it is.
class Window {
 public:
  Window(const Graph& graph, const Node& node, const WindowOp& op)
      : graph_(graph), node_(node), op_(op) {}

  CanonicalWindow run() {
    work_out();
    return std::move(canonical_);
  }

 private:
  void work_out() {
    const AutoPad mode = auto_pad(node_);
    if (node_.has("auto_pad") && mode == AutoPad::kNotSet)
      canonical_.removed.emplace_back("auto_pad");
    const ValueId x = node_.input(0);
    if (!x.valid() || !graph_.type(x).has_rank() || graph_.type(x).rank() < 3) return;
    shape_ = &*graph_.type(x).shape;
    n_ = shape_->size() - 2;
    const Numbers strides = node_.attr_ints("strides", Numbers(n_, 1));
    const Numbers dilations = node_.attr_ints("dilations", Numbers(n_, 1));
    const Numbers extra = node_.attr_ints("output_padding", Numbers(n_, 0));
    Numbers pads = node_.attr_ints("pads", Numbers(2 * n_, 0));
    if (strides.size() != n_ || dilations.size() != n_ || extra.size() != n_ ||
        pads.size() != 2 * n_ || !is_positive(strides) || !is_positive(dilations)) {
      return;
    }
    put("strides", strides);
    if (op_.dilations) put("dilations", dilations);
    const auto kernel = kernel_of(graph_, node_, op_, n_);
    if (kernel) put("kernel_shape", *kernel);
    if (mode == AutoPad::kValid) pads.assign(2 * n_, 0);
    const bool sized = op_.transposed && node_.has("output_shape");
    if (is_same(mode) || sized) {
      if (!kernel || !is_positive(*kernel) || !is_sane(*kernel) || !is_sane(strides) ||
          !is_sane(dilations) || !is_sane(extra)) {
        return;
      }
      const bool known =
          op_.transposed ? resolve_transposed(mode, *kernel, strides, dilations, extra, sized, pads)
                         : resolve(mode, *kernel, strides, dilations, pads);
      if (!known) return;
    } else if (op_.transposed) {
      put("output_padding", extra);
    }
    if (mode != AutoPad::kNotSet) canonical_.removed.emplace_back("auto_pad");
    put("pads", pads);
  }

  void put(const char* name, const Numbers& values) { canonical_.set.emplace_back(name, values); }

  std::optional<std::int64_t> size(std::size_t axis) const {
    const Dim& dim = (*shape_)[axis + 2];
    return dim.is_known() ? std::optional(dim.value()) : std::nullopt;
  }

  bool resolve(AutoPad mode, const Numbers& kernel, const Numbers& strides,
               const Numbers& dilations, Numbers& pads) const {
    for (std::size_t i = 0; i < n_; ++i) {
      const auto known = size(i);
      if (!known && strides[i] != 1) return false;
      const AxisPadding padding =
          same_padding(mode, known.value_or(0), (kernel[i] - 1) * dilations[i] + 1, strides[i]);
      pads[i] = padding.begin;
      pads[i + n_] = padding.end;
    }
    return true;
  }

  bool resolve_transposed(AutoPad mode, const Numbers& kernel, const Numbers& strides,
                          const Numbers& dilations, Numbers extra, bool sized, Numbers& pads) {
    const Numbers wanted = node_.attr_ints("output_shape");
    if (sized && (wanted.size() != n_ || !is_sane(wanted))) return false;
    for (std::size_t i = 0; i < n_; ++i) {
      const TransposedAxis axis{strides[i], (kernel[i] - 1) * dilations[i] + 1, extra[i]};
      TransposedPadding padding;
      if (sized) {
        const auto known = size(i);
        if (!known || *known > std::int64_t{1} << 31) return false;
        padding = transposed_padding(mode, axis, *known, wanted[i]);
      } else {
        padding = transposed_same_padding(mode, axis);
      }
      pads[i] = padding.begin;
      pads[i + n_] = padding.end;
      extra[i] = padding.output_padding;
    }
    put("output_padding", extra);
    if (sized) canonical_.removed.emplace_back("output_shape");
    return true;
  }

  const Graph& graph_;
  const Node& node_;
  const WindowOp& op_;
  CanonicalWindow canonical_;
  const Shape* shape_ = nullptr;
  std::size_t n_ = 0;
};

bool canonicalize_window(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::optional<CanonicalWindow> window = canonical_window(graph, node);
  if (!window) return false;
  bool changed = false;
  for (auto& [name, values] : window->set) {
    if (node.has(name) && node.attr_ints(name) == values) continue;
    graph.set_attribute(id, name, std::move(values));
    changed = true;
  }
  for (const std::string& name : window->removed) {
    graph.remove_attribute(id, name);
    changed = true;
  }
  return changed;
}

// --- axes ---------------------------------------------------------------------------------------

// True where an axis was counted from the end; axes out of range stay.
bool count_from_front(Numbers& axes, std::int64_t count) {
  bool changed = false;
  for (std::int64_t& axis : axes) {
    if (axis >= 0 || axis < -count) continue;
    axis += count;
    changed = true;
  }
  return changed;
}

bool canonicalize_operand(Graph& graph, NodeId id, const AxisFact& fact, std::int64_t count) {
  const auto index = static_cast<std::size_t>(fact.operand);
  const ValueId operand = graph.node(id).input(index);
  const Tensor* given = operand.valid() ? graph.constant(operand) : nullptr;
  if (given == nullptr || (given->dtype() != DType::kInt64 && given->dtype() != DType::kInt32)) {
    return false;
  }
  Numbers axes = given->to_int64();
  if (!count_from_front(axes, count)) return false;
  Tensor made = Tensor::allocate(given->dtype(), given->dims());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (made.dtype() == DType::kInt64) {
      made.data<std::int64_t>()[i] = axes[i];
    } else {
      made.data<std::int32_t>()[i] = static_cast<std::int32_t>(axes[i]);
    }
  }
  graph.set_input(id, index, graph.add_constant(graph.value(operand).name + "/from_front", made));
  return true;
}

bool canonicalize_axes(Graph& graph, NodeId id) {
  bool changed = false;
  for (const AxisFact& fact : axis_facts(graph.node(id))) {
    const Node& node = graph.node(id);
    const auto count = counted_axes(graph, node, fact);
    if (!count) continue;
    if (fact.attribute.empty()) {
      changed = canonicalize_operand(graph, id, fact, *count) || changed;
      continue;
    }
    const auto found = node.attributes.find(fact.attribute);
    if (found == node.attributes.end()) continue;
    const bool one = std::holds_alternative<std::int64_t>(found->second);
    Numbers axes =
        one ? Numbers{std::get<std::int64_t>(found->second)} : node.attr_ints(fact.attribute);
    if (axes.empty() && node.op == "MeanVarianceNormalization") {
      // To the reductions of its function body no axes are all of them.
      axes.resize(static_cast<std::size_t>(*count));
      std::iota(axes.begin(), axes.end(), 0);
    } else if (!count_from_front(axes, *count)) {
      continue;
    }
    graph.set_attribute(id, fact.attribute, one ? Attribute(axes[0]) : Attribute(std::move(axes)));
    changed = true;
  }
  return changed;
}

// --- defaults -----------------------------------------------------------------------------------

bool write_defaults(Graph& graph, NodeId id) {
  bool changed = false;
  for (const auto& [name, value] : missing_defaults(graph, graph.node(id))) {
    if (is_said_otherwise(name)) continue;
    graph.set_attribute(id, name, value);
    changed = true;
  }
  const Node& node = graph.node(id);
  if (node.domain.empty() && node.op == "Transpose" && !node.has("perm") && node.input(0).valid() &&
      graph.type(node.input(0)).has_rank()) {
    Numbers reversed(graph.type(node.input(0)).rank());
    for (std::size_t i = 0; i < reversed.size(); ++i) {
      reversed[i] = static_cast<std::int64_t>(reversed.size() - 1 - i);
    }
    graph.set_attribute(id, "perm", std::move(reversed));
    changed = true;
  }
  return changed;
}

// --- sizes --------------------------------------------------------------------------------------

// The size that -1 stands for, where the dimensions before are copied and those behind are known:
// of no elements it could not be found. The place of the -1, too.
std::optional<std::pair<std::size_t, std::int64_t>> size_left(const std::vector<Dim>& from,
                                                              const Numbers& to) {
  const auto first = std::find_if(to.begin(), to.end(), [](std::int64_t n) { return n != 0; });
  const auto copied = static_cast<std::size_t>(first - to.begin());
  if (copied == 0 || copied > from.size()) return std::nullopt;
  std::int64_t elements = 1, known = 1;
  for (std::size_t i = copied; i < from.size(); ++i) {
    if (!from[i].is_known() || from[i].value() <= 0) return std::nullopt;
    if (__builtin_mul_overflow(elements, from[i].value(), &elements)) return std::nullopt;
  }
  std::optional<std::size_t> place;
  for (std::size_t i = copied; i < to.size(); ++i) {
    if (to[i] == -1 && !place) {
      place = i;
    } else if (to[i] <= 0 || __builtin_mul_overflow(known, to[i], &known)) {
      return std::nullopt;
    }
  }
  if (!place || elements % known != 0) return std::nullopt;
  return std::pair(*place, elements / known);
}

bool write_size_left(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.domain.empty() || node.op != "Reshape" || node.attr_int("allowzero", 0) != 0) {
    return false;
  }
  const auto& from = graph.type(node.input(0)).shape;
  const Tensor* shape = node.input(1).valid() ? graph.constant(node.input(1)) : nullptr;
  if (!from || shape == nullptr || shape->dtype() != DType::kInt64) return false;
  Numbers to = shape->to_int64();
  const auto left = size_left(*from, to);
  if (!left) return false;
  to[left->first] = left->second;
  const std::string name = graph.value(node.input(1)).name + "/sizes";
  graph.set_input(
      id, 1,
      graph.add_constant(name, Tensor::from<std::int64_t>(DType::kInt64, shape->dims(),
                                                          std::span<const std::int64_t>(to))));
  return true;
}

}  // namespace

// `pads` says it; the schema's list for RNN is that of two directions, whatever the node has.
bool is_said_otherwise(std::string_view attribute) {
  return attribute == "auto_pad" || attribute == "activations";
}

std::optional<CanonicalWindow> canonical_window(const Graph& graph, const Node& node) {
  const WindowOp* op = window_op(node);
  if (op == nullptr) return std::nullopt;
  return Window(graph, node, *op).run();
}

bool canonicalize_node(Graph& graph, NodeId id) {
  bool changed = write_defaults(graph, id);
  changed = canonicalize_window(graph, id) || changed;
  changed = canonicalize_axes(graph, id) || changed;
  changed = write_size_left(graph, id) || changed;
  return changed;
}

bool canonicalize(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.nodes()) {
    changed = canonicalize_node(graph, id) || changed;
    changed = edit_subgraphs(graph, id, canonicalize) || changed;
  }
  return changed;
}

}  // namespace xrt
