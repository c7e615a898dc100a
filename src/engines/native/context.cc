// SPDX-License-Identifier: Apache-2.0
#include "engines/native/context.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "engines/native/executable.h"
#include "engines/native/kernels/common/text.h"

namespace xrt::native {

namespace {

bool matches(const Tensor& tensor, DType dtype, const Dims& dims) {
  return tensor.dtype() == dtype && tensor.dims() == dims;
}

Tensor arena_tensor(const SlotPlan& plan, Tensor& arena) {
  return Tensor::wrap(plan.dtype, plan.dims, arena.data<std::byte>() + plan.offset, arena.owner());
}

}  // namespace

Tensor allocate_checked(DType dtype, const Dims& dims) {
  try {
    return Tensor::allocate(dtype, dims);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kResource) throw;
    throw Error(ErrorCode::kResource,
                "a " + std::string(to_string(dtype)) + " tensor of shape " +
                    to_string(std::span<const std::int64_t>(dims)) +
                    " does not fit into this machine's free memory: " + error.what());
  }
}

NativeContext::NativeContext(std::span<const SlotPlan> plan, std::size_t arena_bytes)
    : values(plan.size()),
      targets(plan.size()),
      plan_(plan),
      uses_(plan.size()),
      own_(plan.size()) {
  if (arena_bytes > 0) {
    arena_ = allocate_checked(DType::kUInt8, {static_cast<std::int64_t>(arena_bytes)});
  }
  for (std::size_t i = 0; i < plan.size(); ++i) {
    values[i] = &own_[i];
    targets[i] = &own_[i];
    if (plan[i].kind == SlotKind::kConstant) own_[i] = Data(plan[i].constant);
    if (plan[i].kind == SlotKind::kArena) own_[i] = Data(arena_tensor(plan[i], arena_));
  }
  kernel.owner_ = this;
}

Tensor& NativeContext::prepare(std::int32_t slot, DType dtype, const Dims& dims) {
  Data& target = *targets[slot];
  const SlotKind kind = plan_[slot].kind;
  if (kind == SlotKind::kArena || kind == SlotKind::kOutput) {
    if (target.is_tensor()) {
      if (matches(target.tensor(), dtype, dims)) return target.tensor();
      if (kind == SlotKind::kOutput) {
        throw Error(ErrorCode::kInvalidArgument,
                    "the output is " + std::string(to_string(dtype)) +
                        to_string(std::span<const std::int64_t>(dims)) +
                        ", but by the model, or the memory given for it, " +
                        std::string(to_string(target.tensor().dtype())) +
                        to_string(std::span<const std::int64_t>(target.tensor().dims())));
      }
    }
    // The declared shape was not the real one: this run uses memory beside the plan.
    if (kind == SlotKind::kArena) displaced_.push_back(slot);
  }
  const bool is_own = kind == SlotKind::kDynamic && dtype != DType::kString;
  target = Data(is_own ? take_block(dtype, dims) : allocate_checked(dtype, dims));
  return target.tensor();
}

Tensor NativeContext::take_block(DType dtype, const Dims& dims) {
  constexpr std::size_t kLeastBytes = 4096;  // below, there is little to gain
  const std::size_t bytes = byte_count(dtype, dims);
  if (bytes < kLeastBytes) return allocate_checked(dtype, dims);
  Tensor* best = nullptr;     // the smallest that is large enough
  Tensor* largest = nullptr;  // of those that are free
  for (Tensor& block : blocks_) {
    if (block.owner().use_count() != 1) continue;
    if (block.bytes() >= bytes && (best == nullptr || block.bytes() < best->bytes())) {
      best = &block;
    }
    if (largest == nullptr || block.bytes() > largest->bytes()) largest = &block;
  }
  if (best == nullptr) {
    // One that is too small makes room: there are no more blocks than values that live at once.
    if (largest != nullptr) blocks_.erase(blocks_.begin() + (largest - blocks_.data()));
    blocks_.push_back(allocate_checked(DType::kUInt8, {static_cast<std::int64_t>(bytes)}));
    best = &blocks_.back();
  }
  // What another thread read there before it let go of it, it has read.
  std::atomic_thread_fence(std::memory_order_acquire);
  return Tensor::wrap(dtype, dims, best->data<std::byte>(), best->owner());
}

void NativeContext::prepare_view(std::int32_t slot, const Tensor& source, const Dims& dims) {
  Data& target = *targets[slot];
  if (plan_[slot].kind == SlotKind::kView) {
    if (target.is_tensor() && target.tensor().raw() == source.raw() &&
        matches(target.tensor(), source.dtype(), dims)) {
      return;
    }
    target = Data(source.reshaped(dims));
    return;
  }
  Tensor& copy = prepare(slot, source.dtype(), dims);
  if (copy.count() != source.count()) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot view " + to_string(std::span<const std::int64_t>(source.dims())) + " as " +
                    to_string(std::span<const std::int64_t>(dims)));
  }
  if (source.dtype() == DType::kString) {
    assign_elements<std::string>(source.strings(), source.count(), copy.strings());
  } else if (copy.bytes() > 0) {
    std::memcpy(copy.raw(), source.raw(), source.bytes());
  }
}

void NativeContext::store(std::int32_t slot, Data data) {
  Data& target = *targets[slot];
  if (plan_[slot].kind == SlotKind::kArena) displaced_.push_back(slot);
  if (plan_[slot].kind == SlotKind::kOutput && target.is_tensor()) {
    const Tensor& source = data.tensor();
    Tensor& copy = prepare(slot, source.dtype(), source.dims());
    if (source.dtype() == DType::kString) {
      assign_elements<std::string>(source.strings(), source.count(), copy.strings());
    } else if (copy.bytes() > 0) {
      std::memmove(copy.raw(), source.raw(), source.bytes());
    }
    return;
  }
  target = std::move(data);
}

Data NativeContext::take(std::int32_t slot) {
  if (borrowed(slot)) return clone_data(*values[slot]);
  const SlotKind kind = plan_[slot].kind;
  if (kind == SlotKind::kDynamic) return std::exchange(own_[slot], Data());
  if (kind == SlotKind::kInput && uses_[slot] == InputUse::kGiven) {
    return std::exchange(const_cast<Data&>(*values[slot]), Data());
  }
  return *values[slot];
}

Tensor& NativeContext::discard(DType dtype, const Dims& dims) {
  discarded_.push_back(allocate_checked(dtype, dims));
  return discarded_.back();
}

std::byte* NativeContext::scratch(std::size_t bytes) {
  if (!scratch_.defined() || scratch_.bytes() < bytes) {
    scratch_ = Tensor();
    scratch_ = allocate_checked(DType::kUInt8, {static_cast<std::int64_t>(bytes)});
  }
  return scratch_.data<std::byte>();
}

void NativeContext::finish() {
  discarded_.clear();
  for (const std::int32_t slot : displaced_) {
    own_[slot] = Data(arena_tensor(plan_[slot], arena_));
  }
  displaced_.clear();
}

}  // namespace xrt::native
