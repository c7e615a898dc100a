// SPDX-License-Identifier: Apache-2.0
// The C structures of DLPack 1.1 (https://dmlc.github.io/dlpack), written down here because they
// are a fixed binary interface and no Debian package holds them.
#pragma once

#include <cstdint>

namespace xrt::python::dlpack {

struct Version {
  std::uint32_t major, minor;
};

struct Device {
  std::int32_t type, id;
};
inline constexpr std::int32_t kCpu = 1;
inline constexpr std::int32_t kCudaHost = 3;  // pinned memory, readable as any other
inline constexpr std::int32_t kRocmHost = 11;

struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};

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

}  // namespace xrt::python::dlpack
