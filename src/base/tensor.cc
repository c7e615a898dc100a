// SPDX-License-Identifier: Apache-2.0
#include "xrt/tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/memory.h"
#include "base/work_scope.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::size_t kAlignment = 64;

// Refuses what malloc would only fail on later: a size that no address space holds.
constexpr std::size_t kMaxBytes = std::size_t{1} << 46;

// From this size on memory is given only if the machine has it now, and is taken at once: else an
// allocation that is too large, or the second of two, succeeds and kills the process when it is
// written to.
constexpr std::size_t kLargeBytes = std::size_t{1} << 30;

// From this size on memory is asked for in huge pages, as NumPy does: the first touch of 4 KiB
// pages takes longer than many a kernel that writes to them.
constexpr std::size_t kHugeBytes = std::size_t{4} << 20;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// What a tensor takes on the heap beside its elements, with glibc on 64 bits: the block's alignment
// and header 80 bytes, who owns it 64, its dims 32, and its handle in a list that doubles 80 to
// 160. A tensor of float32[4] in a Loop's scanned output takes 390 bytes, of which its elements
// have 64. Counted of small tensors, beside which it is much.
constexpr std::size_t kBesideElements = 320;
constexpr std::size_t kSmallTensor = std::size_t{64} << 10;

std::size_t with_beside(std::size_t bytes) {
  return bytes <= kSmallTensor ? bytes + kBesideElements : bytes;
}

// Who owns the items of a sequence, and of each item the dims; the list itself is counted as it is.
constexpr std::size_t kBesideItems = 128;
constexpr std::size_t kBesideItem = 32;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

// Older kernels do not know the request; then pages come when they are written to.
void take_pages(void* memory, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
  constexpr int kPopulate = 23;  // of Linux 5.14
#endif
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / page * page;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, kPopulate);
}

// Frees what a tensor owns, and takes it off its account.
struct TensorMemory {
  std::shared_ptr<MemoryAccount> account;
  std::size_t bytes = 0;

  void leave(std::shared_ptr<MemoryAccount> next) {
    if (next != nullptr) next->bytes.fetch_add(to_count(), std::memory_order_relaxed);
    if (account != nullptr) account->bytes.fetch_sub(to_count(), std::memory_order_relaxed);
    account = std::move(next);
  }
  std::int64_t to_count() const { return static_cast<std::int64_t>(bytes); }
};

struct FreeElements : TensorMemory {
  void* block = nullptr;  // in which the elements lie aligned

  void operator()(void* /*elements*/) {
    std::free(block);  // NOLINT: pairs with what allocate_aligned() calls
    leave(nullptr);
  }
};

// aligned_alloc() of the C library finds no memory again that it gave before, up to version 2.37:
// what makes and frees small tensors by the million grows.
void* small_block(std::size_t bytes, void*& elements) {
  void* block = std::malloc(bytes + kAlignment);  // NOLINT: owned by FreeElements
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  elements = reinterpret_cast<void*>((address + kAlignment - 1) & ~(kAlignment - 1));
  return block;
}

struct FreeStrings : TensorMemory {
  bool has_characters = false;  // they are on the account, too

  void operator()(std::vector<std::string>* strings) {
    delete strings;
    leave(nullptr);
  }
};

struct FreeItems : TensorMemory {
  void operator()(const std::vector<Data>* items) {
    delete items;
    leave(nullptr);
  }
};

std::shared_ptr<void> allocate_aligned(std::size_t bytes, DType dtype, const Dims& dims) {
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + kAlignment - 1) & ~(kAlignment - 1);
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorCode::kResource, "cannot allocate " + std::to_string(bytes) +
                                          " bytes for a tensor " + std::string(to_string(dtype)) +
                                          to_string(dims) + reason);
  };
  if (rounded > kMaxBytes) refuse("");
  if (rounded >= kLargeBytes) {
    const std::size_t available = available_memory();
    if (rounded > available) refuse(": " + std::to_string(available) + " are free");
  }
  const std::size_t charged = with_beside(rounded);
  FreeElements free{{WorkScope::charge(charged, dtype, dims), charged}};
  const bool huge = rounded >= kHugeBytes;
  void* memory = nullptr;
  if (huge) {
    // Unlike aligned_alloc() of any number of bytes.
    if (::posix_memalign(&memory, kHugePage, rounded) == 0) free.block = memory;
  } else {
    free.block = small_block(rounded, memory);
  }
  if (free.block == nullptr) {
    free.leave(nullptr);
    refuse("");
  }
  // Advice that a kernel may leave unheeded. Only pages that are full: no byte more is taken.
  if (huge) ::madvise(memory, rounded / kHugePage * kHugePage, MADV_HUGEPAGE);
  if (rounded >= kLargeBytes) take_pages(memory, rounded);
  return {memory, std::move(free)};
}

}  // namespace

std::int64_t element_count(std::span<const std::int64_t> dims) {
  std::int64_t count = 1;
  bool zero = false;
  for (const std::int64_t d : dims) {
    if (d < 0) fail("a shape has the negative dimension " + std::to_string(d));
    zero = zero || d == 0;
  }
  if (zero) return 0;
  for (const std::int64_t d : dims) {
    if (__builtin_mul_overflow(count, d, &count)) {
      fail("the shape " + to_string(dims) + " has more elements than int64 can count");
    }
  }
  return count;
}

std::size_t byte_count(DType dtype, std::span<const std::int64_t> dims) {
  const auto count = static_cast<std::uint64_t>(element_count(dims));
  const std::uint64_t bits = dtype == DType::kString ? sizeof(std::string) * 8
                                                     : static_cast<std::uint64_t>(bit_width(dtype));
  if (bits < 8) return static_cast<std::size_t>(count / 8 * bits + (count % 8 * bits + 7) / 8);
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, bits / 8, &bytes)) {
    fail("a tensor " + std::string(to_string(dtype)) + to_string(dims) + " is too large");
  }
  return bytes;
}

std::string to_string(std::span<const std::int64_t> dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

Tensor Tensor::allocate(DType dtype, Dims dims) {
  if (dtype == DType::kUndefined) fail("a tensor needs a dtype");
  Tensor t;
  t.dtype_ = dtype;
  t.count_ = element_count(dims);
  t.bytes_ = byte_count(dtype, dims);
  if (dtype == DType::kString) {
    if (t.bytes_ > kMaxBytes || (t.bytes_ >= kLargeBytes && t.bytes_ > available_memory())) {
      throw Error(ErrorCode::kResource, "cannot allocate a tensor string" + to_string(dims));
    }
    const std::size_t charged = with_beside(t.bytes_);
    FreeStrings free{{WorkScope::charge(charged, dtype, dims), charged}};
    try {
      auto strings = std::make_unique<std::vector<std::string>>(static_cast<std::size_t>(t.count_));
      t.data_ = strings->data();
      t.owner_ = std::shared_ptr<std::vector<std::string>>(strings.release(), std::move(free));
    } catch (const std::bad_alloc&) {
      free.leave(nullptr);
      throw Error(ErrorCode::kResource, "cannot allocate a tensor string" + to_string(dims));
    }
  } else {
    auto memory = allocate_aligned(t.bytes_, dtype, dims);
    t.data_ = memory.get();
    t.owner_ = std::move(memory);
  }
  t.dims_ = std::move(dims);
  return t;
}

Tensor Tensor::wrap(DType dtype, Dims dims, void* data, std::shared_ptr<const void> owner) {
  if (dtype == DType::kUndefined) fail("a tensor needs a dtype");
  Tensor t;
  t.dtype_ = dtype;
  t.count_ = element_count(dims);
  t.bytes_ = byte_count(dtype, dims);
  if (data == nullptr && t.count_ > 0) fail("a tensor " + to_string(dims) + " over a null pointer");
  t.dims_ = std::move(dims);
  t.data_ = data;
  t.owner_ = std::move(owner);
  return t;
}

Tensor Tensor::wrap(DType dtype, Dims dims, void* data, std::shared_ptr<const void> owner,
                    Device device) {
  if (!device.is_host() && (dtype == DType::kString || is_packed(dtype))) {
    fail("a tensor of " + std::string(to_string(dtype)) + " cannot lie on " + to_string(device));
  }
  Tensor t = wrap(dtype, std::move(dims), data, std::move(owner));
  t.device_ = device;
  return t;
}

Tensor Tensor::scalar(float value) {
  return from<float>(DType::kFloat32, {}, std::span<const float>(&value, 1));
}

Tensor Tensor::scalar(std::int64_t value) {
  return from<std::int64_t>(DType::kInt64, {}, std::span<const std::int64_t>(&value, 1));
}

Tensor Tensor::from_int64(std::span<const std::int64_t> values) {
  return from<std::int64_t>(DType::kInt64, {static_cast<std::int64_t>(values.size())}, values);
}

Tensor Tensor::from_strings(Dims dims, std::vector<std::string> values) {
  Tensor t = allocate(DType::kString, std::move(dims));
  if (static_cast<std::size_t>(t.count_) != values.size()) {
    fail("a string tensor " + to_string(t.dims_) + " was given " + std::to_string(values.size()) +
         " strings");
  }
  std::move(values.begin(), values.end(), t.strings());
  return t;
}

void Tensor::copy_from(const void* source, std::size_t bytes) {
  if (bytes != bytes_ || dtype_ == DType::kString) {
    fail("a tensor " + std::string(to_string(dtype_)) + to_string(dims_) + " takes " +
         std::to_string(bytes_) + " bytes, not " + std::to_string(bytes));
  }
  if (bytes > 0) std::memcpy(data_, source, bytes);
}

Tensor Tensor::reshaped(Dims dims) const {
  if (element_count(dims) != count_) {
    fail("a tensor " + to_string(dims_) + " cannot take the shape " + to_string(dims));
  }
  Tensor t = *this;
  t.dims_ = std::move(dims);
  return t;
}

Tensor Tensor::clone() const {
  if (!defined()) return {};
  Tensor t = allocate(dtype_, dims_, device_);
  if (!on_host()) {
    copy_elements(*this, t);
  } else if (dtype_ == DType::kString) {
    std::copy_n(strings(), count_, t.strings());
  } else if (bytes_ > 0) {
    std::memcpy(t.data_, data_, bytes_);
  }
  return t;
}

bool Tensor::identical(const Tensor& other) const {
  if (dtype_ != other.dtype_ || dims_ != other.dims_) return false;
  if (data_ == other.data_ || count_ == 0) return true;
  if (dtype_ == DType::kString) return std::equal(strings(), strings() + count_, other.strings());
  return std::memcmp(data_, other.data_, bytes_) == 0;
}

void settle_characters(const Data& data) {
  if (data.is_sequence()) {
    for (const Data& item : data.items()) settle_characters(item);
    return;
  }
  if (!data.is_tensor() || data.tensor().dtype() != DType::kString) return;
  const Tensor& tensor = data.tensor();
  FreeStrings* memory = std::get_deleter<FreeStrings>(tensor.owner());
  if (memory == nullptr || memory->account == nullptr || memory->has_characters) return;
  memory->has_characters = true;
  std::size_t bytes = 0;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const std::size_t held = tensor.strings()[i].capacity();
    if (held > kCharactersInPlace) bytes += held + kBesideCharacters;
  }
  memory->bytes += bytes;
  memory->account->bytes.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
}

void hand_over(const Data& data, const MemoryAccount* from,
               const std::shared_ptr<MemoryAccount>& to) {
  if (data.is_sequence()) {
    for (const Data& item : data.items()) hand_over(item, from, to);
    TensorMemory* items = std::get_deleter<FreeItems>(data.items_owner());
    if (items != nullptr && items->account.get() == from) items->leave(to);
    return;
  }
  if (!data.is_tensor()) return;
  const std::shared_ptr<const void>& owner = data.tensor().owner();
  TensorMemory* memory = std::get_deleter<FreeElements>(owner);
  if (memory == nullptr) memory = std::get_deleter<FreeStrings>(owner);
  if (memory != nullptr && memory->account.get() == from) memory->leave(to);
}

namespace {

template <typename T>
std::vector<std::int64_t> widen(const void* data, std::int64_t count) {
  const T* p = static_cast<const T*>(data);
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  std::transform(p, p + count, out.begin(), [](T v) { return static_cast<std::int64_t>(v); });
  return out;
}

// Elements of less than a byte, low bits first.
std::vector<std::int64_t> widen_packed(const void* data, std::int64_t count, int bits,
                                       bool is_signed) {
  const auto* p = static_cast<const std::uint8_t*>(data);
  const std::int64_t per_byte = 8 / bits;
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t v = (p[i / per_byte] >> (i % per_byte * bits)) & ((1 << bits) - 1);
    if (is_signed && (v & (1 << (bits - 1))) != 0) v -= std::int64_t{1} << bits;
    out[static_cast<std::size_t>(i)] = v;
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> Tensor::to_int64() const {
  if (!on_host()) return to({}).to_int64();
  switch (dtype_) {
    case DType::kInt64:
    case DType::kUInt64:
      return widen<std::int64_t>(data_, count_);
    case DType::kInt32:
      return widen<std::int32_t>(data_, count_);
    case DType::kUInt32:
      return widen<std::uint32_t>(data_, count_);
    case DType::kInt16:
      return widen<std::int16_t>(data_, count_);
    case DType::kUInt16:
      return widen<std::uint16_t>(data_, count_);
    case DType::kInt8:
      return widen<std::int8_t>(data_, count_);
    case DType::kUInt8:
    case DType::kBool:
      return widen<std::uint8_t>(data_, count_);
    case DType::kInt4:
    case DType::kUInt4:
    case DType::kInt2:
    case DType::kUInt2:
      return widen_packed(data_, count_, bit_width(dtype_), is_signed_integer(dtype_));
    default:
      fail("a tensor of dtype " + std::string(to_string(dtype_)) + " is not of integers");
  }
}

Data Data::sequence(DType element_dtype, std::vector<Data> items) {
  Data d;
  d.kind_ = Kind::kSequence;
  d.sequence_dtype_ = element_dtype;
  const std::size_t bytes =
      kBesideItems + items.capacity() * sizeof(Data) + items.size() * kBesideItem;
  FreeItems free{
      {WorkScope::charge(
           bytes, [&] { return "a sequence of " + std::to_string(items.size()) + " values"; }),
       bytes}};
  // Not of const: take_items() changes it.
  auto own = std::make_unique<std::vector<Data>>(std::move(items));
  d.items_ = std::shared_ptr<const std::vector<Data>>(own.release(), std::move(free));
  return d;
}

std::vector<Data> Data::take_items() {
  std::vector<Data> taken;
  const std::vector<Data>& held = items();
  if (items_.use_count() == 1) {
    // What another thread read there before it let go of it, it has read.
    std::atomic_thread_fence(std::memory_order_acquire);
    taken = std::move(const_cast<std::vector<Data>&>(held));
  } else {
    taken = held;
  }
  *this = Data();
  return taken;
}

Tensor& Data::tensor() {
  if (!is_tensor())
    fail(is_none() ? "the value is empty, not a tensor" : "the value is a sequence");
  return tensor_;
}

const Tensor& Data::tensor() const { return const_cast<Data*>(this)->tensor(); }

const std::vector<Data>& Data::items() const {
  if (!is_sequence())
    fail(is_none() ? "the value is empty, not a sequence" : "the value is a tensor");
  return *items_;
}

}  // namespace xrt
