// SPDX-License-Identifier: Apache-2.0
#include "device/caller_stream.h"

#include <cstdint>

#include "device/cuda_driver.h"
#include "xrt/error.h"

namespace xrt {
namespace {
thread_local CallerStream* innermost = nullptr;

// CU_STREAM_LEGACY, which means what a null handle does.
void* legacy_stream() {
  return reinterpret_cast<void*>(std::uintptr_t{1});  // NOLINT(performance-no-int-to-ptr)
}
}  // namespace

CallerStream::CallerStream(int device, void* stream)
    : device_(device), handle_(stream == nullptr ? legacy_stream() : stream), outer_(innermost) {
  if (CudaDriver::get().is_capturing(device_, handle_)) {
    throw Error(ErrorCode::kInvalidArgument,
                "the current CUDA stream is being captured: a program's run cannot become part of "
                "a CUDA graph; run it outside of the capture");
  }
  innermost = this;
}

CallerStream::~CallerStream() { innermost = outer_; }

CallerStream* CallerStream::current() {
  return innermost == nullptr || innermost->waited_ ? nullptr : innermost;
}

void CallerStream::wait() {
  if (waited_) return;
  CudaDriver::get().synchronize(device_, handle_);
  waited_ = true;
}

}  // namespace xrt
