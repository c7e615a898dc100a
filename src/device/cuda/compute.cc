// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/compute.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "device/cuda_driver.h"
#include "xrt/error.h"

namespace xrt::cuda {
namespace {

using Address = unsigned long long;  // CUdeviceptr

constexpr unsigned kNonBlocking = 1;    // CU_STREAM_NON_BLOCKING
constexpr unsigned kWithoutTiming = 2;  // CU_EVENT_DISABLE_TIMING
constexpr int kThreadLocal = 1;         // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr int kProcessors = 16;         // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;
constexpr int kReleaseThreshold = 4;  // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
constexpr int kReserved = 5;          // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
constexpr int kOutOfMemory = 2;       // CUDA_ERROR_OUT_OF_MEMORY

// CUmemPoolProps of the driver API.
struct PoolProperties {
  int allocation_type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED: memory that stays where it is
  int handle_types = 0;
  int location_type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  int location = 0;
  void* security = nullptr;
  std::size_t max_size = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};
static_assert(sizeof(PoolProperties) == 88);

// Entries of the driver's table.
struct Functions {
  int (*device_get)(int*, int);
  int (*device_attribute)(int*, int, int);
  int (*stream_create)(void**, unsigned);
  int (*stream_destroy)(void*);
  int (*stream_synchronize)(void*);
  int (*stream_wait)(void*, void*, unsigned);
  int (*begin_capture)(void*, int);
  int (*end_capture)(void*, void**);
  int (*event_create)(void**, unsigned);
  int (*event_destroy)(void*);
  int (*event_record)(void*, void*);
  int (*event_synchronize)(void*);
  int (*event_elapsed)(float*, void*, void*);
  int (*pool_create)(void**, const PoolProperties*);
  int (*pool_set)(void*, int, void*);
  int (*pool_get)(void*, int, void*);
  int (*pool_trim)(void*, std::size_t);
  int (*allocate)(Address*, std::size_t, void*, void*);
  int (*free)(Address, void*);
  int (*module_load)(void**, const void*);
  int (*module_unload)(void*);
  int (*module_function)(void**, void*, const char*);
  int (*function_set)(void*, int, int);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                void**, void**);
  int (*graph_instantiate)(void**, void*, unsigned long long);
  int (*graph_launch)(void*, void*);
  int (*graph_destroy)(void*);
  int (*graph_exec_destroy)(void*);
  int (*to_device)(Address, const void*, std::size_t, void*);
  int (*to_host)(void*, Address, std::size_t, void*);
  int (*copy)(Address, Address, std::size_t, void*);
};

const CudaDriver& driver() { return CudaDriver::get(); }

const Functions& functions() {
  static const Functions table = [] {
    Functions f = {};
    const auto find = [](auto& entry, const char* name) {
      entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(driver().function(name));
    };
    find(f.device_get, "cuDeviceGet");
    find(f.device_attribute, "cuDeviceGetAttribute");
    find(f.stream_create, "cuStreamCreate");
    find(f.stream_destroy, "cuStreamDestroy_v2");
    find(f.stream_synchronize, "cuStreamSynchronize");
    find(f.stream_wait, "cuStreamWaitEvent");
    find(f.begin_capture, "cuStreamBeginCapture_v2");
    find(f.end_capture, "cuStreamEndCapture");
    find(f.event_create, "cuEventCreate");
    find(f.event_destroy, "cuEventDestroy_v2");
    find(f.event_record, "cuEventRecord");
    find(f.event_synchronize, "cuEventSynchronize");
    find(f.event_elapsed, "cuEventElapsedTime");
    find(f.pool_create, "cuMemPoolCreate");
    find(f.pool_set, "cuMemPoolSetAttribute");
    find(f.pool_get, "cuMemPoolGetAttribute");
    find(f.pool_trim, "cuMemPoolTrimTo");
    find(f.allocate, "cuMemAllocFromPoolAsync");
    find(f.free, "cuMemFreeAsync");
    find(f.module_load, "cuModuleLoadData");
    find(f.module_unload, "cuModuleUnload");
    find(f.module_function, "cuModuleGetFunction");
    find(f.function_set, "cuFuncSetAttribute");
    find(f.launch, "cuLaunchKernel");
    find(f.graph_instantiate, "cuGraphInstantiateWithFlags");
    find(f.graph_launch, "cuGraphLaunch");
    find(f.graph_destroy, "cuGraphDestroy");
    find(f.graph_exec_destroy, "cuGraphExecDestroy");
    find(f.to_device, "cuMemcpyHtoDAsync_v2");
    find(f.to_host, "cuMemcpyDtoHAsync_v2");
    find(f.copy, "cuMemcpyAsync");
    return f;
  }();
  return table;
}

void check(int status, const std::string& what) { driver().check(status, what); }

// In destructors nothing is left to be done about an error but to say so.
void complain(int status, const char* what) noexcept {
  if (status == 0) return;
  try {
    check(status, what);
  } catch (const Error& error) {
    log_warning(error.what());
  }
}

Address address(const void* memory) { return reinterpret_cast<Address>(memory); }

// Results that are in use, and their streams.
class ResultStreams {
 public:
  static ResultStreams& get() {
    static auto* const all = new ResultStreams();  // as long as the process
    return *all;
  }
  void add(const void* memory, void* stream) {
    const std::lock_guard lock(mutex_);
    streams_[memory] = stream;
  }
  void remove(const void* memory) {
    const std::lock_guard lock(mutex_);
    streams_.erase(memory);
  }
  bool has(const void* memory, void* stream) {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(memory);
    return found != streams_.end() && found->second == stream;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, void*> streams_;
};

// One handle for the legacy default stream, which has two.
void* one_handle(void* stream) {
  return stream == nullptr
             ? reinterpret_cast<void*>(std::uintptr_t{1})  // NOLINT(performance-no-int-to-ptr)
             : stream;
}

}  // namespace

DeviceFacts device_facts(int device) {
  const Functions& f = functions();
  int handle = 0, major = 0, minor = 0;
  DeviceFacts facts;
  check(f.device_get(&handle, device), "cuDeviceGet");
  check(f.device_attribute(&major, kCapabilityMajor, handle), "cuDeviceGetAttribute");
  check(f.device_attribute(&minor, kCapabilityMinor, handle), "cuDeviceGetAttribute");
  check(f.device_attribute(&facts.processors, kProcessors, handle), "cuDeviceGetAttribute");
  facts.capability = 10 * major + minor;
  return facts;
}

Stream::Stream(int device) : device_(device) {
  const CudaDriver::Scope scope(driver(), device);
  check(functions().stream_create(&stream_, kNonBlocking), "cuStreamCreate");
}

Stream::~Stream() {
  const CudaDriver::Scope scope(driver(), device_);
  complain(functions().stream_destroy(stream_), "cuStreamDestroy");
}

void Stream::synchronize() const { driver().synchronize(device_, stream_); }

Event::Event(int device, bool timed) : device_(device) {
  const CudaDriver::Scope scope(driver(), device);
  check(functions().event_create(&event_, timed ? 0 : kWithoutTiming), "cuEventCreate");
}

Event::~Event() {
  const CudaDriver::Scope scope(driver(), device_);
  complain(functions().event_destroy(event_), "cuEventDestroy");
}

void Event::record(void* stream) {
  const CudaDriver::Scope scope(driver(), device_);
  check(functions().event_record(event_, stream), "cuEventRecord");
}

void Event::make_wait(void* stream) const {
  const CudaDriver::Scope scope(driver(), device_);
  check(functions().stream_wait(stream, event_, 0), "cuStreamWaitEvent");
}

void Event::synchronize() const {
  const CudaDriver::Scope scope(driver(), device_);
  check(functions().event_synchronize(event_), "cuEventSynchronize");
}

float Event::since(const Event& earlier) const {
  const CudaDriver::Scope scope(driver(), device_);
  float milliseconds = 0;
  check(functions().event_elapsed(&milliseconds, earlier.event_, event_), "cuEventElapsedTime");
  return milliseconds;
}

MemoryPool& MemoryPool::of(int device) {
  // They live as long as the process: the driver goes first at its end.
  static std::mutex mutex;
  static auto* const pools = new std::map<int, MemoryPool*>();
  const std::lock_guard lock(mutex);
  MemoryPool*& pool = (*pools)[device];
  if (pool == nullptr) pool = new MemoryPool(device);
  return *pool;
}

MemoryPool::MemoryPool(int device) : device_(device), stream_(device) {
  const CudaDriver::Scope scope(driver(), device);
  PoolProperties properties;
  properties.location = device;
  check(functions().pool_create(&pool_, &properties), "cuMemPoolCreate");
  // What is given back stays in the pool until trim().
  std::uint64_t keep = ~std::uint64_t{0};
  check(functions().pool_set(pool_, kReleaseThreshold, &keep), "cuMemPoolSetAttribute");
}

std::shared_ptr<void> MemoryPool::allocate(std::size_t bytes, void* stream,
                                           const std::string& what) {
  bytes = std::max<std::size_t>(bytes, 1);
  return {take(bytes, stream, what), [this, bytes](void* freed) { release(freed, bytes); }};
}

std::shared_ptr<void> MemoryPool::allocate_result(std::size_t bytes, void* stream,
                                                  const std::string& what) {
  bytes = std::max<std::size_t>(bytes, 1);
  stream = one_handle(stream);
  void* memory = nullptr;
  std::shared_ptr<Event> used;
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find({stream, bytes});
    if (found != kept_.end() && !found->second.empty()) {
      memory = found->second.back().memory;
      used = std::move(found->second.back().used);
      found->second.pop_back();
      kept_bytes_ -= bytes;
      used_ += bytes;
      most_ = std::max(most_, used_);
    }
  }
  if (used == nullptr) used = std::make_shared<Event>(device_);
  if (memory == nullptr) memory = take(bytes, stream, what);
  ResultStreams::get().add(memory, stream);
  return {memory, [this, bytes, stream, used](void* freed) { keep(freed, bytes, stream, used); }};
}

bool MemoryPool::is_result_of(const void* memory, void* stream) {
  return ResultStreams::get().has(memory, one_handle(stream));
}

void MemoryPool::keep(void* memory, std::size_t bytes, void* stream,
                      const std::shared_ptr<Event>& used) noexcept {
  ResultStreams::get().remove(memory);
  try {
    used->record(stream);
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + bytes <= most_) {  // sizes that nobody asks for any more are no burden
      kept_[{stream, bytes}].push_back({memory, used});
      kept_bytes_ += bytes;
      used_ -= bytes;
      return;
    }
    used->make_wait(stream_.get());
  } catch (const Error& error) {  // nothing is left to be done but to say so
    log_warning(error.what());
  }
  release(memory, bytes);
}

void MemoryPool::free_kept() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, all] : kept_) {
    for (const Kept& kept : all) {
      try {
        kept.used->make_wait(stream_.get());
      } catch (const Error& error) {  // nothing is left to be done but to say so
        log_warning(error.what());
      }
      complain(functions().free(address(kept.memory), stream_.get()), "cuMemFreeAsync");
    }
  }
  kept_.clear();
  kept_bytes_ = 0;
}

void* MemoryPool::take(std::size_t bytes, void* stream, const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    if (bound_ != 0 && bytes > bound_ - std::min(bound_, used_)) {
      throw Error(ErrorCode::kResource,
                  "CUDA: " + what + " takes " + std::to_string(bytes) + " bytes; " +
                      std::to_string(used_) + " of the " + std::to_string(bound_) +
                      " that may be used on device " + std::to_string(device_) + " are in use");
    }
    used_ += bytes;
    most_ = std::max(most_, used_);
  }
  const CudaDriver::Scope scope(driver(), device_);
  const Functions& f = functions();
  Address memory = 0;
  int status = f.allocate(&memory, bytes, pool_, stream);
  if (status == kOutOfMemory) {
    // What was given back in the order of streams that are behind, and what results of others keep.
    driver().release_all();
    free_kept();
    complain(f.stream_synchronize(stream_.get()), "cuStreamSynchronize");
    complain(f.pool_trim(pool_, 0), "cuMemPoolTrimTo");
    status = f.allocate(&memory, bytes, pool_, stream);
  }
  if (status != 0) {
    {
      const std::lock_guard lock(mutex_);
      used_ -= bytes;
    }
    check(status, "memory of " + std::to_string(bytes) + " bytes for " + what);
  }
  return reinterpret_cast<void*>(memory);
}

void MemoryPool::release(void* memory, std::size_t bytes) noexcept {
  const CudaDriver::Scope scope(driver(), device_);
  complain(functions().free(address(memory), stream_.get()), "cuMemFreeAsync");
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
}

void MemoryPool::set_bound(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  bound_ = bytes;
}

MemoryPool::Statistics MemoryPool::statistics() const {
  const CudaDriver::Scope scope(driver(), device_);
  std::uint64_t reserved = 0;
  check(functions().pool_get(pool_, kReserved, &reserved), "cuMemPoolGetAttribute");
  const std::lock_guard lock(mutex_);
  return {used_, most_, static_cast<std::size_t>(reserved)};
}

void MemoryPool::trim() {
  const CudaDriver::Scope scope(driver(), device_);
  free_kept();
  stream_.synchronize();
  check(functions().pool_trim(pool_, 0), "cuMemPoolTrimTo");
}

Module::Module(int device, const std::string& image) : device_(device) {
  const CudaDriver::Scope scope(driver(), device);
  check(functions().module_load(&module_, image.data()), "cuModuleLoadData");
}

Module::~Module() {
  const CudaDriver::Scope scope(driver(), device_);
  complain(functions().module_unload(module_), "cuModuleUnload");
}

void* Module::kernel(const std::string& name, unsigned shared) const {
  const CudaDriver::Scope scope(driver(), device_);
  void* found = nullptr;
  check(functions().module_function(&found, module_, name.c_str()),
        "cuModuleGetFunction of '" + name + "'");
  constexpr int kMostSharedBytes = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  if (shared != 0) {
    check(functions().function_set(found, kMostSharedBytes, static_cast<int>(shared)),
          "cuFuncSetAttribute of '" + name + "'");
  }
  return found;
}

void Module::launch(void* kernel, const std::string& name, const Grid& grid, const void* argument,
                    void* stream) const {
  void* parameters[] = {const_cast<void*>(argument)};
  const int status = functions().launch(kernel, grid.x, grid.y, grid.z, grid.threads, 1, 1,
                                        grid.shared, stream, parameters, nullptr);
  if (status == 0) return;
  check(status, "the launch of " + name + " (" + std::to_string(grid.x) + " × " +
                    std::to_string(grid.y) + " × " + std::to_string(grid.z) + " blocks of " +
                    std::to_string(grid.threads) + " threads)");
}

Graph::Graph(int device, void* stream, const std::function<void()>& queue) : device_(device) {
  const CudaDriver::Scope scope(driver(), device);
  const Functions& f = functions();
  check(f.begin_capture(stream, kThreadLocal), "cuStreamBeginCapture");
  void* recorded = nullptr;
  try {
    queue();
  } catch (...) {
    f.end_capture(stream, &recorded);  // why it failed is what counts
    if (recorded != nullptr) f.graph_destroy(recorded);
    throw;
  }
  check(f.end_capture(stream, &recorded), "cuStreamEndCapture");
  const int status = f.graph_instantiate(&graph_, recorded, 0);
  complain(f.graph_destroy(recorded), "cuGraphDestroy");
  check(status, "cuGraphInstantiate");
}

Graph::~Graph() {
  const CudaDriver::Scope scope(driver(), device_);
  complain(functions().graph_exec_destroy(graph_), "cuGraphExecDestroy");
}

void Graph::launch(void* stream) const {
  const CudaDriver::Scope scope(driver(), device_);
  check(functions().graph_launch(graph_, stream), "cuGraphLaunch");
}

void copy_to_device(int device, void* to, const void* from, std::size_t bytes, void* stream) {
  const CudaDriver::Scope scope(driver(), device);
  check(functions().to_device(address(to), from, bytes, stream),
        "cuMemcpyHtoDAsync of " + std::to_string(bytes) + " bytes");
}

void copy_to_host(int device, void* to, const void* from, std::size_t bytes, void* stream) {
  const CudaDriver::Scope scope(driver(), device);
  check(functions().to_host(to, address(from), bytes, stream),
        "cuMemcpyDtoHAsync of " + std::to_string(bytes) + " bytes");
}

void copy_on_device(int device, void* to, const void* from, std::size_t bytes, void* stream) {
  const CudaDriver::Scope scope(driver(), device);
  check(functions().copy(address(to), address(from), bytes, stream),
        "cuMemcpyAsync of " + std::to_string(bytes) + " bytes");
}

}  // namespace xrt::cuda
