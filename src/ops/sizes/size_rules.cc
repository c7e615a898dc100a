// SPDX-License-Identifier: Apache-2.0
#include "ops/sizes/size_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/sizes/operand_sizes.h"

namespace xrt {
namespace {

Refusal wants_count(const OperandSizes& o, std::size_t operand, std::int64_t count) {
  const auto given = o.count(operand);
  if (!given || *given == count) return std::nullopt;
  return fmt::format("input {} has {} elements, {} are wanted", operand, *given, count);
}

Refusal broadcasts(const OperandSizes& o, std::size_t from, std::size_t to) {
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

Refusal boxes(const OperandSizes& o) {
  const auto box = o.dims(0);
  const auto score = o.dims(1);
  if (!box || !score) return std::nullopt;
  const bool fits = box->size() == 3 && score->size() == 3 && (*box)[2] == 4 &&
                    (*box)[0] == (*score)[0] && (*box)[1] == (*score)[2];
  if (fits) return std::nullopt;
  return fmt::format("boxes [{}] do not fit scores [{}]", fmt::join(*box, ","),
                     fmt::join(*score, ","));
}

// --- elements by elements ------------------------------------------------------------------------

// Equal parts, of which the last may be smaller.
Refusal split(const OperandSizes& o) {
  const auto from = o.dims(0);
  const std::int64_t count = o.node.attr_int("num_outputs", 0);
  if (!from || count < 1) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(from->size());
  const std::int64_t given = o.node.attr_int("axis", 0);
  const std::int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank) return std::nullopt;
  const std::int64_t size = (*from)[static_cast<std::size_t>(axis)];
  const std::int64_t part = size / count + (size % count == 0 ? 0 : 1);
  if (part == 0 || size / part >= count - 1) return std::nullopt;
  return fmt::format("an axis of {} has no {} equal parts of which the last may be smaller", size,
                     count);
}

Refusal slope(const OperandSizes& o) { return broadcasts(o, 1, 0); }

Refusal reshape(const OperandSizes& o) {
  const auto from = o.dims(0);
  const auto to = o.result();
  if (!from || !to || OperandSizes::elements(*from) == OperandSizes::elements(*to))
    return std::nullopt;
  return fmt::format("[{}] cannot become [{}]", fmt::join(*from, ","), fmt::join(*to, ","));
}

Refusal per_channel(const OperandSizes& o, std::size_t last) {
  const auto x = o.dims(0);
  if (!x || x->size() < 2) return std::nullopt;
  for (std::size_t i = 1; i <= last; ++i) {
    if (auto wrong = wants_count(o, i, (*x)[1])) return wrong;
  }
  return std::nullopt;
}

Refusal instance_norm(const OperandSizes& o) { return per_channel(o, 2); }
Refusal batch_norm(const OperandSizes& o) { return per_channel(o, 4); }

Refusal rms_norm(const OperandSizes& o) { return broadcasts(o, 1, 0); }

Refusal layer_norm(const OperandSizes& o) {
  if (auto wrong = broadcasts(o, 1, 0)) return wrong;
  return broadcasts(o, 2, 0);
}

Refusal group_norm(const OperandSizes& o) {
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
Refusal rotary(const OperandSizes& o) {
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
std::optional<Dims> in_heads(const OperandSizes& o, std::size_t operand, std::string_view heads) {
  auto x = o.dims(operand);
  if (!x || x->size() == 4) return x;
  const std::int64_t count = o.node.attr_int(heads, 0);
  if (x->size() != 3 || count <= 0 || (*x)[2] % count != 0) return Dims{};
  return Dims{(*x)[0], count, (*x)[1], (*x)[2] / count};
}

Refusal attention(const OperandSizes& o) {
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
    bool covers = !mask->empty() && mask->size() <= 4 && mask->back() <= wanted.back();
    for (std::size_t i = 1; covers && i < mask->size(); ++i) {
      const std::int64_t size = (*mask)[mask->size() - 1 - i];
      covers = size == 1 || size == wanted[3 - i];
    }
    if (!covers) {
      return fmt::format("the mask [{}] does not fit [{}]", fmt::join(*mask, ","),
                         fmt::join(wanted, ","));
    }
  }
  const auto counts = o.dims(6);  // of keys that are no padding
  if (!counts || *counts == Dims{batch}) return std::nullopt;
  return fmt::format("'nonpad_kv_seqlen' is [{}], not one number for each of {} texts",
                     fmt::join(*counts, ","), batch);
}

Refusal quantized(const OperandSizes& o) {
  const auto x = o.dims(0);
  const auto scale = o.dims(1);
  if (!x || !scale) return std::nullopt;
  const std::int64_t block = o.node.attr_int("block_size", 0);
  if (block < 0) return fmt::format("'block_size' is {}", block);
  const auto rank = static_cast<std::int64_t>(x->size());
  std::int64_t axis = o.node.attr_int("axis", 1);
  if (axis < 0) axis += rank;
  if (block > 0) {  // one scale for so many elements of the axis
    bool fits = scale->size() == x->size() && axis >= 0 && axis < rank;
    for (std::int64_t a = 0; fits && a < rank; ++a) {
      const std::int64_t size = (*x)[static_cast<std::size_t>(a)];
      const std::int64_t wanted = a == axis ? size / block + (size % block != 0 ? 1 : 0) : size;
      fits = (*scale)[static_cast<std::size_t>(a)] == wanted;
    }
    if (fits) return std::nullopt;
    return fmt::format("scales [{}] do not fit blocks of {} along axis {}", fmt::join(*scale, ","),
                       block, axis);
  }
  if (OperandSizes::elements(*scale) == 1) return std::nullopt;
  const bool fits = scale->size() == 1 && axis >= 0 && axis < rank &&
                    (*scale)[0] == (*x)[static_cast<std::size_t>(axis)];
  if (!fits) return fmt::format("scales [{}] do not fit axis {}", fmt::join(*scale, ","), axis);
  const auto zero = o.dims(2);
  if (zero && *zero != *scale) return "the zero points do not have the scales' sizes";
  return std::nullopt;
}

// --- indices -------------------------------------------------------------------------------------

Refusal by_elements(const OperandSizes& o) {
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

Refusal by_coordinates(const OperandSizes& o) {
  const auto data = o.dims(0);
  const auto indices = o.dims(1);
  if (indices && indices->empty()) return "coordinates are no scalar";
  if (!data || !indices) return std::nullopt;
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

Refusal roi_align(const OperandSizes& o) {
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

Refusal reverse_sequence(const OperandSizes& o) {
  const auto x = o.dims(0);
  const auto batch = static_cast<std::size_t>(o.node.attr_int("batch_axis", 1));
  if (!x || batch >= x->size()) return std::nullopt;
  return wants_count(o, 1, (*x)[batch]);
}

// --- lists with an entry per axis ----------------------------------------------------------------

Refusal pad(const OperandSizes& o) {
  const auto x = o.dims(0);
  if (!x) return std::nullopt;
  const auto axes =
      o.node.input(3).valid() ? o.count(3) : std::optional(static_cast<std::int64_t>(x->size()));
  if (!axes) return std::nullopt;
  if (auto wrong = wants_count(o, 1, 2 * *axes)) return wrong;
  if (auto wrong = wants_count(o, 2, 1)) return wrong;
  const Tensor* pads = o.constant(1);
  if (pads == nullptr || pads->dtype() != DType::kInt64 || o.node.input(3).valid()) return {};
  const std::vector<std::int64_t> values = pads->to_int64();
  const bool repeats = o.node.attr_string("mode", "constant") != "constant";
  for (std::size_t a = 0; a < x->size(); ++a) {
    if (repeats && (*x)[a] == 0 && (values[a] > 0 || values[a + x->size()] > 0)) {
      return fmt::format("axis {} of [{}] has nothing to be padded with", a, fmt::join(*x, ","));
    }
    // No sum of them overflows: the numbers have 32 bits (ops/sizes/deciding_operands.h).
    if ((*x)[a] + values[a] + values[a + x->size()] < 0) {
      return fmt::format("axis {} of [{}] would have a negative size", a, fmt::join(*x, ","));
    }
  }
  return std::nullopt;
}

// Labels [N, ...] and weights [C] of [N, C, ...].
Refusal loss(const OperandSizes& o) {
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

Refusal tile(const OperandSizes& o) {
  const auto x = o.dims(0);
  return x ? wants_count(o, 1, static_cast<std::int64_t>(x->size())) : std::nullopt;
}

Refusal resize(const OperandSizes& o) {
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

Refusal one(const OperandSizes& o) { return wants_count(o, 1, 1); }

Refusal condition(const OperandSizes& o) { return wants_count(o, 0, 1); }

Refusal loop(const OperandSizes& o) {
  if (auto wrong = wants_count(o, 0, 1)) return wrong;
  return wants_count(o, 1, 1);
}

Refusal one_hot(const OperandSizes& o) {
  if (auto wrong = wants_count(o, 1, 1)) return wrong;
  return wants_count(o, 2, 2);
}

// --- products ------------------------------------------------------------------------------------

Refusal wants(const OperandSizes& o, std::size_t operand, const Dims& wanted) {
  const auto given = o.dims(operand);
  if (!given || *given == wanted) return std::nullopt;
  return fmt::format("input {} is [{}], not [{}]", operand, fmt::join(*given, ","),
                     fmt::join(wanted, ","));
}

// x [steps, batch, width] or [batch, steps, width], w [directions, gates * hidden, width].
Refusal recurrent(const OperandSizes& o) {
  const auto x = o.dims(0);
  const auto w = o.dims(1);
  const auto r = o.dims(2);
  if (!x || !w || !r) return std::nullopt;
  if (x->size() != 3 || w->size() != 3 || r->size() != 3) return "the operands do not have 3 axes";
  const std::int64_t gates = o.node.op == "LSTM" ? 4 : o.node.op == "GRU" ? 3 : 1;
  const std::int64_t directions =
      o.node.attr_string("direction", "forward") == "bidirectional" ? 2 : 1;
  const std::int64_t hidden = o.node.attr_int("hidden_size", (*r)[2]);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (hidden < 0 || hidden >= kMost) return fmt::format("hidden_size {} cannot be", hidden);
  const bool by_batch = o.node.attr_int("layout", 0) != 0;
  const std::int64_t batch = (*x)[by_batch ? 0 : 1];
  const Dims state = by_batch ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  if (auto wrong = wants(o, 1, {directions, gates * hidden, (*x)[2]})) return wrong;
  if (auto wrong = wants(o, 2, {directions, gates * hidden, hidden})) return wrong;
  if (auto wrong = wants(o, 3, {directions, 2 * gates * hidden})) return wrong;
  if (auto wrong = wants(o, 4, {batch})) return wrong;
  if (auto wrong = wants(o, 5, state)) return wrong;
  if (o.node.op != "LSTM") return std::nullopt;
  if (auto wrong = wants(o, 6, state)) return wrong;
  return wants(o, 7, {directions, 3 * hidden});
}

Refusal gemm(const OperandSizes& o) {
  const auto a = o.dims(0);
  const auto b = o.dims(1);
  if (!a || !b) return std::nullopt;
  if (a->size() != 2 || b->size() != 2) return "the factors are no matrices";
  const bool turn_a = o.node.attr_int("transA", 0) != 0, turn_b = o.node.attr_int("transB", 0) != 0;
  const std::int64_t inner_a = (*a)[turn_a ? 0 : 1], inner_b = (*b)[turn_b ? 1 : 0];
  if (inner_a != inner_b) {
    return fmt::format("[{}] and [{}] have no product", fmt::join(*a, ","), fmt::join(*b, ","));
  }
  const auto c = o.dims(2);
  const Dims made{(*a)[turn_a ? 1 : 0], (*b)[turn_b ? 0 : 1]};
  if (!c) return std::nullopt;
  bool fits = c->size() <= 2;
  for (std::size_t i = 0; fits && i < c->size(); ++i) {
    const std::int64_t size = (*c)[c->size() - 1 - i];
    fits = size == 1 || size == made[1 - i];
  }
  if (fits) return std::nullopt;
  return fmt::format("[{}] does not broadcast to [{}]", fmt::join(*c, ","), fmt::join(made, ","));
}

// Scales and zero points: one, or one for each row of `a` or column of `b`, of which each matrix of
// a batch may have its own.
Refusal of_lines(const OperandSizes& o, std::size_t operand, std::size_t factor, bool is_left) {
  const auto given = o.dims(operand);
  const auto matrix = o.dims(factor);
  if (!given || !matrix || matrix->empty()) return std::nullopt;
  const std::size_t rank = matrix->size();
  const std::int64_t lines = rank < 2 ? 1 : (*matrix)[is_left ? rank - 2 : rank - 1];
  const std::int64_t count = OperandSizes::elements(*given);
  if (count == 1 || lines == 0) return std::nullopt;
  const std::size_t axes = given->size();
  bool fits = count == lines;
  if (axes > 1) {
    const std::int64_t own = (*given)[is_left ? axes - 2 : axes - 1];
    fits = (*given)[is_left ? axes - 1 : axes - 2] == 1 && (own == 1 || own == lines);
  }
  if (fits) return std::nullopt;
  return fmt::format("input {} has {} elements for {} lines", operand, count, lines);
}

Refusal integer_product(const OperandSizes& o) {
  if (auto wrong = of_lines(o, 2, 0, true)) return wrong;
  return of_lines(o, 3, 1, false);
}

Refusal quantized_product(const OperandSizes& o) {
  for (const std::size_t i : {1U, 2U, 6U, 7U}) {
    if (auto wrong = of_lines(o, i, 0, true)) return wrong;
  }
  for (const std::size_t i : {4U, 5U}) {
    if (auto wrong = of_lines(o, i, 3, false)) return wrong;
  }
  return std::nullopt;
}

// Letters that two operands share name the same size, or 1. What an ellipsis stands for is judged
// by type inference.
Refusal einsum(const OperandSizes& o) {
  const std::string equation = o.node.attr_string("equation", "");
  std::array<std::int64_t, 256> sizes{};
  std::size_t operand = 0, at = 0;
  while (operand < o.node.inputs.size()) {
    std::string before, after;
    bool dots = false;
    for (; at < equation.size() && equation[at] != ',' && equation[at] != '-'; ++at) {
      if (equation[at] == '.') dots = true;
      if (std::isalpha(static_cast<unsigned char>(equation[at])) != 0) {
        (dots ? after : before) += equation[at];
      }
    }
    if (at < equation.size() && equation[at] == ',') ++at;
    const auto dims = o.dims(operand++);
    if (!dims) continue;
    const std::size_t letters = before.size() + after.size();
    if (dots ? letters > dims->size() : letters != dims->size()) {
      return fmt::format("operand {} does not have an axis per letter", operand - 1);
    }
    const auto agree = [&](char letter, std::int64_t size) {
      std::int64_t& known = sizes[static_cast<unsigned char>(letter)];
      const bool fits = known == 0 || known == size + 1 || known == 2 || size == 1;
      if (known <= 2) known = size + 1;
      return fits;
    };
    for (std::size_t i = 0; i < letters; ++i) {
      const bool front = i < before.size();
      const std::size_t axis = front ? i : dims->size() - letters + i;
      const char letter = front ? before[i] : after[i - before.size()];
      if (!agree(letter, (*dims)[axis])) {
        return fmt::format("'{}' has more than one size", letter);
      }
    }
  }
  return std::nullopt;
}

Refusal max_unpool(const OperandSizes& o) {
  const auto x = o.dims(0);
  return x ? wants(o, 1, *x) : std::nullopt;
}

Refusal grid_sample(const OperandSizes& o) {
  const auto x = o.dims(0);
  const auto grid = o.dims(1);
  if (!x || !grid) return std::nullopt;
  const bool fits = x->size() >= 3 && grid->size() == x->size() && (*grid)[0] == (*x)[0] &&
                    grid->back() == static_cast<std::int64_t>(x->size()) - 2;
  if (fits) return std::nullopt;
  return fmt::format("the grid [{}] does not fit [{}]", fmt::join(*grid, ","), fmt::join(*x, ","));
}

Refusal transpose(const OperandSizes& o) {
  const auto rank = o.rank(0);
  if (!rank || !o.node.has("perm")) return std::nullopt;
  std::vector<std::int64_t> axes = o.node.attr_ints("perm");
  std::sort(axes.begin(), axes.end());
  bool fits = axes.size() == *rank;
  for (std::size_t i = 0; fits && i < axes.size(); ++i) {
    fits = axes[i] == static_cast<std::int64_t>(i);
  }
  if (fits) return std::nullopt;
  return fmt::format("'perm' does not name each of {} axes once", *rank);
}

Refusal clip(const OperandSizes& o) {
  if (auto wrong = wants_count(o, 1, 1)) return wrong;
  return wants_count(o, 2, 1);
}

struct Rule {
  std::string_view op;
  Refusal (*judge)(const OperandSizes&);
};

// Sorted by op.
constexpr auto kRules = std::to_array<Rule>({
    {"Attention", attention},
    {"AveragePool", pool},
    {"BatchNormalization", batch_norm},
    {"Clip", clip},
    {"Col2Im", col2im},
    {"Conv", conv},
    {"ConvInteger", integer_conv},
    {"ConvTranspose", transposed_conv},
    {"CumProd", one},
    {"CumSum", one},
    {"DeformConv", deformed_conv},
    {"DepthToSpace", depth_to_space},
    {"DequantizeLinear", quantized},
    {"Einsum", einsum},
    {"GRU", recurrent},
    {"GatherElements", by_elements},
    {"GatherND", by_coordinates},
    {"Gemm", gemm},
    {"GlobalAveragePool", global_pool},
    {"GlobalLpPool", global_pool},
    {"GlobalMaxPool", global_pool},
    {"GridSample", grid_sample},
    {"GroupNormalization", group_norm},
    {"If", condition},
    {"InstanceNormalization", instance_norm},
    {"LSTM", recurrent},
    {"LayerNormalization", layer_norm},
    {"Loop", loop},
    {"LpPool", pool},
    {"MatMulInteger", integer_product},
    {"MaxPool", pool},
    {"MaxUnpool", max_unpool},
    {"NegativeLogLikelihoodLoss", loss},
    {"NonMaxSuppression", boxes},
    {"OneHot", one_hot},
    {"PRelu", slope},
    {"Pad", pad},
    {"QLinearConv", quantized_conv},
    {"QLinearMatMul", quantized_product},
    {"QuantizeLinear", quantized},
    {"RMSNormalization", rms_norm},
    {"RNN", recurrent},
    {"Reshape", reshape},
    {"Resize", resize},
    {"ReverseSequence", reverse_sequence},
    {"RoiAlign", roi_align},
    {"RotaryEmbedding", rotary},
    {"ScatterElements", by_elements},
    {"ScatterND", by_coordinates},
    {"SoftmaxCrossEntropyLoss", loss},
    {"SpaceToDepth", space_to_depth},
    {"Split", split},
    {"Tile", tile},
    {"TopK", one},
    {"Transpose", transpose},
    {"Trilu", one},
});
static_assert(std::is_sorted(kRules.begin(), kRules.end(),
                             [](const Rule& a, const Rule& b) { return a.op < b.op; }));

}  // namespace

std::optional<std::string> sizes_refusal(const Graph& graph, const Node& node) {
  if (!node.domain.empty()) return std::nullopt;
  const auto found =
      std::lower_bound(kRules.begin(), kRules.end(), std::string_view(node.op),
                       [](const Rule& rule, std::string_view op) { return rule.op < op; });
  if (found == kRules.end() || found->op != node.op) return std::nullopt;
  return found->judge(OperandSizes(graph, node));
}

}  // namespace xrt
