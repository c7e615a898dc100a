// SPDX-License-Identifier: Apache-2.0
// Tensors in the memory of devices: made, and copied between devices and the host.
#include <charconv>
#include <cstring>
#include <utility>

#include "device/cuda_driver.h"
#include "xrt/error.h"
#include "xrt/tensor.h"

namespace xrt {

std::string to_string(Device device) {
  return device.is_host() ? "cpu" : "cuda:" + std::to_string(device.ordinal);
}

std::optional<Device> device_of(std::string_view name) {
  if (name == "cpu") return Device{};
  constexpr std::string_view kCuda = "cuda";
  if (!name.starts_with(kCuda)) return std::nullopt;
  name.remove_prefix(kCuda.size());
  Device device{DeviceKind::kCuda, 0};
  if (name.empty()) return device;
  if (name[0] != ':' || name.size() < 2 || name[1] < '0' || name[1] > '9') return std::nullopt;
  const auto [end, error] =
      std::from_chars(name.data() + 1, name.data() + name.size(), device.ordinal);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return device;
}

Tensor Tensor::allocate(DType dtype, Dims dims, Device device) {
  if (device.is_host()) return allocate(dtype, std::move(dims));
  const std::size_t bytes = byte_count(dtype, dims);
  auto memory = CudaDriver::get().allocate(device.ordinal, bytes);
  void* address = memory.get();
  return wrap(dtype, std::move(dims), address, std::move(memory), device);
}

Tensor Tensor::to(Device device) const {
  if (device == device_) return *this;
  Tensor copy = allocate(dtype_, dims_, device);
  copy_elements(*this, copy);
  return copy;
}

void copy_elements(const Tensor& from, Tensor& to) {
  if (from.dtype() != to.dtype() || from.bytes() != to.bytes() || from.dtype() == DType::kString) {
    throw Error(ErrorCode::kInvalidArgument, "elements of " + std::string(to_string(from.dtype())) +
                                                 to_string(from.dims()) + " cannot be copied to " +
                                                 std::string(to_string(to.dtype())) +
                                                 to_string(to.dims()));
  }
  if (from.bytes() == 0 || from.raw() == to.raw()) return;
  if (from.on_host() && to.on_host()) {
    std::memcpy(to.raw(), from.raw(), from.bytes());
  } else if (from.on_host()) {
    CudaDriver::get().copy_to_device(to.raw(), from.raw(), from.bytes(), to.device().ordinal);
  } else if (to.on_host()) {
    CudaDriver::get().copy_to_host(to.raw(), from.raw(), from.bytes(), from.device().ordinal);
  } else {
    CudaDriver::get().copy_between(to.raw(), from.raw(), from.bytes(), to.device().ordinal);
  }
}

}  // namespace xrt
