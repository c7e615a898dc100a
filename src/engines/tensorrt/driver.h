// SPDX-License-Identifier: Apache-2.0
// The few functions of CUDA's driver that a run needs, behind an interface that a test can stand in
// for. The real one opens libcuda.so.1, which NVIDIA's driver installs; nothing is linked.
//
// Thread-safety: all functions may be called at once; use() speaks for the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace xrt::tensorrt {

enum class Memory : std::uint8_t { kPageable, kPageLocked, kDevice };

class Driver {
 public:
  virtual ~Driver() = default;

  virtual int device_count() const = 0;
  virtual std::string device_name(int device) const = 0;  // "NVIDIA GeForce RTX 4090"
  virtual int compute_capability(int device) const = 0;   // 89 for 8.9
  virtual std::string version() const = 0;                // of CUDA that the driver offers: "13.0"

  // Makes the device's primary context current on this thread.
  virtual void use(int device) const = 0;
  virtual void* allocate(std::size_t bytes) const = 0;
  virtual void release(void* memory) const noexcept = 0;
  virtual void* allocate_host(std::size_t bytes) const = 0;  // page-locked
  virtual void release_host(void* memory) const noexcept = 0;
  virtual Memory kind_of(const void* memory) const = 0;

  virtual void* make_stream() const = 0;
  virtual void destroy_stream(void* stream) const noexcept = 0;
  virtual void synchronize(void* stream) const = 0;
  // In the order of the stream; the host side is page-locked or the call waits.
  virtual void copy_to_device(void* device, const void* host, std::size_t bytes,
                              void* stream) const = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes,
                            void* stream) const = 0;
};

// Throws kNotFound saying what is missing: the library, the driver's kernel part or a device.
std::shared_ptr<const Driver> open_cuda_driver(const char* library = "libcuda.so.1");

}  // namespace xrt::tensorrt
