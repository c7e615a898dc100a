// SPDX-License-Identifier: Apache-2.0
// A stand-in for libascendcl.so: device memory is the host's, models are ONNX files behind a magic
// word (standin/cann/bin/atc) that the native engine runs.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "xrt/error.h"
#include "xrt/onnx.h"
#include "xrt/program.h"

namespace {

struct Buffer {
  void* memory;
  std::size_t bytes;
};
using Dataset = std::vector<Buffer*>;
struct Description {
  const xrt::Program* program = nullptr;
};

std::map<std::uint32_t, std::shared_ptr<xrt::Program>> models;
std::map<std::uintptr_t, std::size_t> memory;
std::uint32_t next_model = 1;

bool inside(const void* p, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  auto at = memory.upper_bound(address);
  if (at == memory.begin()) return false;
  --at;
  return address + bytes <= at->first + at->second;
}

std::size_t port_bytes(const xrt::Port& p) {
  return xrt::byte_count(p.type.dtype, *p.type.static_dims());
}

enum { kInvalid = 100000, kMemory = 200000, kFailed = 500002 };

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int aclInit(const char*) { return std::getenv("XRT_STANDIN_NO_DEVICE") ? 507033 : 0; }
EXPORT int aclrtSetDevice(std::int32_t) { return 0; }
EXPORT int aclrtResetDevice(std::int32_t) { return memory.empty() && models.empty() ? 0 : kFailed; }
EXPORT int aclrtCreateContext(void** context, std::int32_t) {
  *context = &models;
  return 0;
}
EXPORT int aclrtDestroyContext(void*) { return 0; }
EXPORT int aclrtSetCurrentContext(void* context) { return context == &models ? 0 : kInvalid; }
EXPORT int aclrtMalloc(void** out, std::size_t bytes, int) {
  *out = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (*out == nullptr) return kMemory;
  std::memset(*out, 0xa5, bytes);
  memory[reinterpret_cast<std::uintptr_t>(*out)] = bytes;
  return 0;
}
EXPORT int aclrtFree(void* p) {
  if (memory.erase(reinterpret_cast<std::uintptr_t>(p)) == 0) return kInvalid;
  std::free(p);
  return 0;
}
EXPORT int aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t bytes, int kind) {
  if (bytes > room || !inside(kind == 1 ? to : from, bytes)) return kInvalid;
  std::memcpy(to, from, bytes);
  return 0;
}
EXPORT int aclmdlLoadFromMem(const void* model, std::size_t bytes, std::uint32_t* id) {
  const std::string text(static_cast<const char*>(model), bytes);
  if (!text.starts_with("OMSTANDI")) return kInvalid;
  try {
    models[next_model] =
        xrt::Program::compile(xrt::import_onnx_bytes(text.substr(8)), {.engines = {"native"}});
  } catch (const xrt::Error&) {
    return kFailed;
  }
  *id = next_model++;
  return 0;
}
EXPORT int aclmdlUnload(std::uint32_t id) { return models.erase(id) == 1 ? 0 : kInvalid; }
EXPORT void* aclmdlCreateDesc() { return new Description; }
EXPORT int aclmdlDestroyDesc(Description* d) {
  delete d;
  return 0;
}
EXPORT int aclmdlGetDesc(Description* d, std::uint32_t id) {
  const auto at = models.find(id);
  if (at == models.end()) return kInvalid;
  d->program = at->second.get();
  return 0;
}
EXPORT std::size_t aclmdlGetNumInputs(Description* d) { return d->program->inputs().size(); }
EXPORT std::size_t aclmdlGetNumOutputs(Description* d) { return d->program->outputs().size(); }
EXPORT std::size_t aclmdlGetInputSizeByIndex(Description* d, std::size_t i) {
  return port_bytes(d->program->inputs()[i]);
}
EXPORT std::size_t aclmdlGetOutputSizeByIndex(Description* d, std::size_t i) {
  return port_bytes(d->program->outputs()[i]);
}
EXPORT void* aclmdlCreateDataset() { return new Dataset; }
EXPORT int aclmdlDestroyDataset(Dataset* d) {
  delete d;
  return 0;
}
EXPORT int aclmdlAddDatasetBuffer(Dataset* d, Buffer* b) {
  d->push_back(b);
  return 0;
}
EXPORT void* aclCreateDataBuffer(void* p, std::size_t bytes) {
  return inside(p, bytes) ? new Buffer{p, bytes} : nullptr;
}
EXPORT int aclDestroyDataBuffer(Buffer* b) {
  delete b;
  return 0;
}
EXPORT int aclmdlExecute(std::uint32_t id, const Dataset* inputs, Dataset* outputs) {
  const auto at = models.find(id);
  if (at == models.end()) return kInvalid;
  const xrt::Program& program = *at->second;
  std::map<std::string, xrt::Data> feeds;
  for (std::size_t i = 0; i < program.inputs().size(); ++i) {
    const xrt::Port& p = program.inputs()[i];
    xrt::Tensor t = xrt::Tensor::allocate(p.type.dtype, *p.type.static_dims());
    std::memcpy(t.data<char>(), (*inputs)[i]->memory, (*inputs)[i]->bytes);
    feeds.emplace(p.name, xrt::Data(t));
  }
  try {
    const std::vector<xrt::Data> results = at->second->run(feeds);
    for (std::size_t i = 0; i < results.size(); ++i) {
      std::memcpy((*outputs)[i]->memory, results[i].tensor().data<char>(), (*outputs)[i]->bytes);
    }
  } catch (const xrt::Error&) {
    return kFailed;
  }
  return 0;
}
