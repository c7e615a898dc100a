// SPDX-License-Identifier: Apache-2.0
#include "ops/size_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xrt {
namespace {

using Refusal = std::optional<std::string>;

// The sizes of one node's operands: nothing where they are not all known.
class Operands {
 public:
  Operands(const Graph& graph, const Node& node) : graph_(graph), node(node) {}

  std::optional<Dims> dims(std::size_t i) const {
    const ValueId v = node.input(i);
    if (!v.valid() || !graph_.type(v).is_tensor()) return std::nullopt;
    return graph_.type(v).static_dims();
  }
  std::optional<std::int64_t> count(std::size_t i) const {
    const auto sizes = dims(i);
    if (!sizes) return std::nullopt;
    return elements(*sizes);
  }
  const Tensor* constant(std::size_t i) const {
    return node.input(i).valid() ? graph_.constant(node.input(i)) : nullptr;
  }
  std::optional<Dims> result() const {
    const ValueId v = node.output(0);
    if (!v.valid() || !graph_.type(v).is_tensor()) return std::nullopt;
    return graph_.type(v).static_dims();
  }
  static std::int64_t elements(const Dims& dims) {
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) count *= dim;
    return count;
  }

 private:
  const Graph& graph_;

 public:
  const Node& node;
};

Refusal wants_count(const Operands& o, std::size_t operand, std::int64_t count) {
  const auto given = o.count(operand);
  if (!given || *given == count) return std::nullopt;
  return fmt::format("input {} has {} elements, {} are wanted", operand, *given, count);
}

Refusal broadcasts(const Operands& o, std::size_t from, std::size_t to) {
  const auto a = o.dims(from);
  const auto b = o.dims(to);
  if (!a || !b) return std::nullopt;
  bool fits = a->size() <= b->size();
  for (std::size_t i = 0; fits && i < a->size(); ++i) {
    const std::int64_t size = (*a)[a->size() - 1 - i];
    fits = size == 1 || size == (*b)[b->size() - 1 - i];
  }
  if (fits) return std::nullopt;
  return fmt::format("[{}] does not broadcast to [{}]", fmt::join(*a, ","), fmt::join(*b, ","));
}

// --- windows -------------------------------------------------------------------------------------

// Filters [M, C / group, ...] over [N, C, ...].
Refusal channels(const Operands& o, const Dims& x, std::size_t filters) {
  const auto w = o.dims(filters);
  if (!w) return std::nullopt;
  const std::int64_t group = o.node.attr_int("group", 1);
  const bool fits =
      w->size() == x.size() && group > 0 && (*w)[0] % group == 0 && (*w)[1] * group == x[1];
  if (fits) return std::nullopt;
  return fmt::format("filters [{}] in {} groups do not fit [{}]", fmt::join(*w, ","), group,
                     fmt::join(x, ","));
}

Refusal windows(const Operands& o, std::optional<std::size_t> filters) {
  const auto x = o.dims(0);
  if (!x) return std::nullopt;
  if (x->size() < 3) return fmt::format("[{}] has no axis to move along", fmt::join(*x, ","));
  if (filters) {
    if (auto wrong = channels(o, *x, *filters)) return wrong;
  }
  const std::size_t axes = x->size() - 2;
  std::vector<std::int64_t> kernel = o.node.attr_ints("kernel_shape");
  if (kernel.empty() && filters) {
    const auto w = o.dims(*filters);
    if (!w) return std::nullopt;
    kernel.assign(w->begin() + 2, w->end());
  }
  const auto pads = o.node.attr_ints("pads", std::vector<std::int64_t>(2 * axes, 0));
  const auto dilations = o.node.attr_ints("dilations", std::vector<std::int64_t>(axes, 1));
  const auto strides = o.node.attr_ints("strides", std::vector<std::int64_t>(axes, 1));
  if (kernel.size() != axes || pads.size() != 2 * axes || dilations.size() != axes ||
      strides.size() != axes) {
    return "kernel_shape, pads, strides and dilations do not have an entry per axis";
  }
  if (o.node.attr_string("auto_pad", "NOTSET").starts_with("SAME")) return std::nullopt;
  for (std::size_t a = 0; a < axes; ++a) {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    const auto sane = [](std::int64_t value) { return value > 0 && value < kMost; };
    if (!sane(kernel[a]) || !sane(dilations[a]) || !sane(strides[a]) ||
        std::abs(pads[a]) >= kMost || std::abs(pads[a + axes]) >= kMost) {
      return "kernel_shape, strides and dilations must be positive";
    }
    const std::int64_t padded = (*x)[a + 2] + pads[a] + pads[a + axes];
    const std::int64_t window = dilations[a] * (kernel[a] - 1) + 1;
    if (window > padded) return fmt::format("a window of {} does not fit {}", window, padded);
  }
  return std::nullopt;
}

Refusal pool(const Operands& o) { return windows(o, std::nullopt); }
Refusal conv(const Operands& o) { return windows(o, 1); }
Refusal quantized_conv(const Operands& o) { return windows(o, 3); }

// [N, C * block, positions] of an image and blocks that are constants.
Refusal col2im(const Operands& o) {
  const auto x = o.dims(0);
  const Tensor* image = o.constant(1);
  const Tensor* block = o.constant(2);
  if (!x || image == nullptr || block == nullptr || x->size() != 3) return std::nullopt;
  const std::vector<std::int64_t> sizes = image->to_int64(), blocks = block->to_int64();
  const std::size_t axes = sizes.size();
  const auto pads = o.node.attr_ints("pads", std::vector<std::int64_t>(2 * axes, 0));
  const auto dilations = o.node.attr_ints("dilations", std::vector<std::int64_t>(axes, 1));
  const auto strides = o.node.attr_ints("strides", std::vector<std::int64_t>(axes, 1));
  bool fits = blocks.size() == axes && pads.size() == 2 * axes && dilations.size() == axes &&
              strides.size() == axes;
  std::int64_t positions = 1, elements = 1;
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  for (std::size_t a = 0; fits && a < axes; ++a) {
    for (const std::int64_t value : {sizes[a], blocks[a], dilations[a], strides[a]}) {
      fits = fits && value > 0 && value < kMost;
    }
    fits = fits && std::abs(pads[a]) < kMost && std::abs(pads[a + axes]) < kMost;
    if (!fits) break;
    const std::int64_t room =
        sizes[a] + pads[a] + pads[a + axes] - dilations[a] * (blocks[a] - 1) - 1;
    fits = room >= 0 && positions < kMost && elements < kMost;
    if (!fits) break;
    positions *= room / strides[a] + 1;
    elements *= blocks[a];
  }
  fits = fits && (*x)[2] == positions && (*x)[1] % elements == 0;
  if (fits) return std::nullopt;
  return fmt::format("[{}] are no blocks of such an image", fmt::join(*x, ","));
}

// offset [N, 2 * groups * window, ...] and mask [N, groups * window, ...] of the result's windows.
Refusal deformed_conv(const Operands& o) {
  const auto made = o.result();
  const auto w = o.dims(1);
  if (!made || !w || made->size() < 3 || w->size() != made->size()) return std::nullopt;
  Dims wanted = *made;
  wanted[1] = 2 * o.node.attr_int("offset_group", 1);
  for (std::size_t a = 2; a < w->size(); ++a) wanted[1] *= (*w)[a];
  const auto offset = o.dims(2);
  if (offset && *offset != wanted) return "the offsets do not fit the windows";
  wanted[1] /= 2;
  const auto mask = o.dims(4);
  if (mask && *mask != wanted) return "the mask does not fit the windows";
  return std::nullopt;
}

Refusal depth_to_space(const Operands& o) {
  const auto x = o.dims(0);
  const std::int64_t block = o.node.attr_int("blocksize", 1);
  if (!x || x->size() != 4 || block <= 0 || block >= (1 << 20)) return std::nullopt;
  if ((*x)[1] % (block * block) == 0) return std::nullopt;
  return fmt::format("{} channels are no blocks of {}", (*x)[1], block);
}

Refusal boxes(const Operands& o) {
  const auto box = o.dims(0);
  const auto score = o.dims(1);
  if (!box || !score) return std::nullopt;
  const bool fits = box->size() == 3 && score->size() == 3 && (*box)[2] == 4 &&
                    (*box)[0] == (*score)[0] && (*box)[1] == (*score)[2];
  if (fits) return std::nullopt;
  return fmt::format("boxes [{}] do not fit scores [{}]", fmt::join(*box, ","),
                     fmt::join(*score, ","));
}

Refusal space_to_depth(const Operands& o) {
  const auto x = o.dims(0);
  const std::int64_t block = o.node.attr_int("blocksize", 1);
  if (!x || x->size() != 4 || block <= 0) return std::nullopt;
  if ((*x)[2] % block == 0 && (*x)[3] % block == 0) return std::nullopt;
  return fmt::format("[{}] is not made of blocks of {}", fmt::join(*x, ","), block);
}

Refusal global_pool(const Operands& o) {
  const auto x = o.dims(0);
  if (!x) return std::nullopt;
  const bool fits = x->size() >= 3 && std::find(x->begin() + 2, x->end(), 0) == x->end();
  if (fits) return std::nullopt;
  return fmt::format("[{}] has nothing to pool", fmt::join(*x, ","));
}

// --- elements by elements ------------------------------------------------------------------------

Refusal slope(const Operands& o) { return broadcasts(o, 1, 0); }

Refusal reshape(const Operands& o) {
  const auto from = o.dims(0);
  const auto to = o.result();
  if (!from || !to || Operands::elements(*from) == Operands::elements(*to)) return std::nullopt;
  return fmt::format("[{}] cannot become [{}]", fmt::join(*from, ","), fmt::join(*to, ","));
}

Refusal per_channel(const Operands& o, std::size_t last) {
  const auto x = o.dims(0);
  if (!x || x->size() < 2) return std::nullopt;
  for (std::size_t i = 1; i <= last; ++i) {
    if (auto wrong = wants_count(o, i, (*x)[1])) return wrong;
  }
  return std::nullopt;
}

Refusal instance_norm(const Operands& o) { return per_channel(o, 2); }
Refusal batch_norm(const Operands& o) { return per_channel(o, 4); }

Refusal rms_norm(const Operands& o) { return broadcasts(o, 1, 0); }

Refusal layer_norm(const Operands& o) {
  if (auto wrong = broadcasts(o, 1, 0)) return wrong;
  return broadcasts(o, 2, 0);
}

Refusal group_norm(const Operands& o) {
  const auto x = o.dims(0);
  if (!x || x->size() < 2) return std::nullopt;
  const std::int64_t groups = o.node.attr_int("num_groups", 1);
  if (groups <= 0 || (*x)[1] % groups != 0) {
    return fmt::format("{} channels are no {} groups", (*x)[1], groups);
  }
  return per_channel(o, 2);
}

// Of x [batch, heads, length, head] or [batch, length, heads * head], with angles [length, half]
// per batch or [any, half] that positions [batch, length] choose from.
Refusal rotary(const Operands& o) {
  const auto x = o.dims(0);
  const auto cosines = o.dims(1);
  if (!x || !cosines || (x->size() != 3 && x->size() != 4)) return std::nullopt;
  const std::int64_t heads = std::max<std::int64_t>(o.node.attr_int("num_heads", 0), 1);
  const std::int64_t length = x->size() == 4 ? (*x)[2] : (*x)[1];
  std::int64_t turned = o.node.attr_int("rotary_embedding_dim", 0);
  const std::int64_t head = x->size() == 4 ? (*x)[3] : (*x)[2] / heads;
  if (turned == 0) turned = head;
  bool fits = turned > 0 && turned <= head && turned % 2 == 0 && cosines == o.dims(2);
  const bool chosen = o.node.input(3).valid();
  const Dims wanted = chosen ? Dims{cosines->empty() ? 0 : (*cosines)[0], turned / 2}
                             : Dims{(*x)[0], length, turned / 2};
  fits = fits && *cosines == wanted;
  if (const auto positions = o.dims(3)) fits = fits && *positions == Dims{(*x)[0], length};
  if (fits) return std::nullopt;
  return fmt::format("angles [{}] do not fit [{}]", fmt::join(*cosines, ","), fmt::join(*x, ","));
}

// [batch, heads, length, head] of queries, keys or values, which may come with heads side by side.
std::optional<Dims> in_heads(const Operands& o, std::size_t operand, std::string_view heads) {
  auto x = o.dims(operand);
  if (!x || x->size() == 4) return x;
  const std::int64_t count = o.node.attr_int(heads, 0);
  if (x->size() != 3 || count <= 0 || (*x)[2] % count != 0) return Dims{};
  return Dims{(*x)[0], count, (*x)[1], (*x)[2] / count};
}

Refusal attention(const Operands& o) {
  const auto q = in_heads(o, 0, "q_num_heads");
  const auto k = in_heads(o, 1, "kv_num_heads");
  const auto v = in_heads(o, 2, "kv_num_heads");
  if (!q || !k || !v) return std::nullopt;
  if (q->size() != 4 || k->size() != 4 || v->size() != 4) return "there are no such heads";
  const auto batch = (*q)[0], heads = (*k)[1], length = (*k)[2];
  bool fits = (*k)[0] == batch && heads > 0 && (*q)[1] % heads == 0 && (*k)[3] == (*q)[3] &&
              (*v)[0] == batch && (*v)[1] == heads && (*v)[2] == length;
  std::int64_t past = 0;
  const auto old_keys = o.dims(4);
  const auto old_values = o.dims(5);
  if (old_keys && old_values) {
    fits = fits && old_keys->size() == 4 && old_values->size() == 4;
    if (fits) past = (*old_keys)[2];
    fits = fits && *old_keys == Dims{batch, heads, past, (*k)[3]} &&
           *old_values == Dims{batch, heads, past, (*v)[3]};
  }
  if (!fits) {
    return fmt::format("queries [{}], keys [{}] and values [{}] do not fit", fmt::join(*q, ","),
                       fmt::join(*k, ","), fmt::join(*v, ","));
  }
  if (const auto mask = o.dims(3)) {
    const Dims wanted{batch, (*q)[1], (*q)[2], length + past};
    bool covers = mask->size() >= 2 && mask->size() <= 4 && mask->back() <= wanted.back();
    for (std::size_t i = 1; covers && i < mask->size(); ++i) {
      const std::int64_t size = (*mask)[mask->size() - 1 - i];
      covers = size == 1 || size == wanted[3 - i];
    }
    if (!covers) {
      return fmt::format("the mask [{}] does not fit [{}]", fmt::join(*mask, ","),
                         fmt::join(wanted, ","));
    }
  }
  return o.node.input(6).valid() ? wants_count(o, 6, batch) : std::nullopt;
}

Refusal quantized(const Operands& o) {
  const auto x = o.dims(0);
  const auto scale = o.dims(1);
  if (!x || !scale || o.node.attr_int("block_size", 0) != 0 || Operands::elements(*scale) == 1) {
    return std::nullopt;
  }
  std::int64_t axis = o.node.attr_int("axis", 1);
  if (axis < 0) axis += static_cast<std::int64_t>(x->size());
  const bool fits = scale->size() == 1 && axis >= 0 &&
                    axis < static_cast<std::int64_t>(x->size()) &&
                    (*scale)[0] == (*x)[static_cast<std::size_t>(axis)];
  if (!fits) return fmt::format("scales [{}] do not fit axis {}", fmt::join(*scale, ","), axis);
  const auto zero = o.dims(2);
  if (zero && *zero != *scale) return "the zero points do not have the scales' sizes";
  return std::nullopt;
}

// --- indices -------------------------------------------------------------------------------------

Refusal by_elements(const Operands& o) {
  const auto data = o.dims(0);
  const auto indices = o.dims(1);
  if (!data || !indices) return std::nullopt;
  bool fits = data->size() == indices->size();
  std::int64_t axis = o.node.attr_int("axis", 0);
  if (axis < 0) axis += static_cast<std::int64_t>(data->size());
  for (std::size_t a = 0; fits && a < data->size(); ++a) {
    fits = static_cast<std::int64_t>(a) == axis || (*indices)[a] <= (*data)[a];
  }
  if (!fits) {
    return fmt::format("indices [{}] do not fit into [{}]", fmt::join(*indices, ","),
                       fmt::join(*data, ","));
  }
  const auto updates = o.dims(2);
  if (updates && *updates != *indices) return "the updates do not have the indices' sizes";
  return std::nullopt;
}

Refusal by_coordinates(const Operands& o) {
  const auto data = o.dims(0);
  const auto indices = o.dims(1);
  if (!data || !indices || indices->empty()) return std::nullopt;
  const auto batch =
      static_cast<std::size_t>(std::max<std::int64_t>(o.node.attr_int("batch_dims", 0), 0));
  const std::int64_t depth = indices->back();
  bool fits = depth >= 1 &&
              depth + static_cast<std::int64_t>(batch) <= static_cast<std::int64_t>(data->size()) &&
              batch < indices->size();
  fits = fits && std::equal(data->begin(), data->begin() + static_cast<std::ptrdiff_t>(batch),
                            indices->begin());
  if (!fits) {
    return fmt::format("coordinates [{}] do not fit [{}]", fmt::join(*indices, ","),
                       fmt::join(*data, ","));
  }
  const auto updates = o.dims(2);
  if (!updates) return std::nullopt;
  Dims wanted(indices->begin(), indices->end() - 1);
  wanted.insert(wanted.end(), data->begin() + static_cast<std::ptrdiff_t>(depth), data->end());
  if (*updates == wanted) return std::nullopt;
  return fmt::format("the updates are [{}], wanted [{}]", fmt::join(*updates, ","),
                     fmt::join(wanted, ","));
}

Refusal roi_align(const Operands& o) {
  const auto x = o.dims(0);
  const auto rois = o.dims(1);
  const auto batch = o.dims(2);
  if (x && x->size() != 4) return "the input does not have 4 axes";
  if (rois && (rois->size() != 2 || (*rois)[1] != 4)) return "the boxes are not [n, 4]";
  if (rois && batch && (batch->size() != 1 || (*batch)[0] != (*rois)[0])) {
    return "there is not one batch index per box";
  }
  return std::nullopt;
}

Refusal reverse_sequence(const Operands& o) {
  const auto x = o.dims(0);
  const auto batch = static_cast<std::size_t>(o.node.attr_int("batch_axis", 1));
  if (!x || batch >= x->size()) return std::nullopt;
  return wants_count(o, 1, (*x)[batch]);
}

// --- lists with an entry per axis ----------------------------------------------------------------

Refusal pad(const Operands& o) {
  const auto x = o.dims(0);
  if (!x) return std::nullopt;
  const auto axes =
      o.node.input(3).valid() ? o.count(3) : std::optional(static_cast<std::int64_t>(x->size()));
  if (!axes) return std::nullopt;
  if (auto wrong = wants_count(o, 1, 2 * *axes)) return wrong;
  const Tensor* pads = o.constant(1);
  if (pads == nullptr || pads->dtype() != DType::kInt64 || o.node.input(3).valid()) return {};
  const std::vector<std::int64_t> values = pads->to_int64();
  const bool repeats = o.node.attr_string("mode", "constant") != "constant";
  for (std::size_t a = 0; a < x->size(); ++a) {
    if (repeats && (*x)[a] == 0 && (values[a] > 0 || values[a + x->size()] > 0)) {
      return fmt::format("axis {} of [{}] has nothing to be padded with", a, fmt::join(*x, ","));
    }
    // No sum of them overflows: the numbers have 32 bits (ops/deciding_operands.h).
    if ((*x)[a] + values[a] + values[a + x->size()] < 0) {
      return fmt::format("axis {} of [{}] would have a negative size", a, fmt::join(*x, ","));
    }
  }
  return std::nullopt;
}

// Labels [N, ...] and weights [C] of [N, C, ...].
Refusal loss(const Operands& o) {
  const auto x = o.dims(0);
  const auto labels = o.dims(1);
  if (!x || !labels || x->size() < 2) return std::nullopt;
  Dims wanted = *x;
  wanted.erase(wanted.begin() + 1);
  if (*labels != wanted) {
    return fmt::format("labels [{}] do not fit [{}]", fmt::join(*labels, ","), fmt::join(*x, ","));
  }
  return wants_count(o, 2, (*x)[1]);
}

Refusal tile(const Operands& o) {
  const auto x = o.dims(0);
  return x ? wants_count(o, 1, static_cast<std::int64_t>(x->size())) : std::nullopt;
}

Refusal resize(const Operands& o) {
  const auto x = o.dims(0);
  if (!x) return std::nullopt;
  const auto axes = o.node.attr_ints("axes");
  const auto count = static_cast<std::int64_t>(axes.empty() ? x->size() : axes.size());
  for (const std::size_t i : {2U, 3U}) {
    if (!o.node.input(i).valid() || o.count(i) == 0) continue;
    if (auto wrong = wants_count(o, i, count)) return wrong;
  }
  return std::nullopt;
}

Refusal one(const Operands& o) { return wants_count(o, 1, 1); }

Refusal condition(const Operands& o) { return wants_count(o, 0, 1); }

Refusal loop(const Operands& o) {
  if (auto wrong = wants_count(o, 0, 1)) return wrong;
  return wants_count(o, 1, 1);
}

Refusal one_hot(const Operands& o) {
  if (auto wrong = wants_count(o, 1, 1)) return wrong;
  return wants_count(o, 2, 2);
}

struct Rule {
  std::string_view op;
  Refusal (*judge)(const Operands&);
};

// Sorted by op.
constexpr auto kRules = std::to_array<Rule>({
    {"Attention", attention},
    {"AveragePool", pool},
    {"BatchNormalization", batch_norm},
    {"Col2Im", col2im},
    {"Conv", conv},
    {"ConvInteger", conv},
    {"CumProd", one},
    {"CumSum", one},
    {"DeformConv", deformed_conv},
    {"DepthToSpace", depth_to_space},
    {"DequantizeLinear", quantized},
    {"GatherElements", by_elements},
    {"GatherND", by_coordinates},
    {"GlobalAveragePool", global_pool},
    {"GlobalLpPool", global_pool},
    {"GlobalMaxPool", global_pool},
    {"GroupNormalization", group_norm},
    {"If", condition},
    {"InstanceNormalization", instance_norm},
    {"LayerNormalization", layer_norm},
    {"Loop", loop},
    {"LpPool", pool},
    {"MaxPool", pool},
    {"NegativeLogLikelihoodLoss", loss},
    {"NonMaxSuppression", boxes},
    {"OneHot", one_hot},
    {"PRelu", slope},
    {"Pad", pad},
    {"QLinearConv", quantized_conv},
    {"QuantizeLinear", quantized},
    {"RMSNormalization", rms_norm},
    {"Reshape", reshape},
    {"Resize", resize},
    {"ReverseSequence", reverse_sequence},
    {"RoiAlign", roi_align},
    {"RotaryEmbedding", rotary},
    {"ScatterElements", by_elements},
    {"ScatterND", by_coordinates},
    {"SoftmaxCrossEntropyLoss", loss},
    {"SpaceToDepth", space_to_depth},
    {"Tile", tile},
    {"TopK", one},
    {"Trilu", one},
});
static_assert(std::is_sorted(kRules.begin(), kRules.end(),
                             [](const Rule& a, const Rule& b) { return a.op < b.op; }));

// --- open dimensions -----------------------------------------------------------------------------

// Ops on one tensor, which take any size of each axis; what else they read is a constant.
constexpr auto kTakeAnySize = std::to_array<std::string_view>(
    {"Abs",      "Cast",       "Ceil",      "Clip",       "Elu",       "Erf",
     "Exp",      "Floor",      "Gelu",      "Hardmax",    "HardSwish", "Identity",
     "IsNaN",    "LeakyRelu",  "Log",       "LogSoftmax", "Mish",      "Neg",
     "Not",      "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum",
     "Relu",     "Round",      "Shape",     "Sigmoid",    "Sign",      "Softmax",
     "Softplus", "Sqrt",       "Swish",     "Tanh",       "Transpose", "Unsqueeze"});
constexpr auto kBroadcast = std::to_array<std::string_view>(
    {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min",
     "Mul", "Or", "Pow", "Sub", "Sum", "Where"});

bool is_same(const Dim& a, const Dim& b) {
  return (a.is_known() && b.is_known() && a.value() == b.value()) || (a.is_symbol() && a == b);
}

bool is_one(const Dim& dim) { return dim.is_known() && dim.value() == 1; }

// The last axes of both but `left_out` of them, from the back.
bool surely_broadcast(const Shape& a, const Shape& b, std::size_t left_out = 0) {
  for (std::size_t i = left_out; i < std::min(a.size(), b.size()); ++i) {
    const Dim& x = a[a.size() - 1 - i];
    const Dim& y = b[b.size() - 1 - i];
    if (!is_one(x) && !is_one(y) && !is_same(x, y)) return false;
  }
  return true;
}

bool surely_joins(const std::vector<const Shape*>& shapes, std::int64_t axis) {
  const Shape& first = *shapes[0];
  if (axis < 0) axis += static_cast<std::int64_t>(first.size());
  for (const Shape* shape : shapes) {
    if (shape->size() != first.size()) return false;
    for (std::size_t a = 0; a < first.size(); ++a) {
      if (static_cast<std::int64_t>(a) != axis && !is_same(first[a], (*shape)[a])) return false;
    }
  }
  return true;
}

// The product of the sizes that are numbers, and the symbols of the others; nothing where one has
// neither.
std::optional<std::pair<std::int64_t, std::vector<std::string>>> factors(const Shape& shape) {
  std::pair<std::int64_t, std::vector<std::string>> found{1, {}};
  for (const Dim& dim : shape) {
    if (dim.is_known()) {
      found.first *= dim.value();
    } else if (dim.is_symbol()) {
      found.second.push_back(dim.symbol());
    } else {
      return std::nullopt;
    }
  }
  std::sort(found.second.begin(), found.second.end());
  return found;
}

template <typename List>
bool contains(const List& list, std::string_view op) {
  return std::find(list.begin(), list.end(), op) != list.end();
}

}  // namespace

std::optional<std::string> sizes_refusal(const Graph& graph, const Node& node) {
  if (!node.domain.empty()) return std::nullopt;
  const auto found =
      std::lower_bound(kRules.begin(), kRules.end(), std::string_view(node.op),
                       [](const Rule& rule, std::string_view op) { return rule.op < op; });
  if (found == kRules.end() || found->op != node.op) return std::nullopt;
  return found->judge(Operands(graph, node));
}

bool may_disagree(const Graph& graph, const Node& node) {
  if (!node.domain.empty()) return true;
  std::vector<const Shape*> shapes;
  for (const ValueId v : node.inputs) {
    if (!v.valid()) continue;
    const Type& type = graph.type(v);
    if (!type.is_tensor() || !type.has_rank()) return true;
    shapes.push_back(&*type.shape);
  }
  if (shapes.empty()) return true;
  const std::string_view op = node.op;
  if (contains(kTakeAnySize, op)) {
    return std::any_of(node.inputs.begin() + 1, node.inputs.end(),
                       [&](ValueId v) { return v.valid() && graph.constant(v) == nullptr; });
  }
  if (contains(kBroadcast, op)) {
    for (const Shape* a : shapes) {
      for (const Shape* b : shapes) {
        if (!surely_broadcast(*a, *b)) return true;
      }
    }
    return false;
  }
  if (op == "Concat") return !surely_joins(shapes, node.attr_int("axis", 0));
  if (op == "MatMul") {
    const Shape& a = *shapes.front();
    const Shape& b = *shapes.back();
    if (shapes.size() != 2 || a.size() < 2 || b.size() < 2) return true;
    return !is_same(a.back(), b[b.size() - 2]) || !surely_broadcast(a, b, 2);
  }
  if (op == "LayerNormalization") {
    for (std::size_t i = 1; i < shapes.size(); ++i) {
      if (shapes[i]->size() > shapes[0]->size() || !surely_broadcast(*shapes[i], *shapes[0])) {
        return true;
      }
    }
    return false;
  }
  if (op == "Reshape") {
    const Type& made = graph.type(node.outputs.at(0));
    if (!made.has_rank()) return true;
    const auto from = factors(*shapes[0]);
    return !from || from != factors(*made.shape);
  }
  return true;
}

}  // namespace xrt
