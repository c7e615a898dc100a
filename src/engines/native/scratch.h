// SPDX-License-Identifier: Apache-2.0
// Memory that a kernel needs for itself, of as many elements as a dimension or a value says: it is
// on the account of the run (base/work_scope.h), as tensors are.
//
//   Scratch<double> row(static_cast<std::size_t>(columns));
//
// What is bounded by ranks, by numbers of operands or by attributes may be a std::vector.
#pragma once

#include <cstddef>
#include <vector>

namespace xrt::native {

// Throws Error(kResource) where the run may not have so much, or the machine does not.
void* allocate_scratch(std::size_t count, std::size_t each);
void free_scratch(void* memory) noexcept;

template <typename T>
class ScratchAllocator {
 public:
  using value_type = T;
  static_assert(alignof(T) <= alignof(std::max_align_t));

  ScratchAllocator() = default;
  template <typename U>
  ScratchAllocator(const ScratchAllocator<U>& /*other*/) noexcept {}  // NOLINT: a container's

  T* allocate(std::size_t count) { return static_cast<T*>(allocate_scratch(count, sizeof(T))); }
  void deallocate(T* memory, std::size_t /*count*/) noexcept { free_scratch(memory); }

  friend bool operator==(const ScratchAllocator& /*a*/, const ScratchAllocator& /*b*/) {
    return true;
  }
};

template <typename T>
using Scratch = std::vector<T, ScratchAllocator<T>>;

}  // namespace xrt::native
