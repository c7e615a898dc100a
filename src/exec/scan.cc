// SPDX-License-Identifier: Apache-2.0
#include "exec/scan.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/element.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Room that is made at once for an output of a known greatest length: what is not written to costs
// address space, no memory.
constexpr std::int64_t kMaxReserved = std::int64_t{1} << 30;
// Room for the first parts of any other; it doubles.
constexpr std::int64_t kFirstBytes = std::int64_t{1} << 20;
// Where elements are read in place they must be aligned as engines like them.
constexpr std::uintptr_t kAlignment = 64;

std::size_t normalize(std::int64_t axis, std::size_t rank) {
  const auto r = static_cast<std::int64_t>(rank);
  if (axis < -r || axis >= r) {
    throw Error(ErrorCode::kInvalidArgument, "the scan axis " + std::to_string(axis) +
                                                 " is none of a value of rank " +
                                                 std::to_string(rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + r : axis);
}

std::int64_t product(const Dims& dims, std::size_t begin, std::size_t end) {
  return element_count(std::span(dims).subspan(begin, end - begin));
}

// `from` and `to` count elements.
void copy_elements(const Tensor& source, std::int64_t from, Tensor& target, std::int64_t to,
                   std::int64_t count) {
  if (count == 0) return;
  if (source.dtype() == DType::kString) {
    std::copy_n(source.strings() + from, count, target.strings() + to);
    return;
  }
  if (is_packed(source.dtype())) {
    copy_packed_elements(source.dtype(), source.raw(), from, target.raw(), to, count);
    return;
  }
  const std::size_t size = byte_count(source.dtype(), Dims{1});
  std::memcpy(target.data<std::byte>() + static_cast<std::size_t>(to) * size,
              source.data<std::byte>() + static_cast<std::size_t>(from) * size,
              static_cast<std::size_t>(count) * size);
}

}  // namespace

ScanInput::ScanInput(Tensor whole, std::int64_t axis, bool reverse)
    : whole_(std::move(whole)), reverse_(reverse), dims_(whole_.dims()) {
  const std::size_t a = normalize(axis, dims_.size());
  count_ = dims_[a];
  outer_ = product(dims_, 0, a);
  inner_ = product(dims_, a + 1, dims_.size());
  dims_.erase(dims_.begin() + static_cast<std::ptrdiff_t>(a));
}

Tensor ScanInput::at(std::int64_t t) {
  const std::int64_t index = reverse_ ? count_ - 1 - t : t;
  if (outer_ == 1 && whole_.dtype() != DType::kString && !is_packed(whole_.dtype())) {
    std::byte* place = whole_.data<std::byte>() + static_cast<std::size_t>(index * inner_) *
                                                      byte_count(whole_.dtype(), Dims{1});
    if (reinterpret_cast<std::uintptr_t>(place) % kAlignment == 0) {
      return Tensor::wrap(whole_.dtype(), dims_, place, whole_.owner());
    }
  }
  if (!part_.defined()) part_ = Tensor::allocate(whole_.dtype(), dims_);
  for (std::int64_t o = 0; o < outer_; ++o) {
    copy_elements(whole_, (o * count_ + index) * inner_, part_, o * inner_, inner_);
  }
  return part_;
}

ScanOutput::ScanOutput(Data target, std::int64_t length, std::int64_t axis, bool reverse)
    : target_(std::move(target)),
      limit_(length),
      given_axis_(axis),
      reverse_(reverse),
      is_exact_(true) {}

ScanOutput::ScanOutput(Data target, std::int64_t limit)
    : target_(std::move(target)), limit_(limit) {}

void ScanOutput::start(DType dtype, const Dims& part, std::int64_t capacity) {
  part_ = part;
  axis_ = normalize(given_axis_, part.size() + 1);
  outer_ = product(part, 0, axis_);
  inner_ = product(part, axis_, part.size());
  Dims dims = part;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis_), capacity);
  const bool fits = target_.is_tensor() && std::as_const(target_).tensor().dtype() == dtype &&
                    std::as_const(target_).tensor().dims() == dims;
  whole_ = fits ? target_.tensor() : Tensor::allocate(dtype, dims);
  capacity_ = capacity;
}

// Only along the first axis: the length is known where another one is asked for.
void ScanOutput::grow(std::int64_t capacity) {
  Dims dims = whole_.dims();
  dims[axis_] = capacity;
  Tensor larger = Tensor::allocate(whole_.dtype(), std::move(dims));
  copy_elements(whole_, 0, larger, 0, std::min(count_, capacity) * inner_);
  whole_ = std::move(larger);
  capacity_ = capacity;
}

void ScanOutput::add(const Tensor& part) {
  if (!whole_.defined()) {
    const auto bytes = static_cast<std::int64_t>(std::max<std::size_t>(part.bytes(), 1));
    const std::int64_t room = std::max<std::int64_t>(kFirstBytes / bytes, 2);
    const bool whole = is_exact_ || limit_ <= kMaxReserved / bytes;
    start(part.dtype(), part.dims(), whole ? limit_ : std::min(limit_, room));
  } else if (part.dims() != part_ || part.dtype() != whole_.dtype()) {
    throw Error(ErrorCode::kInvalidArgument, "a scanned output changes its shape from " +
                                                 to_string(part_) + " to " +
                                                 to_string(part.dims()));
  }
  if (count_ == capacity_) grow(capacity_ * 2);
  const std::int64_t index = reverse_ ? capacity_ - 1 - count_ : count_;
  for (std::int64_t o = 0; o < outer_; ++o) {
    copy_elements(part, o * inner_, whole_, (o * capacity_ + index) * inner_, inner_);
  }
  ++count_;
}

Tensor ScanOutput::finish(const Type& part) {
  if (!whole_.defined()) {
    Dims dims;
    if (part.has_rank()) {
      for (const Dim& dim : *part.shape) dims.push_back(dim.is_known() ? dim.value() : 0);
    }
    start(part.dtype, dims, 0);
  }
  if (count_ != capacity_) grow(count_);
  return whole_;
}

}  // namespace xrt
