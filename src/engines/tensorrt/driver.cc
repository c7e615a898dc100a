// SPDX-License-Identifier: Apache-2.0
#include "engines/tensorrt/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <mutex>
#include <vector>

#include "xrt/error.h"

namespace xrt::tensorrt {

namespace {

// Prototypes of the driver API (cuda.h); handles are pointers, device addresses 64-bit numbers.
using Result = int;
using Device = int;
using Address = std::uint64_t;
constexpr Result kSuccess = 0;
constexpr int kAttributeMajor = 75;    // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kAttributeMinor = 76;    // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
constexpr int kPointerMemoryType = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned kTypeHost = 1;      // CU_MEMORYTYPE_HOST
constexpr unsigned kTypeDevice = 2;    // CU_MEMORYTYPE_DEVICE
constexpr unsigned kStreamNonBlocking = 1;

struct Functions {
  Result (*init)(unsigned);
  Result (*driver_version)(int*);
  Result (*get_error_name)(Result, const char**);
  Result (*get_error_string)(Result, const char**);
  Result (*device_get_count)(int*);
  Result (*device_get)(Device*, int);
  Result (*device_get_name)(char*, int, Device);
  Result (*device_get_attribute)(int*, int, Device);
  Result (*retain_primary)(void**, Device);
  Result (*set_current)(void*);
  Result (*mem_alloc)(Address*, std::size_t);
  Result (*mem_free)(Address);
  Result (*mem_alloc_host)(void**, std::size_t);
  Result (*mem_free_host)(void*);
  Result (*pointer_get_attribute)(void*, int, Address);
  Result (*stream_create)(void**, unsigned);
  Result (*stream_destroy)(void*);
  Result (*stream_synchronize)(void*);
  Result (*memcpy_to_device)(Address, const void*, std::size_t, void*);
  Result (*memcpy_to_host)(void*, Address, std::size_t, void*);
};

Address address_of(const void* memory) { return reinterpret_cast<Address>(memory); }

class CudaDriver : public Driver {
 public:
  explicit CudaDriver(const char* library) {
    // Never closed: contexts live as long as the process.
    handle_ = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
      const char* cause = ::dlerror();
      throw Error(ErrorCode::kNotFound,
                  fmt::format("no NVIDIA driver: {} cannot be opened ({}); install NVIDIA's driver "
                              "for this GPU",
                              library, cause != nullptr ? cause : "no cause given"));
    }
    load(f_.init, "cuInit");
    load(f_.driver_version, "cuDriverGetVersion");
    load(f_.get_error_name, "cuGetErrorName");
    load(f_.get_error_string, "cuGetErrorString");
    load(f_.device_get_count, "cuDeviceGetCount");
    load(f_.device_get, "cuDeviceGet");
    load(f_.device_get_name, "cuDeviceGetName");
    load(f_.device_get_attribute, "cuDeviceGetAttribute");
    load(f_.retain_primary, "cuDevicePrimaryCtxRetain");
    load(f_.set_current, "cuCtxSetCurrent");
    load(f_.mem_alloc, "cuMemAlloc_v2");
    load(f_.mem_free, "cuMemFree_v2");
    load(f_.mem_alloc_host, "cuMemAllocHost_v2");
    load(f_.mem_free_host, "cuMemFreeHost");
    load(f_.pointer_get_attribute, "cuPointerGetAttribute");
    load(f_.stream_create, "cuStreamCreate");
    load(f_.stream_destroy, "cuStreamDestroy_v2");
    load(f_.stream_synchronize, "cuStreamSynchronize");
    load(f_.memcpy_to_device, "cuMemcpyHtoDAsync_v2");
    load(f_.memcpy_to_host, "cuMemcpyDtoHAsync_v2");
    if (const Result result = f_.init(0); result != kSuccess) {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("no usable NVIDIA GPU: cuInit: {}", describe(result)));
    }
    int count = 0;
    check(f_.device_get_count(&count), "cuDeviceGetCount");
    if (count == 0) throw Error(ErrorCode::kNotFound, "no NVIDIA GPU: the driver lists none");
    contexts_.resize(static_cast<std::size_t>(count), nullptr);
  }

  int device_count() const override { return static_cast<int>(contexts_.size()); }

  std::string device_name(int device) const override {
    std::array<char, 256> name{};
    check(f_.device_get_name(name.data(), static_cast<int>(name.size()) - 1, ordinal(device)),
          "cuDeviceGetName");
    return name.data();
  }

  int compute_capability(int device) const override {
    int major = 0;
    int minor = 0;
    const Device d = ordinal(device);
    check(f_.device_get_attribute(&major, kAttributeMajor, d), "cuDeviceGetAttribute");
    check(f_.device_get_attribute(&minor, kAttributeMinor, d), "cuDeviceGetAttribute");
    return 10 * major + minor;
  }

  std::string version() const override {
    int number = 0;
    check(f_.driver_version(&number), "cuDriverGetVersion");
    return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
  }

  void use(int device) const override {
    const std::lock_guard lock(mutex_);
    void*& context = contexts_.at(static_cast<std::size_t>(device));
    if (context == nullptr) {
      check(f_.retain_primary(&context, ordinal(device)), "cuDevicePrimaryCtxRetain");
    }
    check(f_.set_current(context), "cuCtxSetCurrent");
  }

  void* allocate(std::size_t bytes) const override {
    Address address = 0;
    check(f_.mem_alloc(&address, bytes), "cuMemAlloc", bytes);
    return reinterpret_cast<void*>(address);
  }
  void release(void* memory) const noexcept override { f_.mem_free(address_of(memory)); }

  void* allocate_host(std::size_t bytes) const override {
    void* memory = nullptr;
    check(f_.mem_alloc_host(&memory, bytes), "cuMemAllocHost", bytes);
    return memory;
  }
  void release_host(void* memory) const noexcept override { f_.mem_free_host(memory); }

  Memory kind_of(const void* memory) const override {
    unsigned type = 0;
    // Memory that CUDA has never seen is an error to it, and pageable to us.
    if (f_.pointer_get_attribute(&type, kPointerMemoryType, address_of(memory)) != kSuccess) {
      return Memory::kPageable;
    }
    if (type == kTypeDevice) return Memory::kDevice;
    return type == kTypeHost ? Memory::kPageLocked : Memory::kPageable;
  }

  void* make_stream() const override {
    void* stream = nullptr;
    check(f_.stream_create(&stream, kStreamNonBlocking), "cuStreamCreate");
    return stream;
  }
  void destroy_stream(void* stream) const noexcept override { f_.stream_destroy(stream); }
  void synchronize(void* stream) const override {
    check(f_.stream_synchronize(stream), "cuStreamSynchronize");
  }
  void copy_to_device(void* device, const void* host, std::size_t bytes,
                      void* stream) const override {
    check(f_.memcpy_to_device(address_of(device), host, bytes, stream), "cuMemcpyHtoDAsync");
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes,
                    void* stream) const override {
    check(f_.memcpy_to_host(host, address_of(device), bytes, stream), "cuMemcpyDtoHAsync");
  }

 private:
  template <typename F>
  void load(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(handle_, name));
    if (function == nullptr) {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("the NVIDIA driver has no {}; update it", name));
    }
  }

  std::string describe(Result result) const {
    const char* name = nullptr;
    const char* text = nullptr;
    f_.get_error_name(result, &name);
    f_.get_error_string(result, &text);
    return fmt::format("{} ({})", name != nullptr ? name : std::to_string(result),
                       text != nullptr ? text : "no description");
  }

  void check(Result result, const char* what, std::size_t bytes = 0) const {
    if (result == kSuccess) return;
    if (bytes > 0) {
      throw Error(ErrorCode::kResource,
                  fmt::format("TensorRT: {} of {} bytes: {}", what, bytes, describe(result)));
    }
    throw Error(ErrorCode::kEngine, fmt::format("TensorRT: {}: {}", what, describe(result)));
  }

  Device ordinal(int device) const {
    Device out = 0;
    check(f_.device_get(&out, device), "cuDeviceGet");
    return out;
  }

  void* handle_ = nullptr;
  Functions f_{};
  mutable std::mutex mutex_;
  mutable std::vector<void*> contexts_;  // primary contexts, retained on first use
};

}  // namespace

std::shared_ptr<const Driver> open_cuda_driver(const char* library) {
  return std::make_shared<CudaDriver>(library);
}

}  // namespace xrt::tensorrt
