// SPDX-License-Identifier: Apache-2.0
// Devices: a kind and a number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "xrt/export.h"

namespace xrt {

// Where memory lies; the numbers are DLPack's.
enum class DeviceKind : std::int32_t { kCpu = 1, kCuda = 2 };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  std::int32_t ordinal = 0;  // which GPU, as CUDA's driver counts them
  bool is_host() const { return kind == DeviceKind::kCpu; }
  friend bool operator==(const Device&, const Device&) = default;
};

// "cpu", "cuda:1"
XRT_API std::string to_string(Device device);
// Of "cpu", "cuda" (the first GPU) or "cuda:N"; nothing for any other text.
XRT_API std::optional<Device> device_of(std::string_view name);

}  // namespace xrt
