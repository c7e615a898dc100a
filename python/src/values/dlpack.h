// SPDX-License-Identifier: Apache-2.0
// The C structures of DLPack 1.1 (https://dmlc.github.io/dlpack), written down here because they
// are a fixed binary interface and no Debian package holds them.
#pragma once

#include <cstdint>
#include <optional>

#include "xrt/dtype.h"

namespace xrt::python::dlpack {

struct Version {
  std::uint32_t major, minor;
};

struct Device {
  std::int32_t type, id;
};
inline constexpr std::int32_t kCpu = 1;
inline constexpr std::int32_t kCuda = 2;
inline constexpr std::int32_t kCudaHost = 3;  // pinned memory, readable as any other
inline constexpr std::int32_t kRocmHost = 11;
inline constexpr std::int32_t kCudaManaged = 13;  // unified memory, used as the device's

struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};

// Nothing where the other side has no such elements.
std::optional<DType> dtype_of(const DataType& type);
std::optional<DataType> type_of(DType dtype);

struct TensorView {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: dense row-major
  std::uint64_t byte_offset;
};

struct Managed {  // capsule "dltensor"
  TensorView tensor;
  void* manager_context;
  void (*deleter)(Managed* self);
};

struct ManagedVersioned {  // capsule "dltensor_versioned"
  Version version;
  void* manager_context;
  void (*deleter)(ManagedVersioned* self);
  std::uint64_t flags;
  TensorView tensor;
};
inline constexpr std::uint64_t kReadOnly = 1;

// What type(tensor).__dlpack_c_exchange_api__ leads to (capsule "dlpack_exchange_api", DLPack 1.2):
// the way without a Python call. Functions return 0, or -1 with a Python exception set.
struct ExchangeApi {
  Version version;
  ExchangeApi* older;
  int (*allocate)(TensorView* prototype, ManagedVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedVersioned** out);
  int (*object_from_managed)(ManagedVersioned* tensor, void** out);
  // Shape, strides and data are the object's own; may be null.
  int (*view_of_object)(void* object, TensorView* out);
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** out);
};

}  // namespace xrt::python::dlpack
