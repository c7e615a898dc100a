// SPDX-License-Identifier: Apache-2.0
// Rows of a tensor along one of its axes, as bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "xrt/dtype.h"
#include "xrt/tensor.h"

namespace xrt {

// A tensor as `outer` pieces of rows of `row_bytes` each, along an axis.
struct RowLayout {
  std::size_t outer = 1, row_bytes = 0;
};
RowLayout row_layout(const Tensor& tensor, std::size_t axis);

// Whether rows can be copied by their bytes.
bool has_whole_bytes(DType dtype);

// Bytes of one tensor to another one; each lies on the host or on a device.
void copy_bytes(const Tensor& from, std::size_t from_at, Tensor& to, std::size_t to_at,
                std::size_t bytes);

// Rows `first` to `first + count`: in the tensor's memory where they lie together there, else a
// copy.
Tensor rows_of(const Tensor& tensor, std::size_t axis, std::int64_t first, std::int64_t count);

// Copies the first `count` rows of `from` to the rows of `to` that begin at `first`. They are alike
// but for the number of rows.
void copy_rows(const Tensor& from, Tensor& to, std::size_t axis, std::int64_t first,
               std::int64_t count);

}  // namespace xrt
