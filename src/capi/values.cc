// SPDX-License-Identifier: Apache-2.0
// Values of the C API: tensors in memory of the caller or of the library, strings, sequences.
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capi/border.h"
#include "xrt/dtype.h"

namespace {

using xrt::Data;
using xrt::Device;
using xrt::Dims;
using xrt::DType;
using xrt::Error;
using xrt::ErrorCode;
using xrt::Tensor;
using xrt::capi::check_size;
using xrt::capi::guarded;
using xrt::capi::need;
using xrt::capi::need_array;
using xrt::capi::new_value;

[[noreturn]] void fail(const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, problem);
}

bool is_dtype(xrt_dtype dtype) { return dtype > 0 && dtype < xrt::kDTypeCount; }

DType dtype_of(xrt_dtype dtype) {
  if (!is_dtype(dtype)) fail("there is no dtype " + std::to_string(dtype));
  return static_cast<DType>(dtype);
}

Dims dims_of(const int64_t* dims, std::size_t rank) {
  if (rank > XRT_MAX_RANK) {
    fail("the rank is " + std::to_string(rank) + "; at most " + std::to_string(XRT_MAX_RANK) +
         " is possible");
  }
  need_array(dims, rank, "dims");
  Dims copy;
  if (rank > 0) copy.assign(dims, dims + rank);
  return copy;
}

// Engines read elements through pointers of their type.
void check_alignment(const void* data, DType dtype) {
  constexpr std::size_t kMost = 8;  // of complex128: that of its parts
  std::size_t wanted = static_cast<std::size_t>(xrt::bit_width(dtype)) / 8;
  if (wanted > kMost) wanted = kMost;
  if (wanted > 1 && reinterpret_cast<std::uintptr_t>(data) % wanted != 0) {
    fail("data is not aligned to an element of " + std::string(to_string(dtype)) + ", " +
         std::to_string(wanted) + " bytes");
  }
}

const Tensor* tensor_of(const xrt_value* value) {
  return value != nullptr && value->data.is_tensor() ? &value->data.tensor() : nullptr;
}

}  // namespace

namespace xrt::capi {

xrt_value* new_value(Data data) {
  std::string device;
  if (data.is_tensor()) device = to_string(data.tensor().device());
  return new xrt_value{std::move(data), std::move(device)};
}

}  // namespace xrt::capi

const char* xrt_dtype_name(xrt_dtype dtype) {
  return is_dtype(dtype) ? to_string(static_cast<DType>(dtype)).data() : "";
}

int xrt_dtype_bits(xrt_dtype dtype) {
  return is_dtype(dtype) ? xrt::bit_width(static_cast<DType>(dtype)) : 0;
}

xrt_code xrt_value_wrap(const xrt_tensor* tensor, xrt_value** value, xrt_status** status) {
  return guarded(status, [&] {
    need(value, "value");
    check_size(need(tensor, "tensor")->size, sizeof(xrt_tensor), "xrt_tensor");
    const xrt_tensor given = *tensor;
    const DType dtype = dtype_of(given.dtype);
    if (dtype == DType::kString) {
      fail("strings cannot be wrapped; xrt_value_create_strings() copies them");
    }
    Dims dims = dims_of(given.dims, given.rank);
    const std::size_t needed = xrt::byte_count(dtype, dims);
    if (given.bytes < needed) {
      fail("a tensor " + std::string(to_string(dtype)) + xrt::to_string(dims) + " takes " +
           std::to_string(needed) + " bytes, xrt_tensor.bytes is " + std::to_string(given.bytes));
    }
    check_alignment(given.data, dtype);
    Device device;
    if (given.device != nullptr) {
      const std::optional<Device> named = xrt::device_of(given.device);
      if (!named) fail("there is no device '" + std::string(given.device) + "'");
      device = *named;
    }
    // The owner is put in last: nothing that fails may call `release`.
    std::unique_ptr<xrt_value> made(
        new_value(Tensor::wrap(dtype, dims, given.data, nullptr, device)));
    if (given.release != nullptr) {
      struct Owner {
        void (*release)(void*) = nullptr;
        void* context = nullptr;
        Owner() = default;
        Owner(const Owner&) = delete;
        Owner& operator=(const Owner&) = delete;
        ~Owner() {
          if (release != nullptr) release(context);
        }
      };
      const auto owner = std::make_shared<Owner>();
      made->data = Tensor::wrap(dtype, std::move(dims), given.data, owner, device);
      owner->context = given.context;
      owner->release = given.release;
    }
    *value = made.release();
  });
}

xrt_code xrt_value_create(xrt_dtype dtype, const int64_t* dims, size_t rank, xrt_value** value,
                          xrt_status** status) {
  return guarded(status, [&] {
    need(value, "value");
    const DType type = dtype_of(dtype);
    Tensor tensor = Tensor::allocate(type, dims_of(dims, rank));
    if (type != DType::kString && tensor.bytes() > 0) {
      std::memset(tensor.raw(), 0, tensor.bytes());
    }
    *value = new_value(std::move(tensor));
  });
}

xrt_code xrt_value_create_strings(const char* const* texts, const size_t* lengths, size_t count,
                                  const int64_t* dims, size_t rank, xrt_value** value,
                                  xrt_status** status) {
  return guarded(status, [&] {
    need(value, "value");
    need_array(texts, count, "texts");
    Dims shape = dims_of(dims, rank);
    // Before the array is read: a wrong count would read beyond it.
    if (static_cast<std::uint64_t>(xrt::element_count(shape)) != count) {
      fail("a string tensor " + xrt::to_string(shape) + " was given " + std::to_string(count) +
           " strings");
    }
    std::vector<std::string> copies;
    copies.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const char* text = need(texts[i], "a text");
      copies.emplace_back(text, lengths != nullptr ? lengths[i] : std::strlen(text));
    }
    *value = new_value(Tensor::from_strings(std::move(shape), std::move(copies)));
  });
}

xrt_code xrt_value_create_sequence(xrt_dtype dtype, const xrt_value* const* items, size_t count,
                                   xrt_value** value, xrt_status** status) {
  return guarded(status, [&] {
    need(value, "value");
    need_array(items, count, "items");
    const DType type = dtype_of(dtype);
    std::vector<Data> parts;
    for (std::size_t i = 0; i < count; ++i) {
      const Data& part = need(items[i], "an item")->data;
      if (part.is_tensor() && part.tensor().dtype() != type) {
        fail("item " + std::to_string(i) + " of a sequence of " + std::string(to_string(type)) +
             " is " + std::string(to_string(part.tensor().dtype())));
      }
      parts.push_back(part);
    }
    *value = new_value(Data::sequence(type, std::move(parts)));
  });
}

void xrt_value_free(xrt_value* value) { delete value; }

xrt_kind xrt_value_kind(const xrt_value* value) {
  if (value == nullptr) return XRT_NONE;
  if (value->data.is_tensor()) return XRT_TENSOR;
  return value->data.is_sequence() ? XRT_SEQUENCE : XRT_NONE;
}

xrt_dtype xrt_value_dtype(const xrt_value* value) {
  if (const Tensor* tensor = tensor_of(value)) return static_cast<xrt_dtype>(tensor->dtype());
  return value == nullptr ? 0 : static_cast<xrt_dtype>(value->data.sequence_dtype());
}

size_t xrt_value_rank(const xrt_value* value) {
  const Tensor* tensor = tensor_of(value);
  return tensor == nullptr ? 0 : tensor->rank();
}

const int64_t* xrt_value_dims(const xrt_value* value) {
  const Tensor* tensor = tensor_of(value);
  return tensor == nullptr ? nullptr : tensor->dims().data();
}

size_t xrt_value_count(const xrt_value* value) {
  if (const Tensor* tensor = tensor_of(value)) return static_cast<std::size_t>(tensor->count());
  return xrt_value_kind(value) == XRT_SEQUENCE ? value->data.items().size() : 0;
}

size_t xrt_value_bytes(const xrt_value* value) {
  const Tensor* tensor = tensor_of(value);
  return tensor == nullptr || tensor->dtype() == DType::kString ? 0 : tensor->bytes();
}

void* xrt_value_data(const xrt_value* value) {
  const Tensor* tensor = tensor_of(value);
  if (tensor == nullptr || tensor->dtype() == DType::kString || tensor->bytes() == 0) {
    return nullptr;
  }
  return const_cast<void*>(tensor->raw());  // NOLINT: a handle does not guard its elements
}

const char* xrt_value_device(const xrt_value* value) {
  return value == nullptr ? "" : value->device.c_str();
}

xrt_code xrt_value_string(const xrt_value* value, size_t index, const char** text, size_t* length,
                          xrt_status** status) {
  return guarded(status, [&] {
    need(text, "text");
    const Tensor* tensor = tensor_of(need(value, "value"));
    if (tensor == nullptr || tensor->dtype() != DType::kString) {
      fail("the value is no tensor of strings");
    }
    if (index >= static_cast<std::size_t>(tensor->count())) {
      fail("there is no string " + std::to_string(index) + " in " +
           std::to_string(tensor->count()));
    }
    const std::string& found = tensor->strings()[index];
    *text = found.c_str();
    if (length != nullptr) *length = found.size();
  });
}

xrt_code xrt_value_item(const xrt_value* value, size_t index, xrt_value** item,
                        xrt_status** status) {
  return guarded(status, [&] {
    need(item, "item");
    const Data& data = need(value, "value")->data;
    if (!data.is_sequence()) fail("the value is no sequence");
    if (index >= data.items().size()) {
      fail("there is no item " + std::to_string(index) + " in " +
           std::to_string(data.items().size()));
    }
    *item = new_value(data.items()[index]);
  });
}
