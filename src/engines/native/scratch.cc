// SPDX-License-Identifier: Apache-2.0
#include "engines/native/scratch.h"

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/work_scope.h"
#include "xrt/error.h"

namespace xrt::native {
namespace {

constexpr std::size_t kLeastCharged = 4096;  // below, counting costs more than there is to count

// Before the elements.
struct alignas(std::max_align_t) Head {
  std::shared_ptr<MemoryAccount> account;
  std::size_t charged = 0;
};

}  // namespace

void* allocate_scratch(std::size_t count, std::size_t each) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, each, &bytes) || bytes > PTRDIFF_MAX - sizeof(Head)) {
    throw Error(ErrorCode::kResource, std::to_string(count) + " elements of " +
                                          std::to_string(each) +
                                          " bytes do not fit into this machine's memory");
  }
  Head head;
  if (bytes >= kLeastCharged)
    head = {WorkScope::charge(bytes, [] { return std::string("what is computed in between"); }),
            bytes};
  void* memory = ::operator new(sizeof(Head) + bytes, std::nothrow);
  if (memory == nullptr) {
    if (head.account != nullptr) {
      head.account->bytes.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    }
    throw Error(ErrorCode::kResource,
                std::to_string(bytes) + " bytes do not fit into this machine's free memory");
  }
  return new (memory) Head(std::move(head)) + 1;
}

void free_scratch(void* memory) noexcept {
  Head* const head = static_cast<Head*>(memory) - 1;
  if (head->account != nullptr) {
    head->account->bytes.fetch_sub(static_cast<std::int64_t>(head->charged),
                                   std::memory_order_relaxed);
  }
  head->~Head();
  ::operator delete(head);
}

}  // namespace xrt::native
