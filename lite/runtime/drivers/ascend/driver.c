/* SPDX-License-Identifier: Apache-2.0
 * The driver "ascend": .om models through AscendCL, whose library is opened when a file asks for it.
 * Calls wait until they are done. Device 0 is used. Written after AscendCL's public documentation
 * and tried against a stand-in only. */
#include <dlfcn.h>
#include <string.h>

#include "kernel.h"
#include "xrt_lite_hal.h"

enum { MEMORY_HUGE_FIRST = 0, HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, MAX_OPERANDS = 12 };

/* X(name, result, parameters): public functions of AscendCL; an int result of 0 is success. */
#define ACL_FUNCTIONS(X)                                                                          \
  X(aclInit, int, (const char* config))                                                          \
  X(aclrtSetDevice, int, (int32_t device))                                                       \
  X(aclrtResetDevice, int, (int32_t device))                                                     \
  X(aclrtCreateContext, int, (void** context, int32_t device))                                   \
  X(aclrtDestroyContext, int, (void* context))                                                   \
  X(aclrtSetCurrentContext, int, (void* context))                                                \
  X(aclrtMalloc, int, (void** memory, size_t bytes, int policy))                                 \
  X(aclrtFree, int, (void* memory))                                                              \
  X(aclrtMemcpy, int, (void* to, size_t room, const void* from, size_t bytes, int kind))         \
  X(aclmdlLoadFromMem, int, (const void* model, size_t bytes, uint32_t* id))                     \
  X(aclmdlUnload, int, (uint32_t id))                                                            \
  X(aclmdlCreateDesc, void*, (void))                                                             \
  X(aclmdlDestroyDesc, int, (void* description))                                                 \
  X(aclmdlGetDesc, int, (void* description, uint32_t id))                                        \
  X(aclmdlGetNumInputs, size_t, (void* description))                                             \
  X(aclmdlGetNumOutputs, size_t, (void* description))                                            \
  X(aclmdlGetInputSizeByIndex, size_t, (void* description, size_t index))                        \
  X(aclmdlGetOutputSizeByIndex, size_t, (void* description, size_t index))                       \
  X(aclmdlCreateDataset, void*, (void))                                                          \
  X(aclmdlDestroyDataset, int, (const void* dataset))                                            \
  X(aclmdlAddDatasetBuffer, int, (void* dataset, void* buffer))                                  \
  X(aclCreateDataBuffer, void*, (void* memory, size_t bytes))                                    \
  X(aclDestroyDataBuffer, int, (const void* buffer))                                             \
  X(aclmdlExecute, int, (uint32_t id, const void* inputs, void* outputs))

typedef struct acl_api {
#define ACL_MEMBER(name, result, parameters) result(*name) parameters;
  ACL_FUNCTIONS(ACL_MEMBER)
#undef ACL_MEMBER
} acl_api;

struct xrt_lite_device {
  xrt_lite_allocator allocator;
  void* library;
  acl_api api;
  void* context;
};

struct xrt_lite_buffer {
  uint8_t* memory;
  size_t bytes;
};

struct xrt_lite_executable {
  uint32_t model;
  int32_t loaded, inputs, outputs;
  size_t offsets[MAX_OPERANDS], bytes[MAX_OPERANDS]; /* in the arena: inputs, then outputs */
};

static xrt_lite_status check(int result) {
  return result == 0 ? XRT_LITE_OK : XRT_LITE_DEVICE_ERROR;
}

static void* take(xrt_lite_device* d, size_t bytes) {
  void* memory = d->allocator.alloc(d->allocator.user, bytes, 64);
  if (memory != NULL) memset(memory, 0, bytes);
  return memory;
}

static void give(xrt_lite_device* d, void* memory) {
  d->allocator.release(d->allocator.user, memory);
}

static int resolve(void* library, acl_api* api) {
#define ACL_RESOLVE(name, result, parameters)           \
  {                                                     \
    void* symbol = dlsym(library, #name);               \
    if (symbol == NULL) return 0;                       \
    memcpy((void*)&api->name, &symbol, sizeof(symbol)); \
  }
  ACL_FUNCTIONS(ACL_RESOLVE)
#undef ACL_RESOLVE
  return 1;
}

static void close_device(xrt_lite_device* d) {
  if (d->context != NULL) {
    d->api.aclrtDestroyContext(d->context);
    d->api.aclrtResetDevice(0);
  }
  dlclose(d->library);
  give(d, d);
}

static xrt_lite_status open_device(const xrt_lite_allocator* allocator, xrt_lite_device** out) {
  static const int already_initialised = 100002; /* ACL_ERROR_REPEAT_INITIALIZE */
  if (allocator->alloc == NULL) return XRT_LITE_OUT_OF_MEMORY;
  xrt_lite_device* d =
      (xrt_lite_device*)allocator->alloc(allocator->user, sizeof(xrt_lite_device), 64);
  if (d == NULL) return XRT_LITE_OUT_OF_MEMORY;
  memset(d, 0, sizeof(*d));
  d->allocator = *allocator;
  d->library = dlopen("libascendcl.so", RTLD_NOW | RTLD_LOCAL);
  if (d->library == NULL) {
    give(d, d);
    return XRT_LITE_NO_DEVICE;
  }
  int result = -1;
  if (resolve(d->library, &d->api)) {
    result = d->api.aclInit(NULL);
    if (result == already_initialised) result = 0;
    if (result == 0) result = d->api.aclrtSetDevice(0);
    if (result == 0 && (result = d->api.aclrtCreateContext(&d->context, 0)) != 0) d->context = NULL;
  }
  if (result != 0) {
    close_device(d);
    return XRT_LITE_NO_DEVICE;
  }
  *out = d;
  return XRT_LITE_OK;
}

/* Calls may come from any thread. */
static int enter(xrt_lite_device* d) { return d->api.aclrtSetCurrentContext(d->context); }

static xrt_lite_status buffer_create(xrt_lite_device* d, size_t bytes, xrt_lite_buffer** out) {
  xrt_lite_buffer* b = (xrt_lite_buffer*)take(d, sizeof(xrt_lite_buffer));
  if (b == NULL) return XRT_LITE_OUT_OF_MEMORY;
  void* memory = NULL;
  if (enter(d) != 0 || d->api.aclrtMalloc(&memory, bytes, MEMORY_HUGE_FIRST) != 0) {
    give(d, b);
    return XRT_LITE_OUT_OF_MEMORY;
  }
  b->memory = (uint8_t*)memory;
  b->bytes = bytes;
  *out = b;
  return XRT_LITE_OK;
}

static void buffer_destroy(xrt_lite_device* d, xrt_lite_buffer* b) {
  if (enter(d) == 0) d->api.aclrtFree(b->memory);
  give(d, b);
}

static xrt_lite_status buffer_write(xrt_lite_device* d, xrt_lite_stream* stream,
                                    xrt_lite_buffer* b, size_t offset, const void* from,
                                    size_t bytes) {
  (void)stream;
  if (offset > b->bytes || bytes > b->bytes - offset) return XRT_LITE_INVALID_ARGUMENT;
  const int result = enter(d);
  if (result != 0) return check(result);
  return check(
      d->api.aclrtMemcpy(b->memory + offset, b->bytes - offset, from, bytes, HOST_TO_DEVICE));
}

static xrt_lite_status buffer_read(xrt_lite_device* d, xrt_lite_stream* stream, xrt_lite_buffer* b,
                                   size_t offset, void* to, size_t bytes) {
  (void)stream;
  if (offset > b->bytes || bytes > b->bytes - offset) return XRT_LITE_INVALID_ARGUMENT;
  const int result = enter(d);
  if (result != 0) return check(result);
  return check(d->api.aclrtMemcpy(to, bytes, b->memory + offset, bytes, DEVICE_TO_HOST));
}

static void executable_destroy(xrt_lite_device* d, xrt_lite_executable* e) {
  if (e->loaded && enter(d) == 0) d->api.aclmdlUnload(e->model);
  give(d, e);
}

/* The model must want what the file gives it. */
static xrt_lite_status check_model(xrt_lite_device* d, const xrt_lite_executable* e) {
  const acl_api* api = &d->api;
  void* description = api->aclmdlCreateDesc();
  if (description == NULL) return XRT_LITE_OUT_OF_MEMORY;
  xrt_lite_status status = check(api->aclmdlGetDesc(description, e->model));
  if (status == XRT_LITE_OK && (api->aclmdlGetNumInputs(description) != (size_t)e->inputs ||
                                api->aclmdlGetNumOutputs(description) != (size_t)e->outputs))
    status = XRT_LITE_INVALID_FILE;
  for (int32_t i = 0; status == XRT_LITE_OK && i < e->inputs + e->outputs; ++i) {
    const size_t wanted =
        i < e->inputs ? api->aclmdlGetInputSizeByIndex(description, (size_t)i)
                      : api->aclmdlGetOutputSizeByIndex(description, (size_t)(i - e->inputs));
    if (wanted != e->bytes[i]) status = XRT_LITE_INVALID_FILE;
  }
  api->aclmdlDestroyDesc(description);
  return status;
}

static xrt_lite_status executable_create(xrt_lite_device* d, const xrt_lite_function* f,
                                         xrt_lite_buffer* constants, xrt_lite_executable** out) {
  (void)constants;
  xrt_lite_operand operands[MAX_OPERANDS];
  xrt_lite_op op;
  if (f->op_count != 1 || f->blob == NULL) return XRT_LITE_INVALID_FILE;
  xrt_lite_status status = f->op(f->model, f->first_op, &op, operands, MAX_OPERANDS);
  if (status != XRT_LITE_OK) return status;
  if (op.kernel != XRT_K_MODEL) return XRT_LITE_UNSUPPORTED;
  const xrt_k_model* p = (const xrt_k_model*)op.params;
  xrt_lite_executable* e = (xrt_lite_executable*)take(d, sizeof(xrt_lite_executable));
  if (e == NULL) return XRT_LITE_OUT_OF_MEMORY;
  e->inputs = p->inputs;
  e->outputs = p->outputs;
  for (int32_t i = 0; i < op.operand_count; ++i) {
    if (operands[i].is_constant) status = XRT_LITE_INVALID_FILE;
    e->offsets[i] = operands[i].offset;
    e->bytes[i] = operands[i].bytes;
  }
  if (status == XRT_LITE_OK) status = check(enter(d));
  if (status == XRT_LITE_OK)
    status = check(d->api.aclmdlLoadFromMem(f->blob, f->blob_bytes, &e->model));
  e->loaded = status == XRT_LITE_OK;
  if (status == XRT_LITE_OK) status = check_model(d, e);
  if (status != XRT_LITE_OK) {
    executable_destroy(d, e);
    return status;
  }
  *out = e;
  return XRT_LITE_OK;
}

/* A list of operands as AscendCL wants it. `buffers` are to be destroyed whatever is returned. */
static void* make_dataset(const acl_api* api, const xrt_lite_executable* e, int32_t first,
                          int32_t end, uint8_t* arena, void** buffers) {
  void* dataset = api->aclmdlCreateDataset();
  for (int32_t i = first; dataset != NULL && i < end; ++i) {
    buffers[i] = api->aclCreateDataBuffer(arena + e->offsets[i], e->bytes[i]);
    if (buffers[i] == NULL || api->aclmdlAddDatasetBuffer(dataset, buffers[i]) != 0) {
      api->aclmdlDestroyDataset(dataset);
      return NULL;
    }
  }
  return dataset;
}

static xrt_lite_status executable_run(xrt_lite_device* d, xrt_lite_executable* e,
                                      xrt_lite_stream* stream, xrt_lite_buffer* arena) {
  (void)stream;
  const acl_api* api = &d->api;
  const int result = enter(d);
  if (result != 0) return check(result);
  void* buffers[MAX_OPERANDS] = {NULL};
  const int32_t count = e->inputs + e->outputs;
  void* inputs = make_dataset(api, e, 0, e->inputs, arena->memory, buffers);
  void* outputs = make_dataset(api, e, e->inputs, count, arena->memory, buffers);
  xrt_lite_status status = XRT_LITE_OUT_OF_MEMORY;
  if (inputs != NULL && outputs != NULL)
    status = check(api->aclmdlExecute(e->model, inputs, outputs));
  if (inputs != NULL) api->aclmdlDestroyDataset(inputs);
  if (outputs != NULL) api->aclmdlDestroyDataset(outputs);
  for (int32_t i = 0; i < count; ++i) {
    if (buffers[i] != NULL) api->aclDestroyDataBuffer(buffers[i]);
  }
  return status;
}

const xrt_lite_driver* xrt_lite_ascend_driver(void) {
  static const xrt_lite_buffer_api buffer = {buffer_create, buffer_destroy, buffer_write,
                                             buffer_read};
  static const xrt_lite_executable_api executable = {executable_create, executable_destroy,
                                                     executable_run};
  static const xrt_lite_driver driver = {
      XRT_LITE_HAL_VERSION, "ascend", open_device, close_device, NULL, &buffer, NULL, NULL,
      &executable};
  return &driver;
}
