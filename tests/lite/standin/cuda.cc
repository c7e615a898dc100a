// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda.so.1: device memory is the host's, kernels are the functions of shared
// libraries (nvrtc.cc). Calls are written to the file that XRT_STANDIN_LOG names. Memory is filled
// with garbage when it is taken, and work is only done when a stream is synchronized: who reads too
// early sees it. XRT_STANDIN_CAPABILITY: the compute capability, 90 unless set;
// XRT_STANDIN_DEVICES: how many devices there are, 1 unless set.
#include <dlfcn.h>
#include <elf.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

// As the driver, whose functions may be called from any thread: each that touches what is below
// holds it. Recursive: work that a stream does may free memory.
std::recursive_mutex state;

struct Index {
  unsigned x, y, z;
};
// The one parameter of a kernel.
#ifndef XRT_STANDIN_POINTERS
#define XRT_STANDIN_POINTERS 12
#endif
struct Args {
  void* p[XRT_STANDIN_POINTERS];
};
using Kernel = void (*)(Args);

struct Module;
struct Function {
  Module* module;
  Kernel kernel;
  std::string name;
};
struct Module {
  void* library;
  Index *thread, *block, *block_size;
  void (**barrier)();
  unsigned* barriers;
  std::list<Function> functions;  // handles stay valid until the module is unloaded
};
using Work = std::vector<std::function<void()>>;
struct Stream {
  Work work;
  bool captures = false;
  Work captured;
};
struct Graph {
  Work work;
};
int live_graphs = 0;
struct Event {
  Stream* stream;  // whose work is done when somebody waits for the event
};

std::map<std::uint64_t, std::size_t> memory;  // address -> bytes
Stream null_stream;
std::list<Stream> streams;  // also those that were destroyed: events still name them

void log(const std::string& line) {
  if (const char* path = std::getenv("XRT_STANDIN_LOG")) {
    std::ofstream(path, std::ios::app) << line << "\n";
  }
}

int number(const char* variable, int otherwise) {
  const char* set = std::getenv(variable);
  return set != nullptr ? std::atoi(set) : otherwise;
}

bool inside(std::uint64_t address, std::size_t bytes) {
  auto at = memory.upper_bound(address);
  if (at == memory.begin()) return false;
  --at;
  return address + bytes <= at->first + at->second;
}

// --- one block: its threads are coroutines
constexpr std::size_t kStack = 64 * 1024;
struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  bool done = false;
};
std::vector<Fiber> fibers;
ucontext_t scheduler;
std::size_t current;
Kernel running_kernel;
Args running_args;

void fiber_main() {
  running_kernel(running_args);
  fibers[current].done = true;
}

void barrier() { swapcontext(&fibers[current].context, &scheduler); }

// A kernel whose first thread meets no barrier has none: the others are plain calls.
bool needs_no_coroutines(const Function& f, unsigned threads) {
  if (!fibers[0].done) return false;
  for (unsigned t = 1; t < threads; ++t) {
    *f.module->thread = {t, 0, 0};
    running_kernel(running_args);
  }
  return true;
}

void run_block(const Function& f, unsigned threads) {
  if (fibers.size() < threads) fibers.resize(threads);
  *f.module->barriers = 0;
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& fiber = fibers[t];
    if (t == 1) {  // thread 0 up to its first barrier
      current = 0;
      *f.module->thread = {0, 0, 0};
      swapcontext(&scheduler, &fibers[0].context);
      if (needs_no_coroutines(f, threads)) return;
    }
    if (fiber.stack.empty()) fiber.stack.resize(kStack);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = &scheduler;
    fiber.done = false;
    makecontext(&fiber.context, fiber_main, 0);
  }
  unsigned first = threads > 1 ? 1 : 0;  // thread 0 waits at the first barrier
  for (unsigned left = threads; left > 0; first = 0, ++*f.module->barriers) {
    left = first;
    for (unsigned t = first; t < threads; ++t) {
      if (fibers[t].done) continue;
      current = t;
      *f.module->thread = {t, 0, 0};
      swapcontext(&scheduler, &fibers[t].context);
      if (!fibers[t].done) ++left;
    }
  }
}

void launch(const Function& f, Index grid, unsigned threads, const Args& args) {
  running_kernel = f.kernel;
  running_args = args;
  *f.module->barrier = barrier;
  *f.module->block_size = {threads, 1, 1};
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        *f.module->block = {x, y, z};
        run_block(f, threads);
      }
}

void finish(Stream* s) {
  if (s == nullptr) s = &null_stream;
  for (const auto& work : s->work) work();
  s->work.clear();
}

enum { kInvalidValue = 1, kOutOfMemory = 2, kInvalidImage = 200, kNotFound = 500 };

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cuInit(unsigned) { return std::getenv("XRT_STANDIN_NO_DEVICE") != nullptr ? 100 : 0; }
EXPORT int cuDriverGetVersion(int* version) {
  *version = number("XRT_STANDIN_VERSION", 13000);
  return 0;
}
EXPORT int cuDeviceGetCount(int* count) {
  *count = number("XRT_STANDIN_DEVICES", 1);
  return 0;
}
EXPORT int cuDeviceGet(int* device, int ordinal) {
  log("device " + std::to_string(ordinal));
  *device = ordinal;
  return 0;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  const int capability = number("XRT_STANDIN_CAPABILITY", 90);
  constexpr int kProcessors = 16, kMajor = 75;
  *value = attribute == kProcessors ? 132 : attribute == kMajor ? capability / 10 : capability % 10;
  return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &null_stream;
  return 0;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int) {
  const std::scoped_lock lock(state);
  log("live allocations: " + std::to_string(memory.size()) +
      ", graphs: " + std::to_string(live_graphs));
  return 0;
}
EXPORT int cuCtxSetCurrent(void*) { return 0; }
EXPORT int cuCtxGetCurrent(void** context) {
  *context = &null_stream;
  return 0;
}
EXPORT int cuGetErrorName(int code, const char** name) {
  *name = code == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
EXPORT int cuModuleLoadData(Module** out, const void* image) {
  const std::scoped_lock lock(state);
  const auto* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) != 0) return kInvalidImage;
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  const std::size_t size = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  char path[] = "/tmp/xrt-cubin-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0 || write(file, bytes, size) != static_cast<ssize_t>(size)) return kInvalidImage;
  close(file);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  if (library == nullptr) return kInvalidImage;
  *out = new Module{library,
                    static_cast<Index*>(dlsym(library, "standin_thread")),
                    static_cast<Index*>(dlsym(library, "standin_block")),
                    static_cast<Index*>(dlsym(library, "standin_block_size")),
                    reinterpret_cast<void (**)()>(dlsym(library, "standin_barrier")),
                    static_cast<unsigned*>(dlsym(library, "standin_barriers")),
                    {}};
  log("module");
  return 0;
}
EXPORT int cuModuleUnload(Module* m) {
  const std::scoped_lock lock(state);
  dlclose(m->library);
  delete m;
  return 0;
}
EXPORT int cuModuleGetFunction(Function** out, Module* m, const char* name) {
  const std::scoped_lock lock(state);
  void* symbol = dlsym(m->library, name);
  if (symbol == nullptr) return kNotFound;
  *out = &m->functions.emplace_back(Function{m, reinterpret_cast<Kernel>(symbol), name});
  return 0;
}
EXPORT int cuFuncSetAttribute(Function*, int attribute, int) {
  return attribute == 8 ? 0 : kInvalidValue;
}
EXPORT int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  const std::scoped_lock lock(state);
  void* p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (p == nullptr) return kOutOfMemory;
  std::memset(p, 0xa5, bytes);
  *address = reinterpret_cast<std::uint64_t>(p);
  memory[*address] = bytes;
  log("alloc " + std::to_string(bytes));
  return 0;
}
EXPORT int cuMemFree_v2(std::uint64_t address) {
  const std::scoped_lock lock(state);
  if (memory.erase(address) == 0) return kInvalidValue;
  std::free(reinterpret_cast<void*>(address));
  return 0;
}
EXPORT int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  const std::scoped_lock lock(state);
  if (!inside(to, bytes)) return kInvalidValue;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
EXPORT int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  const std::scoped_lock lock(state);
  if (!inside(from, bytes)) return kInvalidValue;
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, Stream* s) {
  const std::scoped_lock lock(state);
  if (!inside(to, bytes)) return kInvalidValue;
  log("write " + std::to_string(bytes));
  const auto* first = static_cast<const char*>(from);
  s->work.push_back([to, staged = std::vector<char>(first, first + bytes)] {
    std::memcpy(reinterpret_cast<void*>(to), staged.data(), staged.size());
  });
  return 0;
}
EXPORT int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, Stream* s) {
  const std::scoped_lock lock(state);
  if (!inside(from, bytes)) return kInvalidValue;
  log("read " + std::to_string(bytes));
  s->work.push_back(
      [to, from, bytes] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  return 0;
}
EXPORT int cuMemcpyAsync(std::uint64_t to, std::uint64_t from, std::size_t bytes, Stream* s) {
  const std::scoped_lock lock(state);
  if (!inside(to, bytes) || !inside(from, bytes)) return kInvalidValue;
  s->work.push_back([to, from, bytes] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
  return 0;
}
// Pools: memory is free when the stream has got there. XRT_STANDIN_MEMORY: bytes of the device.
EXPORT int cuMemPoolCreate(void** pool, const void*) {
  *pool = &memory;
  return 0;
}
EXPORT int cuMemPoolSetAttribute(void*, int, void*) { return 0; }
EXPORT int cuMemPoolGetAttribute(void*, int, std::uint64_t* value) {
  const std::scoped_lock lock(state);
  *value = 0;
  for (const auto& [address, bytes] : memory) *value += bytes;
  return 0;
}
EXPORT int cuMemPoolTrimTo(void*, std::size_t) { return 0; }
EXPORT int cuMemAllocFromPoolAsync(std::uint64_t* address, std::size_t bytes, void* pool, Stream*) {
  const std::scoped_lock lock(state);
  std::uint64_t used = 0;
  cuMemPoolGetAttribute(pool, 0, &used);
  const char* most = std::getenv("XRT_STANDIN_MEMORY");
  if (most != nullptr && used + bytes > std::strtoull(most, nullptr, 10)) return kOutOfMemory;
  return cuMemAlloc_v2(address, bytes);
}
EXPORT int cuMemFreeAsync(std::uint64_t address, Stream* s) {
  const std::scoped_lock lock(state);
  s->work.push_back([address] { cuMemFree_v2(address); });
  finish(s);
  return 0;
}
EXPORT int cuStreamIsCapturing(Stream*, int* status) {
  *status = 0;
  return 0;
}
EXPORT int cuStreamCreate(Stream** out, unsigned) {
  const std::scoped_lock lock(state);
  *out = &streams.emplace_back();
  return 0;
}
EXPORT int cuStreamDestroy_v2(Stream* s) {
  const std::scoped_lock lock(state);
  finish(s);
  return 0;
}
EXPORT int cuStreamSynchronize(Stream* s) {
  const std::scoped_lock lock(state);
  if (s != nullptr) log("synchronize");
  finish(s);
  return 0;
}
EXPORT int cuStreamWaitEvent(Stream*, Event* e, unsigned) {
  const std::scoped_lock lock(state);
  finish(e->stream);
  return 0;
}
EXPORT int cuEventCreate(Event** out, unsigned) {
  *out = new Event{&null_stream};
  return 0;
}
EXPORT int cuEventQuery(Event*) { return 0; }
EXPORT int cuEventSynchronize(Event* e) {
  const std::scoped_lock lock(state);
  finish(e->stream);
  return 0;
}
EXPORT int cuEventElapsedTime(float* milliseconds, Event*, Event*) {
  *milliseconds = 1;
  return 0;
}
EXPORT int cuEventDestroy_v2(Event* e) {
  const std::scoped_lock lock(state);
  delete e;
  return 0;
}
EXPORT int cuEventRecord(Event* e, Stream* s) {
  const std::scoped_lock lock(state);
  e->stream = s;
  return 0;
}
EXPORT int cuLaunchKernel(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned, Stream* s, void** params, void**) {
  const std::scoped_lock lock(state);
  if (by != 1 || bz != 1 || bx == 0 || bx > 1024 || gy > 65535 || gz > 65535) return kInvalidValue;
  Args args;
  std::memcpy(&args, params[0], sizeof(args));
  log((s->captures ? "capture " : "launch ") + f->name);
  if (s->captures && number("XRT_STANDIN_CAPTURE_FAILS", 0) != 0) return kInvalidValue;
  (s->captures ? s->captured : s->work).push_back([=] { launch(*f, {gx, gy, gz}, bx, args); });
  return 0;
}
// For stand-ins of libraries that queue work of their own: `run(data)` in the stream's order, as
// often as what is recorded is launched.
EXPORT void standin_queue(Stream* s, const std::string& name, const std::function<void()>& run) {
  const std::scoped_lock lock(state);
  log((s->captures ? "capture " : "launch ") + name);
  (s->captures ? s->captured : s->work).push_back(run);
}
#ifndef XRT_STANDIN_OLDER  // what came with CUDA 11.4 and later
struct Attribute {
  int id, unused, value;
  char rest[60];
};
struct Launch {
  unsigned gx, gy, gz, bx, by, bz, shared;
  Stream* stream;
  const Attribute* attributes;
  unsigned count;
};
EXPORT int cuLaunchKernelEx(const Launch* l, Function* f, void** params, void** extra) {
  if (l->count != 1 || l->attributes->id != 6 || l->attributes->value != 1) return kInvalidValue;
  log("overlap " + f->name);
  return cuLaunchKernel(f, l->gx, l->gy, l->gz, l->bx, l->by, l->bz, l->shared, l->stream, params,
                        extra);
}
EXPORT int cuStreamBeginCapture_v2(Stream* s, int mode) {
  const std::scoped_lock lock(state);
  if (s->captures || mode != 1) return kInvalidValue;
  s->captures = true;
  return 0;
}
EXPORT int cuStreamEndCapture(Stream* s, Graph** out) {
  const std::scoped_lock lock(state);
  if (!s->captures) return kInvalidValue;
  s->captures = false;
  *out = new Graph{std::move(s->captured)};
  s->captured.clear();
  ++live_graphs;
  return 0;
}
EXPORT int cuGraphInstantiateWithFlags(Graph** out, const Graph* g, unsigned long long) {
  const std::scoped_lock lock(state);
  *out = new Graph(*g);
  ++live_graphs;
  return 0;
}
EXPORT int cuGraphLaunch(const Graph* g, Stream* s) {
  const std::scoped_lock lock(state);
  log("graph " + std::to_string(g->work.size()));
  s->work.insert(s->work.end(), g->work.begin(), g->work.end());
  return 0;
}
EXPORT int cuGraphDestroy(Graph* g) {
  const std::scoped_lock lock(state);
  delete g;
  --live_graphs;
  return 0;
}
EXPORT int cuGraphExecDestroy(Graph* g) { return cuGraphDestroy(g); }
#endif
