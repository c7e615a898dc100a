// SPDX-License-Identifier: Apache-2.0
// Elements of tensors of any dtype.
#pragma once

#include <cstdint>

#include "xrt/export.h"
#include "xrt/tensor.h"

namespace xrt {

// The i-th element as a number (the real part of a complex one). Throws kInvalidArgument for
// strings.
XRT_API double element_as_double(const Tensor& tensor, std::int64_t i);

// Copies elements that are narrower than a byte; the elements around them stay. Indices and `count`
// are in elements.
XRT_API void copy_packed_elements(DType dtype, const void* source, std::int64_t source_index,
                                  void* target, std::int64_t target_index, std::int64_t count);

}  // namespace xrt
