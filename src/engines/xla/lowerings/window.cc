// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/lowerings/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace xrt::xla {

Window read_window(NodeContext& c, const Dims& spatial, const Dims& kernel) {
  const std::size_t n = spatial.size();
  Window w;
  w.kernel = kernel;
  c.need(kernel.size() == n, "the kernel's rank");
  c.need(!c.node.has("auto_pad"), "auto_pad with spatial sizes that the graph does not tell");
  w.strides = need_ints(c.node, "strides");
  w.dilations = need_ints(c.node, "dilations");
  const Dims pads = need_ints(c.node, "pads");
  c.need(w.strides.size() == n && w.dilations.size() == n && pads.size() == 2 * n,
         "the lengths of strides, dilations and pads");
  const bool ceil_mode = c.node.attr_int("ceil_mode", 0) != 0;  // convolutions have none
  for (std::size_t i = 0; i < n; ++i) {
    c.need(w.strides[i] > 0 && w.dilations[i] > 0 && kernel[i] > 0, "a stride or size of 0");
    const std::int64_t reach = (kernel[i] - 1) * w.dilations[i] + 1;
    std::pair<std::int64_t, std::int64_t> pad{pads[i], pads[i + n]};
    const std::int64_t room = spatial[i] + pad.first + pad.second - reach;
    c.need(room >= 0, "a window larger than its padded operand");
    std::int64_t out = (room + (ceil_mode ? w.strides[i] - 1 : 0)) / w.strides[i] + 1;
    // A window that would begin in the padding at the end does not count.
    if (ceil_mode && (out - 1) * w.strides[i] >= spatial[i] + pad.first) --out;
    const std::int64_t missing =
        (out - 1) * w.strides[i] + reach - spatial[i] - pad.first - pad.second;
    if (missing > 0) pad.second += missing;
    w.pads.push_back(pad);
    w.out.push_back(out);
  }
  return w;
}

Tensor transpose_tensor(const Tensor& x, const Dims& permutation) {
  const std::size_t rank = permutation.size();
  Dims dims;
  for (const std::int64_t axis : permutation) {
    dims.push_back(x.dims()[static_cast<std::size_t>(axis)]);
  }
  Tensor out = Tensor::allocate(x.dtype(), dims);
  if (out.count() == 0 || rank == 0) {
    std::memcpy(out.raw(), x.raw(), x.bytes());
    return out;
  }
  // The target is rows along its last axis. In the source that axis has a stride; the places of
  // all other axes, in the source's order, are one sequence. Going through that sequence for a few
  // elements of the row at a time reads a few forward streams and writes whole cache lines.
  const auto row_axis = static_cast<std::size_t>(permutation.back());
  const std::int64_t row = dims.back();
  std::int64_t stride = 1;
  for (std::size_t i = row_axis + 1; i < rank; ++i) stride *= x.dims()[i];
  // Target stride of each source axis, counted in rows.
  Dims row_strides(rank, 0);
  std::int64_t rows = 1;
  for (std::size_t i = rank - 1; i-- > 0;) {
    row_strides[static_cast<std::size_t>(permutation[i])] = rows;
    rows *= dims[i];
  }
  std::vector<std::int64_t> target_rows;
  target_rows.reserve(static_cast<std::size_t>(rows));
  Dims index(rank, 0);
  std::int64_t target_row = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    target_rows.push_back(target_row);
    for (std::size_t i = rank; i-- > 0;) {
      if (i == row_axis) continue;
      target_row += row_strides[i];
      if (++index[i] < x.dims()[i]) break;
      target_row -= row_strides[i] * x.dims()[i];
      index[i] = 0;
    }
  }
  const auto copy = [&]<typename T>(T) {
    constexpr std::int64_t kTile = 16;
    const T* from = static_cast<const T*>(x.raw());
    T* to = static_cast<T*>(out.raw());
    for (std::int64_t first = 0; first < row; first += kTile) {
      const std::int64_t end = std::min(first + kTile, row);
      for (std::int64_t r = 0; r < rows; ++r) {
        const T* place = from + r / stride * stride * row + r % stride;
        T* result = to + target_rows[static_cast<std::size_t>(r)] * row;
        for (std::int64_t k = first; k < end; ++k) result[k] = place[k * stride];
      }
    }
  };
  switch (x.bytes() / static_cast<std::size_t>(x.count())) {
    case 1:
      copy(std::uint8_t{});
      break;
    case 2:
      copy(std::uint16_t{});
      break;
    case 4:
      copy(std::uint32_t{});
      break;
    case 8:
      copy(std::uint64_t{});
      break;
    default:
      copy(std::pair<std::uint64_t, std::uint64_t>{});
      break;
  }
  return out;
}

Tensor reverse_tensor(const Tensor& x, const Dims& axes) {
  Tensor out = Tensor::allocate(x.dtype(), x.dims());
  if (x.count() == 0) return out;
  const std::size_t width = x.bytes() / static_cast<std::size_t>(x.count());
  for (std::int64_t flat = 0; flat < x.count(); ++flat) {
    std::int64_t rest = flat;
    std::int64_t from = 0;
    std::int64_t stride = 1;
    for (std::size_t i = x.rank(); i-- > 0;) {
      const std::int64_t size = x.dims()[i];
      const std::int64_t at = rest % size;
      rest /= size;
      const bool flip =
          std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
      from += (flip ? size - 1 - at : at) * stride;
      stride *= size;
    }
    std::memcpy(static_cast<char*>(out.raw()) + static_cast<std::size_t>(flat) * width,
                static_cast<const char*>(x.raw()) + static_cast<std::size_t>(from) * width, width);
  }
  return out;
}

}  // namespace xrt::xla
