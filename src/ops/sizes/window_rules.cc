// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "ops/sizes/operand_sizes.h"
#include "ops/sizes/wide_window.h"

namespace xrt {
namespace {

// Filters [M, C / group, ...] over [N, C, ...].
Refusal channels(const OperandSizes& o, const Dims& x, std::size_t filters) {
  const auto w = o.dims(filters);
  if (!w) return std::nullopt;
  const std::int64_t group = o.node.attr_int("group", 1);
  const auto kernel = o.node.attr_ints("kernel_shape");
  bool fits = w->size() == x.size() && group > 0 && (*w)[0] % group == 0 && x[1] % group == 0 &&
              (*w)[1] == x[1] / group;
  fits = fits &&
         (kernel.empty() || std::equal(kernel.begin(), kernel.end(), w->begin() + 2, w->end()));
  if (fits) return std::nullopt;
  return fmt::format("filters [{}] in {} groups do not fit [{}]", fmt::join(*w, ","), group,
                     fmt::join(x, ","));
}

Refusal windows(const OperandSizes& o, std::optional<std::size_t> filters) {
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
    const std::int64_t least = std::min({kernel[a], dilations[a], strides[a]});
    if (least < 1) return "kernel_shape, strides and dilations must be positive";
    const std::int64_t most = std::max({kernel[a], dilations[a], strides[a]});
    if (most > kMostOfWindow || std::max(pads[a], pads[a + axes]) > kMostOfWindow ||
        std::min(pads[a], pads[a + axes]) < -kMostOfWindow) {
      return fmt::format("kernel_shape, strides, dilations and pads may be {} at most",
                         kMostOfWindow);
    }
    const std::int64_t padded = (*x)[a + 2] + pads[a] + pads[a + axes];
    const std::int64_t window = dilations[a] * (kernel[a] - 1) + 1;
    if (window > padded) return fmt::format("a window of {} does not fit {}", window, padded);
  }
  return std::nullopt;
}

}  // namespace

Refusal pool(const OperandSizes& o) { return windows(o, std::nullopt); }
Refusal conv(const OperandSizes& o) {
  if (auto wrong = windows(o, 1)) return wrong;
  const auto w = o.dims(1);
  const auto bias = o.node.op == "Conv" ? o.dims(2) : std::nullopt;
  if (!w || !bias || *bias == Dims{w->front()}) return std::nullopt;
  return fmt::format("there is not one bias for each of {} channels", w->front());
}

Refusal integer_conv(const OperandSizes& o) {
  if (auto wrong = windows(o, 1)) return wrong;
  const auto of_x = o.count(2);
  if (of_x && *of_x != 1) return fmt::format("input 2 has {} elements, not 1", *of_x);
  const auto w = o.dims(1);
  const auto of_w = o.count(3);
  if (!w || !of_w || *of_w == 1 || *of_w == w->front()) return std::nullopt;
  return fmt::format("input 3 has {} elements for {} channels", *of_w, w->front());
}

// One scale and zero point for x and y, one or one for each channel of the filters.
Refusal quantized_conv(const OperandSizes& o) {
  if (auto wrong = windows(o, 3)) return wrong;
  for (const std::size_t i : {1U, 2U, 6U, 7U}) {
    const auto count = o.count(i);
    if (count && *count != 1) return fmt::format("input {} has {} elements, not 1", i, *count);
  }
  const auto w = o.dims(3);
  if (!w) return std::nullopt;
  for (const std::size_t i : {4U, 5U, 8U}) {
    const auto count = o.count(i);
    if (!count || *count == w->front() || (i != 8 && *count == 1)) continue;
    return fmt::format("input {} has {} elements for {} channels", i, *count, w->front());
  }
  return std::nullopt;
}

// Filters [C, M / group, ...] over [N, C, ...], bias [M].
Refusal transposed_conv(const OperandSizes& o) {
  const auto x = o.dims(0);
  const auto w = o.dims(1);
  if (!x || !w) return std::nullopt;
  const std::int64_t group = o.node.attr_int("group", 1);
  const bool fits = x->size() >= 3 && w->size() == x->size() && group > 0 && (*w)[0] == (*x)[1] &&
                    (*w)[0] % group == 0 && group <= kMostOfWindow;
  if (!fits) {
    return fmt::format("filters [{}] in {} groups do not fit [{}]", fmt::join(*w, ","), group,
                       fmt::join(*x, ","));
  }
  const auto bias = o.dims(2);
  if (!bias || *bias == Dims{(*w)[1] * group}) return std::nullopt;
  return fmt::format("there is not one bias for each of {} channels", (*w)[1] * group);
}

// [N, C * block, positions] of an image and blocks that are constants.
Refusal col2im(const OperandSizes& o) {
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
// Filters [M, C / group, ...] over [N, C, ...] in offset groups, bias [M].
Refusal deformed_channels(const OperandSizes& o) {
  const auto x = o.dims(0);
  const auto w = o.dims(1);
  if (!x || !w) return std::nullopt;
  const std::int64_t group = o.node.attr_int("group", 1);
  const std::int64_t offset_group = o.node.attr_int("offset_group", 1);
  const bool fits = x->size() >= 3 && w->size() == x->size() && group > 0 && offset_group > 0 &&
                    (*w)[0] % group == 0 && (*x)[1] % group == 0 && (*w)[1] == (*x)[1] / group &&
                    (*x)[1] % offset_group == 0 && offset_group <= kMostOfWindow;
  if (!fits) {
    return fmt::format("filters [{}] in {} groups, {} of offsets, do not fit [{}]",
                       fmt::join(*w, ","), group, offset_group, fmt::join(*x, ","));
  }
  const auto bias = o.dims(3);
  if (!bias || *bias == Dims{(*w)[0]}) return std::nullopt;
  return fmt::format("there is not one bias for each of {} channels", (*w)[0]);
}

Refusal deformed_conv(const OperandSizes& o) {
  if (auto wrong = deformed_channels(o)) return wrong;
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

Refusal depth_to_space(const OperandSizes& o) {
  const auto x = o.dims(0);
  const std::int64_t block = o.node.attr_int("blocksize", 1);
  if (!x || x->size() != 4 || block <= 0 || block >= (1 << 20)) return std::nullopt;
  if ((*x)[1] % (block * block) == 0) return std::nullopt;
  return fmt::format("{} channels are no blocks of {}", (*x)[1], block);
}

Refusal space_to_depth(const OperandSizes& o) {
  const auto x = o.dims(0);
  const std::int64_t block = o.node.attr_int("blocksize", 1);
  if (!x || x->size() != 4 || block <= 0) return std::nullopt;
  if ((*x)[2] % block == 0 && (*x)[3] % block == 0) return std::nullopt;
  return fmt::format("[{}] is not made of blocks of {}", fmt::join(*x, ","), block);
}

Refusal global_pool(const OperandSizes& o) {
  const auto x = o.dims(0);
  if (!x) return std::nullopt;
  const bool fits = x->size() >= 3 && std::find(x->begin() + 2, x->end(), 0) == x->end();
  if (fits) return std::nullopt;
  return fmt::format("[{}] has nothing to pool", fmt::join(*x, ","));
}

}  // namespace xrt
