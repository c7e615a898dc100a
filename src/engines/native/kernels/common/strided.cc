// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/common/strided.h"

#include <algorithm>
#include <cstring>

#include "base/element.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/text.h"
#include "engines/native/kernels/vector/vector_ops.h"

namespace xrt::native {

namespace {

// Drops axes of size 1 and merges neighbours that are one longer axis.
StridedView collapsed(const StridedView& view) {
  StridedView result;
  result.offset = view.offset;
  for (std::size_t i = 0; i < view.dims.size(); ++i) {
    if (view.dims[i] == 1) continue;
    if (!result.dims.empty() && result.strides.back() == view.strides[i] * view.dims[i]) {
      result.dims.back() *= view.dims[i];
      result.strides.back() = view.strides[i];
    } else {
      result.dims.push_back(view.dims[i]);
      result.strides.push_back(view.strides[i]);
    }
  }
  return result;
}

// Calls fn(source offset, row) for rows [begin, end) of the axes before the last `inner` ones.
template <typename F>
void for_rows(const StridedView& view, std::size_t outer_rank, std::int64_t begin, std::int64_t end,
              F&& fn) {
  Dims index(outer_rank);
  std::int64_t offset = view.offset;
  std::int64_t rest = begin;
  for (std::size_t a = outer_rank; a-- > 0;) {
    index[a] = rest % view.dims[a];
    rest /= view.dims[a];
    offset += index[a] * view.strides[a];
  }
  for (std::int64_t row = begin; row < end; ++row) {
    fn(offset, row);
    for (std::size_t a = outer_rank; a-- > 0;) {
      offset += view.strides[a];
      if (++index[a] < view.dims[a]) break;
      offset -= view.strides[a] * view.dims[a];
      index[a] = 0;
    }
  }
}

// The source's dense axis is `dense`, not the innermost: squares of both axes are copied, so that
// both sides use whole cache lines.
template <typename T>
void copy_transposed(const KernelContext& k, const T* source, StridedView view, std::size_t dense,
                     T* target) {
  const std::size_t last = view.dims.size() - 1;
  const Dims target_strides = dense_strides(view.dims);
  const std::int64_t rows = view.dims[dense];
  const std::int64_t columns = view.dims[last];
  const std::int64_t row_step = target_strides[dense];
  const std::int64_t column_step = view.strides[last];
  constexpr std::int64_t kTile = 16;
  // What is left: the axes besides the two.
  Dims dims, in_strides, out_strides;
  std::int64_t outer = 1;
  for (std::size_t a = 0; a < last; ++a) {
    if (a == dense) continue;
    dims.push_back(view.dims[a]);
    in_strides.push_back(view.strides[a]);
    out_strides.push_back(target_strides[a]);
    outer *= view.dims[a];
  }
  // Of few columns long pieces are together in the cache.
  const std::int64_t tile_rows = columns < kTile ? 64 * kTile : kTile;
  const std::int64_t tiles = (rows + tile_rows - 1) / tile_rows;
  const std::int64_t grain = std::max<std::int64_t>(8192 / (tile_rows * columns), 1);
  k.parallel_for(outer * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      std::int64_t rest = item / tiles;
      std::int64_t in = view.offset;
      std::int64_t out = 0;
      for (std::size_t a = dims.size(); a-- > 0;) {
        const std::int64_t i = rest % dims[a];
        rest /= dims[a];
        in += i * in_strides[a];
        out += i * out_strides[a];
      }
      const std::int64_t first = item % tiles * tile_rows;
      const std::int64_t count = std::min(tile_rows, rows - first);
      for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
        const std::int64_t c1 = std::min(c0 + kTile, columns);
        if constexpr (sizeof(T) <= 4) {
          constexpr int kSize = sizeof(T) == 4 ? 2 : sizeof(T) - 1;
          vector_ops().transpose[kSize](source + in + first + c0 * column_step, column_step,
                                        target + out + first * row_step + c0, row_step, count,
                                        c1 - c0);
          continue;
        }
        for (std::int64_t r = 0; r < count; ++r) {
          const T* from = source + in + first + r;
          T* to = target + out + (first + r) * row_step;
          for (std::int64_t c = c0; c < c1; ++c) assign_element(to[c], from[c * column_step]);
        }
      }
    }
  });
}

template <typename T>
void copy_typed(const KernelContext& k, const T* source, const StridedView& view, T* target) {
  if (view.dims.empty()) {
    assign_element(*target, source[view.offset]);
    return;
  }
  const std::size_t last = view.dims.size() - 1;
  const std::int64_t columns = view.dims[last];
  const std::int64_t step = view.strides[last];
  if (step != 1 && step != 0) {
    for (std::size_t a = 0; a < last; ++a) {
      if (view.strides[a] == 1 && view.dims[a] >= 4) {
        copy_transposed(k, source, view, a, target);
        return;
      }
    }
  }
  std::int64_t rows = 1;
  for (std::size_t a = 0; a < last; ++a) rows *= view.dims[a];
  const auto copy_row = [=](std::int64_t offset, T* to, std::int64_t n) {
    const T* from = source + offset;
    if (step == 1) {
      assign_elements(from, n, to);
    } else if (step == 0) {
      fill_elements(to, n, *from);
    } else {
      for (std::int64_t i = 0; i < n; ++i) assign_element(to[i], from[i * step]);
    }
  };
  if (rows == 1) {
    k.parallel_for(columns, 65536, [&](std::int64_t begin, std::int64_t end) {
      copy_row(view.offset + begin * step, target + begin, end - begin);
    });
    return;
  }
  const std::int64_t grain = std::max<std::int64_t>(16384 / columns, 1);
  k.parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for_rows(view, last, begin, end, [&](std::int64_t offset, std::int64_t row) {
      copy_row(offset, target + row * columns, columns);
    });
  });
}

}  // namespace

void copy_view(const KernelContext& context, const void* source, const StridedView& view,
               DType dtype, void* target) {
  if (std::find(view.dims.begin(), view.dims.end(), 0) != view.dims.end()) return;
  const StridedView simple = collapsed(view);
  dispatch_move(dtype, [&]<typename T>() {
    copy_typed(context, static_cast<const T*>(source), simple, static_cast<T*>(target));
  });
}

Tensor unpack_elements(const Tensor& packed) {
  Tensor bytes = Tensor::allocate(DType::kUInt8, packed.dims());
  const int bits = bit_width(packed.dtype());
  const int per_byte = 8 / bits;
  const auto* in = packed.data<std::uint8_t>();
  auto* out = bytes.data<std::uint8_t>();
  for (std::int64_t i = 0; i < packed.count(); ++i) {
    out[i] = in[i / per_byte] >> (i % per_byte * bits) & ((1 << bits) - 1);
  }
  return bytes;
}

void pack_elements(const Tensor& bytes, Tensor& packed) {
  const int bits = bit_width(packed.dtype());
  const int per_byte = 8 / bits;
  const auto* in = bytes.data<std::uint8_t>();
  auto* out = packed.data<std::uint8_t>();
  std::fill_n(out, packed.bytes(), std::uint8_t{0});
  for (std::int64_t i = 0; i < bytes.count(); ++i) {
    out[i / per_byte] = static_cast<std::uint8_t>(out[i / per_byte] | (in[i] & ((1 << bits) - 1))
                                                                          << (i % per_byte * bits));
  }
}

std::size_t element_size(DType dtype) {
  return dtype == DType::kString ? sizeof(std::string)
                                 : static_cast<std::size_t>(bit_width(dtype)) / 8;
}

void copy_elements(DType dtype, const void* source, std::int64_t source_index, void* target,
                   std::int64_t target_index, std::int64_t count) {
  if (count <= 0) return;
  if (dtype == DType::kString) {
    assign_elements(static_cast<const std::string*>(source) + source_index, count,
                    static_cast<std::string*>(target) + target_index);
    return;
  }
  if (is_packed(dtype)) {
    copy_packed_elements(dtype, source, source_index, target, target_index, count);
    return;
  }
  const std::size_t size = element_size(dtype);
  std::memcpy(static_cast<std::byte*>(target) + static_cast<std::size_t>(target_index) * size,
              static_cast<const std::byte*>(source) + static_cast<std::size_t>(source_index) * size,
              static_cast<std::size_t>(count) * size);
}

}  // namespace xrt::native
