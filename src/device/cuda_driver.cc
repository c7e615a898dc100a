// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_driver.h"

#include <dlfcn.h>

#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "xrt/error.h"

namespace xrt {

namespace {

constexpr unsigned kStreamNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
constexpr unsigned kEventDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING
constexpr int kOutOfMemory = 2;              // CUDA_ERROR_OUT_OF_MEMORY
constexpr int kNotReady = 600;               // CUDA_ERROR_NOT_READY
// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: a stream is captured that the default stream waits for.
constexpr int kCaptureImplicit = 906;
constexpr const char* kLibrary = "libcuda.so.1";
// Of one stream, what is kept before somebody looks whether it still has to be.
constexpr std::size_t kManyKept = 1024;

// The driver's library; it stays open: XLA's plugin uses it too. Null where there is none.
void* library() {
  static void* const handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  return handle;
}

using DevicePointer = unsigned long long;  // CUdeviceptr

DevicePointer address(const void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }

}  // namespace

// Entries of the driver's table, under its names; a status of 0 is success.
struct CudaDriver::Functions {
  int (*device_get)(int*, int);
  int (*retain_context)(void**, int);
  int (*get_current)(void**);
  int (*set_current)(void*);
  int (*stream_create)(void**, unsigned);
  int (*stream_synchronize)(void*);
  int (*stream_is_capturing)(void*, int*);
  int (*allocate)(DevicePointer*, std::size_t);
  int (*free)(DevicePointer);
  int (*to_device)(DevicePointer, const void*, std::size_t, void*);
  int (*to_host)(void*, DevicePointer, std::size_t, void*);
  int (*copy)(DevicePointer, DevicePointer, std::size_t, void*);
  int (*event_create)(void**, unsigned);
  int (*event_record)(void*, void*);
  int (*event_query)(void*);
  int (*event_synchronize)(void*);
  int (*stream_wait)(void*, void*, unsigned);
  int (*error_name)(int, const char**);
};

struct CudaDriver::State {
  struct PerDevice {
    void* context = nullptr;
    void* stream = nullptr;
  };
  struct Kept {
    void* event;
    std::shared_ptr<const void> owner;
  };
  std::mutex mutex;
  std::map<int, PerDevice> devices;
  std::mutex kept_mutex;
  // By device and stream, in the order of recording, which is that of becoming free.
  std::map<std::pair<int, void*>, std::deque<Kept>> kept;
  std::mutex events_mutex;
  std::map<int, std::vector<void*>> events;  // by device: to be recorded again
};

CudaDriver::Scope::Scope(const CudaDriver& driver, int device) : driver_(driver) {
  const Functions& cuda = *driver.functions_;
  State& state = *driver.state_;
  void* context = nullptr;
  {
    const std::lock_guard lock(state.mutex);
    void*& known = state.devices[device].context;
    if (known == nullptr) {
      int handle = 0;
      driver.check(cuda.device_get(&handle, device), "cuDeviceGet");
      // Never released: whoever shares the context has it for as long as the process lives.
      driver.check(cuda.retain_context(&known, handle), "cuDevicePrimaryCtxRetain");
    }
    context = known;
  }
  driver.check(cuda.get_current(&before_), "cuCtxGetCurrent");
  if (before_ == context) return;
  driver.check(cuda.set_current(context), "cuCtxSetCurrent");
  changed_ = true;
}

CudaDriver::Scope::~Scope() {
  if (changed_) driver_.functions_->set_current(before_);
}

void* CudaDriver::function(const char* name) const {
  void* found = ::dlsym(library(), name);
  if (found != nullptr) return found;
  throw Error(ErrorCode::kNotFound, std::string("NVIDIA's driver lacks ") + name);
}

int CudaDriver::device_count() {
  void* driver = library();
  if (driver == nullptr) return 0;
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || count == nullptr) return 0;
  int found = 0;
  int status = init(0);
  if (status == 0) status = count(&found);
  if (status == 0) return found;
  log_debug("NVIDIA's driver offers no GPU: error " + std::to_string(status));
  return 0;
}

const CudaDriver& CudaDriver::get() {
  struct Loaded {
    CudaDriver* driver = nullptr;
    std::exception_ptr error;
  };
  static const Loaded loaded = [] {
    Loaded made;
    try {
      made.driver = new CudaDriver();  // lives as long as the process
    } catch (const Error&) {
      made.error = std::current_exception();
    }
    return made;
  }();
  if (loaded.error) std::rethrow_exception(loaded.error);
  return *loaded.driver;
}

CudaDriver::CudaDriver()
    : functions_(std::make_unique<Functions>()), state_(std::make_unique<State>()) {
  if (device_count() == 0) {
    throw Error(ErrorCode::kNotFound,
                std::string("memory of a CUDA device was asked for, but NVIDIA's driver (") +
                    kLibrary + ") is not on this machine or finds no GPU");
  }
  const auto find = [this](auto& entry, const char* name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(function(name));
  };
  Functions& cuda = *functions_;
  find(cuda.device_get, "cuDeviceGet");
  find(cuda.retain_context, "cuDevicePrimaryCtxRetain");
  find(cuda.get_current, "cuCtxGetCurrent");
  find(cuda.set_current, "cuCtxSetCurrent");
  find(cuda.stream_create, "cuStreamCreate");
  find(cuda.stream_synchronize, "cuStreamSynchronize");
  find(cuda.stream_is_capturing, "cuStreamIsCapturing");
  find(cuda.allocate, "cuMemAlloc_v2");
  find(cuda.free, "cuMemFree_v2");
  find(cuda.to_device, "cuMemcpyHtoDAsync_v2");
  find(cuda.to_host, "cuMemcpyDtoHAsync_v2");
  find(cuda.copy, "cuMemcpyAsync");
  find(cuda.event_create, "cuEventCreate");
  find(cuda.event_record, "cuEventRecord");
  find(cuda.event_query, "cuEventQuery");
  find(cuda.event_synchronize, "cuEventSynchronize");
  find(cuda.stream_wait, "cuStreamWaitEvent");
  find(cuda.error_name, "cuGetErrorName");
}

void CudaDriver::check(int status, const std::string& what) const {
  if (status == 0) return;
  const char* name = nullptr;
  functions_->error_name(status, &name);
  throw Error(status == kOutOfMemory ? ErrorCode::kResource : ErrorCode::kEngine,
              "CUDA: " + what + " failed: " + (name != nullptr ? name : "unknown") + " (" +
                  std::to_string(status) + ")");
}

std::shared_ptr<void> CudaDriver::allocate(int device, std::size_t bytes) const {
  const Scope scope(*this, device);
  DevicePointer memory = 0;
  check(functions_->allocate(&memory, bytes == 0 ? 1 : bytes),
        "cuMemAlloc of " + std::to_string(bytes) + " bytes");
  return {reinterpret_cast<void*>(memory), [this, device](void* freed) {
            try {
              const Scope inner(*this, device);
              check(functions_->free(address(freed)), "cuMemFree");
            } catch (const Error& error) {  // nothing is left to be done but to say so
              log_warning(error.what());
            }
          }};
}

void* CudaDriver::stream(int device) const {
  const Scope scope(*this, device);
  const std::lock_guard lock(state_->mutex);
  void*& own = state_->devices[device].stream;
  if (own == nullptr) check(functions_->stream_create(&own, kStreamNonBlocking), "cuStreamCreate");
  return own;
}

void CudaDriver::synchronize(int device, void* stream) const {
  const Scope scope(*this, device);
  check(functions_->stream_synchronize(stream), "cuStreamSynchronize");
}

void CudaDriver::copy_to_host(void* to, const void* from, std::size_t bytes, int device) const {
  if (bytes == 0) return;
  void* own = stream(device);
  const Scope scope(*this, device);
  check(functions_->to_host(to, address(from), bytes, own), "cuMemcpyDtoHAsync");
  check(functions_->stream_synchronize(own), "cuStreamSynchronize");
}

void CudaDriver::copy_to_device(void* to, const void* from, std::size_t bytes, int device) const {
  if (bytes == 0) return;
  void* own = stream(device);
  const Scope scope(*this, device);
  check(functions_->to_device(address(to), from, bytes, own), "cuMemcpyHtoDAsync");
  check(functions_->stream_synchronize(own), "cuStreamSynchronize");
}

void CudaDriver::copy_between(void* to, const void* from, std::size_t bytes, int device) const {
  if (bytes == 0) return;
  void* own = stream(device);
  const Scope scope(*this, device);
  check(functions_->copy(address(to), address(from), bytes, own), "cuMemcpyAsync");
  check(functions_->stream_synchronize(own), "cuStreamSynchronize");
}

void* CudaDriver::record_event(int device, void* stream) const {
  void* event = nullptr;
  {
    const std::lock_guard lock(state_->events_mutex);
    std::vector<void*>& free = state_->events[device];
    if (!free.empty()) {
      event = free.back();
      free.pop_back();
    }
  }
  if (event == nullptr) {
    check(functions_->event_create(&event, kEventDisableTiming), "cuEventCreate");
  }
  const int status = functions_->event_record(event, stream);
  if (status != 0) put_back(device, event);
  check(status, "cuEventRecord");
  return event;
}

void CudaDriver::put_back(int device, void* event) const {
  const std::lock_guard lock(state_->events_mutex);
  state_->events[device].push_back(event);
}

bool CudaDriver::is_capturing(int device, void* stream) const {
  const Scope scope(*this, device);
  int status = 0;
  const int error = functions_->stream_is_capturing(stream, &status);
  if (error == kCaptureImplicit) return true;
  check(error, "cuStreamIsCapturing");
  return status != 0;
}

void CudaDriver::follow(int device, void* follower, void* stream) const {
  const Scope scope(*this, device);
  void* event = record_event(device, stream);
  const int status = functions_->stream_wait(follower, event, 0);
  put_back(device, event);  // who waits has taken note of what was recorded
  check(status, "cuStreamWaitEvent");
}

void CudaDriver::release_after(int device, void* stream, std::shared_ptr<const void> owner) const {
  std::size_t count = 0;
  {
    const Scope scope(*this, device);
    void* event = record_event(device, stream);
    const std::lock_guard lock(state_->kept_mutex);
    std::deque<State::Kept>& kept = state_->kept[{device, stream}];
    kept.push_back({event, std::move(owner)});
    count = kept.size();
  }
  // Freeing takes longer than recording, and whoever releases may have a device to feed.
  if (count >= kManyKept) release_finished();
}

void CudaDriver::release(bool wait) const {
  std::vector<State::Kept> finished;  // released after the lock: freeing may take long
  {
    const std::lock_guard lock(state_->kept_mutex);
    for (auto& [place, kept] : state_->kept) {
      if (kept.empty()) continue;
      const Scope scope(*this, place.first);
      if (wait) functions_->event_synchronize(kept.back().event);  // an error ends the wait, too
      while (!kept.empty() && (wait || functions_->event_query(kept.front().event) != kNotReady)) {
        put_back(place.first, kept.front().event);
        finished.push_back(std::move(kept.front()));
        kept.pop_front();
      }
    }
  }
}

void CudaDriver::release_finished() const { release(false); }

void CudaDriver::release_all() const { release(true); }

}  // namespace xrt
