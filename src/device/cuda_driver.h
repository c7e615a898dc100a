// SPDX-License-Identifier: Apache-2.0
// The calls of CUDA's driver API that moving tensors takes, without CUDA's headers.
//
// libcuda.so.1 comes with NVIDIA's driver and is opened on first use. Everything happens in the
// primary context of a device, the one that XLA, PyTorch and CUDA's runtime use: addresses of one
// are good for all. The calling thread's current context is left as it was.
//
// Thread-safety: everything may be used by many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "xrt/export.h"

namespace xrt {

class XRT_API CudaDriver {
 public:
  // How many GPUs the driver offers this process; 0 where there is no driver or no GPU. Makes no
  // context on any.
  static int device_count();
  // Throws kNotFound where there is no driver.
  static const CudaDriver& get();

  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  // Makes a device's primary context the thread's current one for as long as it lives. Whoever
  // calls a library of NVIDIA's does so within one.
  class XRT_API Scope {
   public:
    Scope(const CudaDriver& driver, int device);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const CudaDriver& driver_;
    void* before_ = nullptr;
    bool changed_ = false;
  };

  // The driver's function of that name. Throws kNotFound where it is too old to have it.
  void* function(const char* name) const;
  // Throws what a status other than 0 means; `what` says what failed: "cuLaunchKernel of 'k3'".
  void check(int status, const std::string& what) const;

  // Memory of a device, freed with its last owner. Throws kResource if there is not enough.
  std::shared_ptr<void> allocate(int device, std::size_t bytes) const;
  // Return when the bytes are there. The source is written already.
  void copy_to_host(void* to, const void* from, std::size_t bytes, int device) const;
  void copy_to_device(void* to, const void* from, std::size_t bytes, int device) const;
  // From memory of any device to memory of `device`.
  void copy_between(void* to, const void* from, std::size_t bytes, int device) const;

  // A stream of this library's own on a device: others make it wait for what they have queued.
  void* stream(int device) const;
  // Waits until all that is queued on the stream is done. Streams are CUDA's handles; 0 and 1 are
  // the legacy default stream, 2 the thread's.
  void synchronize(int device, void* stream) const;

  // Whether what is queued on the stream becomes a CUDA graph instead of being done.
  bool is_capturing(int device, void* stream) const;

  // What is queued on `follower` from now on begins when all that is queued on `stream` now is
  // done. Nobody waits here.
  void follow(int device, void* follower, void* stream) const;

  // Keeps `owner` alive until all that is queued on the stream now is done, and somebody calls one
  // of the functions below.
  void release_after(int device, void* stream, std::shared_ptr<const void> owner) const;
  // Lets go of what release_after() keeps without need.
  void release_finished() const;
  // Waits until there is need for nothing, and lets go of everything.
  void release_all() const;

 private:
  struct Functions;
  struct State;

  CudaDriver();
  ~CudaDriver() = delete;  // lives as long as the process: the driver goes first at its end
  // An event that is recorded on the stream now, one of those that were put back where there is
  // one. The device's context is current.
  void* record_event(int device, void* stream) const;
  void put_back(int device, void* event) const;
  void release(bool wait) const;

  std::unique_ptr<Functions> functions_;
  std::unique_ptr<State> state_;
};

}  // namespace xrt
