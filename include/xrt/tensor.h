// SPDX-License-Identifier: Apache-2.0
// Tensors and what a value holds at run time.
//
// A Tensor is a dtype, a concrete shape and a shared, dense, row-major buffer, on the host unless
// it was wrapped as a device's. Copying a Tensor copies the handle, not the elements. A tensor over
// foreign memory keeps its owner alive.
//
//   Tensor t = Tensor::allocate(DType::kFloat32, {2, 3});
//   t.data<float>()[0] = 1.0F;
//   Tensor same = Tensor::wrap(DType::kFloat32, {2, 3}, pointer, owner);
//
// Thread-safety: as a shared_ptr: distinct handles may be used at once, elements are not guarded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/device.h"
#include "xrt/dtype.h"
#include "xrt/export.h"

namespace xrt {

using Dims = std::vector<std::int64_t>;  // a concrete shape; every entry >= 0

// Product of `dims`. Throws kInvalidArgument on a negative entry or on overflow of int64.
XRT_API std::int64_t element_count(std::span<const std::int64_t> dims);
// Bytes of a dense buffer: packed types are rounded up to a whole byte, a string counts
// sizeof(std::string). Throws on overflow.
XRT_API std::size_t byte_count(DType dtype, std::span<const std::int64_t> dims);
// "[2,3]"
XRT_API std::string to_string(std::span<const std::int64_t> dims);

class XRT_API Tensor {
 public:
  Tensor() = default;  // holds nothing: defined() is false

  // New uninitialised memory, 64-byte aligned (strings are constructed empty).
  static Tensor allocate(DType dtype, Dims dims);
  // Foreign memory of byte_count(dtype, dims) bytes; `owner` lives as long as any handle.
  static Tensor wrap(DType dtype, Dims dims, void* data, std::shared_ptr<const void> owner);
  // The same over memory of a device, whose elements are written already: no work on any stream is
  // to come that writes them. raw() and data() are then addresses on that device.
  static Tensor wrap(DType dtype, Dims dims, void* data, std::shared_ptr<const void> owner,
                     Device device);
  // New uninitialised memory on `device`. kNotFound where there is no driver for it.
  static Tensor allocate(DType dtype, Dims dims, Device device);
  // Copies `values` (T must match `dtype` in size).
  template <typename T>
  static Tensor from(DType dtype, Dims dims, std::span<const T> values) {
    Tensor t = allocate(dtype, std::move(dims));
    t.copy_from(values.data(), values.size_bytes());
    return t;
  }
  static Tensor scalar(float value);
  static Tensor scalar(std::int64_t value);
  static Tensor from_int64(std::span<const std::int64_t> values);  // rank 1
  static Tensor from_strings(Dims dims, std::vector<std::string> values);

  bool defined() const { return dtype_ != DType::kUndefined; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  std::size_t rank() const { return dims_.size(); }
  std::int64_t count() const { return count_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool on_host() const { return device_.is_host(); }
  // This tensor if it lies there, else a copy; returns when it is made.
  Tensor to(Device device) const;

  void* raw() { return data_; }
  const void* raw() const { return data_; }
  template <typename T>
  T* data() {
    return static_cast<T*>(data_);
  }
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(data_);
  }
  std::string* strings() { return data<std::string>(); }
  const std::string* strings() const { return data<std::string>(); }

  // The same buffer under another shape with as many elements; throws kInvalidArgument otherwise.
  Tensor reshaped(Dims dims) const;
  // A deep copy in memory of its own, on the same device.
  Tensor clone() const;
  // Elements equal bit for bit, and dtype and shape equal. Both lie on the host.
  bool identical(const Tensor& other) const;
  // Who keeps the memory alive (null for an empty tensor).
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // Integer elements (any integer dtype or bool) widened to int64; throws for another dtype.
  std::vector<std::int64_t> to_int64() const;

 private:
  void copy_from(const void* source, std::size_t bytes);

  DType dtype_ = DType::kUndefined;
  Dims dims_;
  std::int64_t count_ = 0;
  std::size_t bytes_ = 0;
  void* data_ = nullptr;
  Device device_;
  std::shared_ptr<const void> owner_;
};

// Copies the elements of `from` over those of `to`, of the same dtype (no strings) and byte count,
// between whatever devices; returns when they are written.
XRT_API void copy_elements(const Tensor& from, Tensor& to);

// What a value holds at run time: a tensor, a sequence (of tensors, or of anything, nested), or
// an empty optional. A filled optional is just what it holds.
class XRT_API Data {
 public:
  enum class Kind : std::uint8_t { kNone, kTensor, kSequence };

  Data() = default;    // kNone: an empty optional, or an output not yet written
  Data(Tensor tensor)  // NOLINT(google-explicit-constructor): a tensor is a value
      : kind_(tensor.defined() ? Kind::kTensor : Kind::kNone), tensor_(std::move(tensor)) {}
  static Data sequence(DType element_dtype, std::vector<Data> items);

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_tensor() const { return kind_ == Kind::kTensor; }
  bool is_sequence() const { return kind_ == Kind::kSequence; }

  // Throw kInvalidArgument if the value is of another kind.
  Tensor& tensor();
  const Tensor& tensor() const;
  const std::vector<Data>& items() const;
  // The items, to be changed; this value is empty afterwards. They are copied where another value
  // has the same ones.
  std::vector<Data> take_items();
  // dtype of the tensors of a sequence, also when the sequence is empty.
  DType sequence_dtype() const { return sequence_dtype_; }
  // Who keeps the items alive (null but for a sequence).
  std::shared_ptr<const void> items_owner() const { return items_; }

 private:
  Kind kind_ = Kind::kNone;
  Tensor tensor_;
  DType sequence_dtype_ = DType::kUndefined;
  std::shared_ptr<const std::vector<Data>> items_;
};

}  // namespace xrt
