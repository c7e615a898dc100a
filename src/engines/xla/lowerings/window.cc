// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/lowerings/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace xrt::xla {

Window read_window(NodeContext& c, const Dims& spatial, const Dims& kernel) {
  const std::size_t n = spatial.size();
  const auto read = [&](std::string_view name) {
    Dims values = c.node.attr_ints(name, Dims(n, 1));
    c.need(values.size() == n, fmt::format("the length of {}", name));
    return values;
  };
  Window w;
  w.kernel = kernel;
  c.need(kernel.size() == n, "the kernel's rank");
  w.strides = read("strides");
  w.dilations = read("dilations");
  const Dims pads = c.node.attr_ints("pads", Dims(2 * n, 0));
  c.need(pads.size() == 2 * n, "the length of pads");
  const std::string automatic = c.node.attr_string("auto_pad", "NOTSET");
  const bool ceil_mode = c.attr("ceil_mode", 0) != 0;
  for (std::size_t i = 0; i < n; ++i) {
    c.need(w.strides[i] > 0 && w.dilations[i] > 0 && kernel[i] > 0, "a stride or size of 0");
    const std::int64_t reach = (kernel[i] - 1) * w.dilations[i] + 1;
    std::pair<std::int64_t, std::int64_t> pad{0, 0};
    std::int64_t out = 0;
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      out = (spatial[i] + w.strides[i] - 1) / w.strides[i];
      const std::int64_t total =
          std::max<std::int64_t>((out - 1) * w.strides[i] + reach - spatial[i], 0);
      pad.first = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      pad.second = total - pad.first;
    } else {
      if (automatic != "VALID") pad = {pads[i], pads[i + n]};
      const std::int64_t room = spatial[i] + pad.first + pad.second - reach;
      c.need(room >= 0, "a window larger than its padded operand");
      out = (room + (ceil_mode ? w.strides[i] - 1 : 0)) / w.strides[i] + 1;
      // A window that would begin in the padding at the end does not count.
      if (ceil_mode && (out - 1) * w.strides[i] >= spatial[i] + pad.first) --out;
      const std::int64_t missing =
          (out - 1) * w.strides[i] + reach - spatial[i] - pad.first - pad.second;
      if (missing > 0) pad.second += missing;
    }
    w.pads.push_back(pad);
    w.out.push_back(out);
  }
  return w;
}

Tensor transpose_tensor(const Tensor& x, const Dims& permutation) {
  const std::size_t rank = permutation.size();
  Dims dims;
  Dims strides(rank, 1);
  for (std::size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * x.dims()[i];
  Dims steps;
  for (const std::int64_t axis : permutation) {
    dims.push_back(x.dims()[static_cast<std::size_t>(axis)]);
    steps.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  Tensor out = Tensor::allocate(x.dtype(), dims);
  if (out.count() == 0) return out;
  const auto width = static_cast<std::int64_t>(x.bytes() / static_cast<std::size_t>(x.count()));
  const auto* source = static_cast<const char*>(x.raw());
  auto* target = static_cast<char*>(out.raw());
  const std::int64_t inner = dims.back();
  const std::int64_t inner_step = steps.back();
  Dims index(rank, 0);
  std::int64_t offset = 0;
  const auto copy_rows = [&]<typename T>(T) {
    for (std::int64_t row = 0; row < out.count() / inner; ++row) {
      const T* from = reinterpret_cast<const T*>(source) + offset;
      T* to = reinterpret_cast<T*>(target) + row * inner;
      for (std::int64_t i = 0; i < inner; ++i) to[i] = from[i * inner_step];
      for (std::size_t axis = rank - 1; axis-- > 0;) {
        offset += steps[axis];
        if (++index[axis] < dims[axis]) break;
        offset -= steps[axis] * dims[axis];
        index[axis] = 0;
      }
    }
  };
  switch (width) {
    case 1:
      copy_rows(std::uint8_t{});
      break;
    case 2:
      copy_rows(std::uint16_t{});
      break;
    case 4:
      copy_rows(std::uint32_t{});
      break;
    case 8:
      copy_rows(std::uint64_t{});
      break;
    default:
      copy_rows(std::pair<std::uint64_t, std::uint64_t>{});
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
