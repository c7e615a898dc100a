// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda.so.1: the driver's functions that the TensorRT engine loads by name, over
// ordinary memory. XRT_STAND_IN_CUDA makes one fail: init, device (none is there), memory.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

namespace {

using Address = std::uint64_t;

constexpr int kSuccess = 0;
constexpr int kInvalid = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNoDevice = 100;

// By start: size and CU_MEMORYTYPE_HOST (1) or CU_MEMORYTYPE_DEVICE (2).
std::map<Address, std::pair<std::size_t, unsigned>>& blocks() {
  static std::map<Address, std::pair<std::size_t, unsigned>> instance;
  return instance;
}

bool fails(std::string_view what) {
  const char* asked = std::getenv("XRT_STAND_IN_CUDA");
  return asked != nullptr && asked == what;
}

int take(void** out, std::size_t bytes, unsigned type) {
  if (fails("memory")) return kOutOfMemory;
  *out = std::malloc(bytes);  // NOLINT: stands for memory that C++ does not know
  blocks()[reinterpret_cast<Address>(*out)] = {bytes, type};
  return kSuccess;
}

int give(Address address) {
  if (blocks().erase(address) == 0) return kInvalid;
  std::free(reinterpret_cast<void*>(address));  // NOLINT
  return kSuccess;
}

}  // namespace

extern "C" {

int cuInit(unsigned /*flags*/) { return fails("init") ? kNoDevice : kSuccess; }
int cuDriverGetVersion(int* version) {
  *version = 13010;
  return kSuccess;
}
int cuGetErrorName(int error, const char** name) {
  *name = error == kNoDevice ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OUT_OF_MEMORY";
  return kSuccess;
}
int cuGetErrorString(int error, const char** text) {
  *text = error == kNoDevice ? "no CUDA-capable device is detected" : "out of memory";
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  *count = fails("device") ? 0 : 1;
  return kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
int cuDeviceGetName(char* name, int size, int /*device*/) {
  std::strncpy(name, "Stand-In GPU", static_cast<std::size_t>(size));
  return kSuccess;
}
int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  *value = attribute == 75 ? 8 : 9;  // compute capability, major and minor
  return kSuccess;
}
int cuDevicePrimaryCtxRetain(void** context, int /*device*/) {
  *context = &blocks();
  return kSuccess;
}
int cuCtxSetCurrent(void* context) { return context == &blocks() ? kSuccess : kInvalid; }
int cuMemAlloc_v2(Address* address, std::size_t bytes) {
  return take(reinterpret_cast<void**>(address), bytes, 2);
}
int cuMemFree_v2(Address address) { return give(address); }
int cuMemAllocHost_v2(void** memory, std::size_t bytes) { return take(memory, bytes, 1); }
int cuMemFreeHost(void* memory) { return give(reinterpret_cast<Address>(memory)); }
int cuPointerGetAttribute(void* out, int attribute, Address address) {
  const auto after = blocks().upper_bound(address);
  if (attribute != 2 || after == blocks().begin()) return kInvalid;
  const auto& [begin, block] = *std::prev(after);
  if (address >= begin + block.first) return kInvalid;
  *static_cast<unsigned*>(out) = block.second;
  return kSuccess;
}
int cuStreamCreate(void** stream, unsigned flags) {
  *stream = &blocks();
  return flags == 1 ? kSuccess : kInvalid;  // one that does not wait for the default stream
}
int cuStreamDestroy_v2(void* /*stream*/) { return kSuccess; }
int cuStreamSynchronize(void* /*stream*/) { return kSuccess; }
int cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, void* /*stream*/) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return kSuccess;
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, void* /*stream*/) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return kSuccess;
}

}  // extern "C"
