// SPDX-License-Identifier: Apache-2.0
#include "program/rows.h"

#include <cstring>
#include <memory>
#include <utility>

namespace xrt {

RowLayout row_layout(const Tensor& tensor, std::size_t axis) {
  RowLayout layout;
  std::int64_t row = 1;
  for (std::size_t d = 0; d < tensor.rank(); ++d) {
    if (d < axis) layout.outer *= static_cast<std::size_t>(tensor.dims()[d]);
    if (d > axis) row *= tensor.dims()[d];
  }
  layout.row_bytes = byte_count(tensor.dtype(), Dims{row});
  return layout;
}

bool has_whole_bytes(DType dtype) { return dtype != DType::kString && bit_width(dtype) >= 8; }

void copy_bytes(const Tensor& from, std::size_t from_at, Tensor& to, std::size_t to_at,
                std::size_t bytes) {
  if (bytes == 0) return;
  const auto* source = static_cast<const std::byte*>(from.raw()) + from_at;
  auto* target = static_cast<std::byte*>(to.raw()) + to_at;
  if (from.on_host() && to.on_host()) {
    std::memcpy(target, source, bytes);
    return;
  }
  const auto as_bytes = [&](const std::byte* data, Device device) {
    return Tensor::wrap(DType::kUInt8, {static_cast<std::int64_t>(bytes)},
                        const_cast<std::byte*>(data), nullptr, device);
  };
  Tensor written = as_bytes(target, to.device());
  copy_elements(as_bytes(source, from.device()), written);
}

Tensor rows_of(const Tensor& tensor, std::size_t axis, std::int64_t first, std::int64_t count) {
  Dims dims = tensor.dims();
  dims[axis] = count;
  const RowLayout layout = row_layout(tensor, axis);
  const std::size_t before = static_cast<std::size_t>(first) * layout.row_bytes;
  if (layout.outer == 1) {
    auto* memory = static_cast<std::byte*>(const_cast<void*>(tensor.raw())) + before;
    return Tensor::wrap(tensor.dtype(), std::move(dims), memory,
                        std::make_shared<const Tensor>(tensor), tensor.device());
  }
  Tensor own = Tensor::allocate(tensor.dtype(), std::move(dims), tensor.device());
  const std::size_t piece = static_cast<std::size_t>(tensor.dims()[axis]) * layout.row_bytes;
  const std::size_t bytes = static_cast<std::size_t>(count) * layout.row_bytes;
  for (std::size_t i = 0; i < layout.outer; ++i) {
    copy_bytes(tensor, i * piece + before, own, i * bytes, bytes);
  }
  return own;
}

void copy_rows(const Tensor& from, Tensor& to, std::size_t axis, std::int64_t first,
               std::int64_t count) {
  const RowLayout layout = row_layout(from, axis);
  const std::size_t from_piece = static_cast<std::size_t>(from.dims()[axis]) * layout.row_bytes;
  const std::size_t to_piece = static_cast<std::size_t>(to.dims()[axis]) * layout.row_bytes;
  const std::size_t before = static_cast<std::size_t>(first) * layout.row_bytes;
  for (std::size_t i = 0; i < layout.outer; ++i) {
    copy_bytes(from, i * from_piece, to, i * to_piece + before,
               static_cast<std::size_t>(count) * layout.row_bytes);
  }
}

}  // namespace xrt
