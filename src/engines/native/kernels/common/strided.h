// SPDX-License-Identifier: Apache-2.0
// Copies between tensors whose elements lie at regular distances.
#pragma once

#include <cstdint>

#include "engines/native/kernels/common/axes.h"
#include "xrt/tensor.h"

namespace xrt::native {

// Elements of a buffer: element (i0, i1, …) is at offset + Σ i_k · strides[k], in elements.
// Strides may be 0 (repeated) or negative.
struct StridedView {
  Dims dims;
  Dims strides;
  std::int64_t offset = 0;
};

// `target` densely filled with the view's elements of `source`. Strings are copied; packed types
// are not taken.
void copy_view(const KernelContext& context, const void* source, const StridedView& view,
               DType dtype, void* target);

// Packed elements as one byte each, and back (the low bits of each byte).
Tensor unpack_elements(const Tensor& packed);
void pack_elements(const Tensor& bytes, Tensor& packed);

// Bytes that one element takes in memory (a string: sizeof(std::string)); not for packed types.
std::size_t element_size(DType dtype);
// `count` elements, strings included.
void copy_elements(DType dtype, const void* source, std::int64_t source_index, void* target,
                   std::int64_t target_index, std::int64_t count);

}  // namespace xrt::native
