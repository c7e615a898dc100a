/* SPDX-License-Identifier: Apache-2.0
 * The driver "cuda": NVIDIA GPUs through the driver API. Its library is opened when a file asks for
 * it; kernels come with the file (code.h). The environment says
 *   XRT_LITE_CUDA_DEVICE   which device, counted from 0; 0 unless set
 *   XRT_LITE_CUDA_GRAPH    0: kernels are launched one by one, not as a graph
 *   XRT_LITE_CUDA_OVERLAP  0: a kernel starts only when the one before it is done */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "code.h"
#include "kernel.h"
#include "xrt_lite_hal.h"

struct xrt_lite_device {
  xrt_lite_allocator allocator;
  void* library;
  cuda_api api;
  cu_device ordinal;
  cu_context context;
  uint32_t capability; /* 90: compute capability 9.0 */
  uint32_t executable_count;
  int graphs;   /* launches of a run are one graph */
  int overlap;  /* a kernel's blocks may take their places while the one before it ends */
};

/* An arena has a graph per executable, made when it runs there for the first time: addresses are
 * part of a graph. */
struct xrt_lite_buffer {
  cu_address address;
  size_t bytes;
  cu_graph_exec* graphs;
  uint32_t graph_count;
};

struct xrt_lite_stream {
  cu_stream handle;
};

struct xrt_lite_event {
  cu_event handle;
};

typedef struct launch {
  cu_function function;
  unsigned grid[3], block;
  uint32_t op;
} launch;

/* Where an op's operands lie, as offsets in one of two buffers. */
typedef struct op_places {
  size_t offsets[XRT_CUDA_ARGS];
  uint32_t count, constants; /* bits: which are constants */
} op_places;

struct xrt_lite_executable {
  cu_module module;
  cu_address constants;
  launch* launches;
  op_places* ops;
  uint32_t launch_count, op_count;
  uint32_t index; /* among the device's */
  int overlap;    /* kernels wait themselves for the one before them */
};

static xrt_lite_status check(cu_result result) {
  if (result == 0) return XRT_LITE_OK;
  return result == 2 ? XRT_LITE_OUT_OF_MEMORY : XRT_LITE_DEVICE_ERROR;
}

static void* take(xrt_lite_device* d, size_t bytes) {
  if (d->allocator.alloc == NULL) return NULL;
  void* memory = d->allocator.alloc(d->allocator.user, bytes, 64);
  if (memory != NULL) memset(memory, 0, bytes);
  return memory;
}

static void give(xrt_lite_device* d, void* memory) {
  if (memory != NULL) d->allocator.release(d->allocator.user, memory);
}

/* Calls may come from any thread. */
static cu_result enter(xrt_lite_device* d) { return d->api.context_set(d->context); }

static int resolve(void* library, cuda_api* api) {
#define XRT_RESOLVE(name, member, parameters)              \
  {                                                        \
    void* symbol = dlsym(library, #name);                  \
    if (symbol == NULL) return 0;                          \
    memcpy((void*)&api->member, &symbol, sizeof(symbol));  \
  }
  XRT_CUDA_FUNCTIONS(XRT_RESOLVE)
#undef XRT_RESOLVE
#define XRT_RESOLVE(name, member, parameters)             \
  {                                                       \
    void* symbol = dlsym(library, #name);                 \
    memcpy((void*)&api->member, &symbol, sizeof(symbol)); \
  }
  XRT_CUDA_NEWER_FUNCTIONS(XRT_RESOLVE)
#undef XRT_RESOLVE
  return 1;
}

static int switched_off(const char* name) {
  const char* set = getenv(name);
  return set != NULL && strcmp(set, "0") == 0;
}

static xrt_lite_status find_device(xrt_lite_device* d) {
  const cuda_api* api = &d->api;
  int wanted = 0, count = 0, major = 0, minor = 0, version = 0;
  const char* set = getenv("XRT_LITE_CUDA_DEVICE");
  if (set != NULL && *set != '\0') {
    for (const char* c = set; *c != '\0'; ++c) {
      if (*c < '0' || *c > '9' || wanted > 9999) return XRT_LITE_INVALID_ARGUMENT;
      wanted = wanted * 10 + (*c - '0');
    }
  }
  if (api->init(0) != 0 || api->device_count(&count) != 0 || wanted >= count ||
      api->device_get(&d->ordinal, wanted) != 0 ||
      api->device_attribute(&major, CU_COMPUTE_MAJOR, d->ordinal) != 0 ||
      api->device_attribute(&minor, CU_COMPUTE_MINOR, d->ordinal) != 0 ||
      api->version(&version) != 0)
    return XRT_LITE_NO_DEVICE;
  d->capability = (uint32_t)(major * 10 + minor);
  d->graphs = api->capture_begin != NULL && api->capture_end != NULL &&
              api->graph_instantiate != NULL && api->graph_launch != NULL &&
              api->graph_exec_destroy != NULL && api->graph_destroy != NULL &&
              !switched_off("XRT_LITE_CUDA_GRAPH");
  d->overlap = d->capability >= 90 && api->launch_ex != NULL &&
               version >= CU_GRAPHS_KEEP_OVERLAP && !switched_off("XRT_LITE_CUDA_OVERLAP");
  return XRT_LITE_OK;
}

static void close_device(xrt_lite_device* d) {
  if (d->context != NULL) d->api.context_release(d->ordinal);
  dlclose(d->library);
  give(d, d);
}

static xrt_lite_status open_device(const xrt_lite_allocator* allocator, xrt_lite_device** out) {
  if (allocator->alloc == NULL) return XRT_LITE_OUT_OF_MEMORY;
  xrt_lite_device* d =
      (xrt_lite_device*)allocator->alloc(allocator->user, sizeof(xrt_lite_device), 64);
  if (d == NULL) return XRT_LITE_OUT_OF_MEMORY;
  memset(d, 0, sizeof(*d));
  d->allocator = *allocator;
  d->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (d->library == NULL) {
    give(d, d);
    return XRT_LITE_NO_DEVICE;
  }
  const xrt_lite_status status =
      resolve(d->library, &d->api) ? find_device(d) : XRT_LITE_NO_DEVICE;
  if (status != XRT_LITE_OK) {
    close_device(d);
    return status;
  }
  const cu_result result = d->api.context_retain(&d->context, d->ordinal);
  if (result != 0) {
    d->context = NULL;
    close_device(d);
    return check(result);
  }
  *out = d;
  return XRT_LITE_OK;
}

static xrt_lite_status buffer_create(xrt_lite_device* d, size_t bytes, xrt_lite_buffer** out) {
  xrt_lite_buffer* b = (xrt_lite_buffer*)take(d, sizeof(xrt_lite_buffer));
  if (b == NULL) return XRT_LITE_OUT_OF_MEMORY;
  if (d->graphs && d->executable_count > 0) {
    b->graphs = (cu_graph_exec*)take(d, d->executable_count * sizeof(cu_graph_exec));
    if (b->graphs == NULL) {
      give(d, b);
      return XRT_LITE_OUT_OF_MEMORY;
    }
    b->graph_count = d->executable_count;
  }
  cu_result result = enter(d);
  if (result == 0) result = d->api.alloc(&b->address, bytes);
  if (result != 0) {
    give(d, b->graphs);
    give(d, b);
    return check(result);
  }
  b->bytes = bytes;
  *out = b;
  return XRT_LITE_OK;
}

static void buffer_destroy(xrt_lite_device* d, xrt_lite_buffer* b) {
  if (enter(d) == 0) {
    for (uint32_t i = 0; i < b->graph_count; ++i)
      if (b->graphs[i] != NULL) d->api.graph_exec_destroy(b->graphs[i]);
    d->api.free(b->address);
  }
  give(d, b->graphs);
  give(d, b);
}

/* Bytes of the host that are not pinned are staged before the call returns. */
static xrt_lite_status buffer_write(xrt_lite_device* d, xrt_lite_stream* stream,
                                    xrt_lite_buffer* b, size_t offset, const void* from,
                                    size_t bytes) {
  if (offset > b->bytes || bytes > b->bytes - offset) return XRT_LITE_INVALID_ARGUMENT;
  cu_result result = enter(d);
  if (result != 0) return check(result);
  if (stream == NULL) { /* other streams do not wait for what is still on its way */
    result = d->api.write(b->address + offset, from, bytes);
    return check(result != 0 ? result : d->api.stream_synchronize(NULL));
  }
  result = d->api.write_async(b->address + offset, from, bytes, stream->handle);
  return check(result);
}

static xrt_lite_status buffer_read(xrt_lite_device* d, xrt_lite_stream* stream, xrt_lite_buffer* b,
                                   size_t offset, void* to, size_t bytes) {
  if (offset > b->bytes || bytes > b->bytes - offset) return XRT_LITE_INVALID_ARGUMENT;
  const cu_result result = enter(d);
  if (result != 0) return check(result);
  if (stream == NULL) return check(d->api.read(to, b->address + offset, bytes));
  return check(d->api.read_async(to, b->address + offset, bytes, stream->handle));
}

static xrt_lite_status stream_create(xrt_lite_device* d, xrt_lite_stream** out) {
  xrt_lite_stream* s = (xrt_lite_stream*)take(d, sizeof(xrt_lite_stream));
  if (s == NULL) return XRT_LITE_OUT_OF_MEMORY;
  cu_result result = enter(d);
  if (result == 0) result = d->api.stream_create(&s->handle, CU_STREAM_NON_BLOCKING);
  if (result != 0) {
    give(d, s);
    return check(result);
  }
  *out = s;
  return XRT_LITE_OK;
}

static void stream_destroy(xrt_lite_device* d, xrt_lite_stream* s) {
  if (enter(d) == 0) d->api.stream_destroy(s->handle);
  give(d, s);
}

static xrt_lite_status stream_synchronize(xrt_lite_device* d, xrt_lite_stream* s) {
  const cu_result result = enter(d);
  return check(result != 0 ? result : d->api.stream_synchronize(s->handle));
}

static xrt_lite_status event_create(xrt_lite_device* d, xrt_lite_event** out) {
  xrt_lite_event* e = (xrt_lite_event*)take(d, sizeof(xrt_lite_event));
  if (e == NULL) return XRT_LITE_OUT_OF_MEMORY;
  cu_result result = enter(d);
  if (result == 0) result = d->api.event_create(&e->handle, CU_EVENT_DISABLE_TIMING);
  if (result != 0) {
    give(d, e);
    return check(result);
  }
  *out = e;
  return XRT_LITE_OK;
}

static void event_destroy(xrt_lite_device* d, xrt_lite_event* e) {
  if (enter(d) == 0) d->api.event_destroy(e->handle);
  give(d, e);
}

static xrt_lite_status event_record(xrt_lite_device* d, xrt_lite_event* e, xrt_lite_stream* s) {
  const cu_result result = enter(d);
  return check(result != 0 ? result : d->api.event_record(e->handle, s->handle));
}

static xrt_lite_status event_wait(xrt_lite_device* d, xrt_lite_event* e, xrt_lite_stream* s) {
  const cu_result result = enter(d);
  return check(result != 0 ? result : d->api.stream_wait(s->handle, e->handle, 0));
}

static void executable_destroy(xrt_lite_device* d, xrt_lite_executable* e) {
  if (e->module != NULL && enter(d) == 0) d->api.module_unload(e->module);
  give(d, e->launches);
  give(d, e->ops);
  give(d, e);
}

/* A cubin for this device, else PTX that is compiled for it. */
static const xrt_cuda_image* choose_image(const xrt_lite_device* d, const xrt_cuda_code* code,
                                const xrt_cuda_image* images) {
  const xrt_cuda_image* best = NULL;
  for (uint32_t i = 0; i < code->image_count; ++i) {
    const xrt_cuda_image* image = &images[i];
    const int fits = image->kind == XRT_CUDA_CUBIN
                         ? image->arch / 10 == d->capability / 10 && image->arch <= d->capability
                         : image->arch <= d->capability;
    if (!fits) continue;
    if (best == NULL || image->kind < best->kind ||
        (image->kind == best->kind && image->arch > best->arch))
      best = image;
  }
  return best;
}

static int code_ok(const xrt_lite_function* f) {
  const xrt_cuda_code* code = (const xrt_cuda_code*)f->blob;
  if (code == NULL || f->blob_bytes < sizeof(xrt_cuda_code) || code->magic != XRT_CUDA_MAGIC ||
      code->version != XRT_CUDA_VERSION || code->kernel_count > XRT_CUDA_MAX_KERNELS)
    return 0;
  const uint64_t tables = sizeof(xrt_cuda_code) +
                          (uint64_t)code->image_count * sizeof(xrt_cuda_image) +
                          (uint64_t)code->launch_count * sizeof(xrt_cuda_launch);
  if (tables > f->blob_bytes) return 0;
  const xrt_cuda_image* images = (const xrt_cuda_image*)(code + 1);
  const xrt_cuda_launch* launches = (const xrt_cuda_launch*)(images + code->image_count);
  for (uint32_t i = 0; i < code->image_count; ++i) {
    const xrt_cuda_image* image = &images[i];
    if ((image->kind != XRT_CUDA_CUBIN && image->kind != XRT_CUDA_PTX) || image->bytes == 0 ||
        image->offset < tables || (uint64_t)image->offset + image->bytes > f->blob_bytes)
      return 0;
    if (image->kind == XRT_CUDA_PTX &&
        ((const char*)code)[(size_t)image->offset + image->bytes - 1] != 0)
      return 0;
  }
  for (uint32_t i = 0; i < code->launch_count; ++i) {
    const xrt_cuda_launch* l = &launches[i];
    if (l->op >= (uint32_t)f->op_count || l->kernel >= code->kernel_count || l->block == 0 ||
        l->block > 1024 || l->grid[0] == 0 || l->grid[1] == 0 || l->grid[2] == 0)
      return 0;
  }
  return 1;
}

static xrt_lite_status find_places(const xrt_lite_function* f, xrt_lite_executable* e) {
  xrt_lite_operand operands[XRT_CUDA_ARGS];
  for (uint32_t i = 0; i < e->op_count; ++i) {
    xrt_lite_op op;
    const xrt_lite_status status =
        f->op(f->model, f->first_op + (int32_t)i, &op, operands, XRT_CUDA_ARGS);
    if (status != XRT_LITE_OK) return status;
    op_places* to = &e->ops[i];
    for (int32_t k = 0; k < op.operand_count; ++k) {
      to->offsets[k] = operands[k].offset;
      if (operands[k].is_constant) to->constants |= 1u << k;
    }
    to->count = (uint32_t)op.operand_count;
    if (op.has_scratch) {
      if (to->count == XRT_CUDA_ARGS) return XRT_LITE_INVALID_FILE;
      to->offsets[to->count++] = op.scratch_offset;
    }
  }
  return XRT_LITE_OK;
}

static xrt_lite_status prepare(xrt_lite_device* d, const xrt_lite_function* f,
                               xrt_lite_executable* e) {
  const xrt_cuda_code* code = (const xrt_cuda_code*)f->blob;
  const xrt_cuda_image* images = (const xrt_cuda_image*)(code + 1);
  const xrt_cuda_launch* launches = (const xrt_cuda_launch*)(images + code->image_count);
  const xrt_cuda_image* image = choose_image(d, code, images);
  if (image == NULL) return XRT_LITE_UNSUPPORTED;
  e->overlap = d->overlap && (code->flags & XRT_CUDA_OVERLAP) != 0 && image->arch >= 90;
  e->op_count = (uint32_t)f->op_count;
  e->launch_count = code->launch_count;
  e->launches = (launch*)take(d, (e->launch_count + 1) * sizeof(launch));
  e->ops = (op_places*)take(d, (e->op_count + 1) * sizeof(op_places));
  if (e->launches == NULL || e->ops == NULL) return XRT_LITE_OUT_OF_MEMORY;
  const xrt_lite_status status = find_places(f, e);
  if (status != XRT_LITE_OK) return status;
  cu_result result = enter(d);
  if (result == 0) result = d->api.module_load(&e->module, (const uint8_t*)code + image->offset);
  for (uint32_t i = 0; result == 0 && i < e->launch_count; ++i) {
    char name[16];
    snprintf(name, sizeof(name), "k%u", (unsigned)launches[i].kernel);
    launch* l = &e->launches[i];
    memcpy(l->grid, launches[i].grid, sizeof(l->grid));
    l->block = launches[i].block;
    l->op = launches[i].op;
    result = d->api.module_function(&l->function, e->module, name);
  }
  return check(result);
}

static xrt_lite_status executable_create(xrt_lite_device* d, const xrt_lite_function* f,
                                         xrt_lite_buffer* constants, xrt_lite_executable** out) {
  if (!code_ok(f)) return XRT_LITE_INVALID_FILE;
  xrt_lite_executable* e = (xrt_lite_executable*)take(d, sizeof(xrt_lite_executable));
  if (e == NULL) return XRT_LITE_OUT_OF_MEMORY;
  e->constants = constants != NULL ? constants->address : 0;
  const xrt_lite_status status = prepare(d, f, e);
  if (status != XRT_LITE_OK) {
    executable_destroy(d, e);
    return status;
  }
  e->index = d->executable_count++;
  *out = e;
  return XRT_LITE_OK;
}

static cu_result launch_all(xrt_lite_device* d, const xrt_lite_executable* e, cu_stream stream,
                            cu_address arena) {
  cu_result result = 0;
  for (uint32_t i = 0; result == 0 && i < e->launch_count; ++i) {
    const launch* l = &e->launches[i];
    const op_places* op = &e->ops[l->op];
    cu_address args[XRT_CUDA_ARGS] = {0};
    for (uint32_t k = 0; k < op->count; ++k)
      args[k] = (op->constants >> k & 1u ? e->constants : arena) + op->offsets[k];
    void* params[1] = {args};
    if (e->overlap && i > 0) { /* what comes before the first is a copy */
      cu_attribute attribute = {CU_ATTRIBUTE_OVERLAP, 0, {1}};
      const cu_launch config = {l->grid[0], l->grid[1], l->grid[2], l->block,   1, 1,
                                0,          stream,     &attribute, 1};
      result = d->api.launch_ex(&config, l->function, params, NULL);
    } else {
      result = d->api.launch(l->function, l->grid[0], l->grid[1], l->grid[2], l->block, 1, 1, 0,
                             stream, params, NULL);
    }
  }
  return result;
}

static cu_result make_graph(xrt_lite_device* d, const xrt_lite_executable* e, cu_stream stream,
                            cu_address arena, cu_graph_exec* out) {
  cu_result result = d->api.capture_begin(stream, CU_CAPTURE_THREAD_LOCAL);
  if (result != 0) return result;
  result = launch_all(d, e, stream, arena);
  cu_graph graph = NULL;
  const cu_result ended = d->api.capture_end(stream, &graph); /* also where a launch has failed */
  if (result == 0) result = ended;
  if (result == 0) result = d->api.graph_instantiate(out, graph, 0);
  if (result != 0) *out = NULL;
  if (graph != NULL) d->api.graph_destroy(graph);
  return result;
}

static xrt_lite_status executable_run(xrt_lite_device* d, xrt_lite_executable* e,
                                      xrt_lite_stream* stream, xrt_lite_buffer* arena) {
  cu_result result = enter(d);
  if (result != 0) return check(result);
  /* A graph of one launch saves nothing. */
  if (e->index >= arena->graph_count || e->launch_count < 2)
    return check(launch_all(d, e, stream->handle, arena->address));
  cu_graph_exec* graph = &arena->graphs[e->index];
  if (*graph == NULL) result = make_graph(d, e, stream->handle, arena->address, graph);
  if (result == 0) result = d->api.graph_launch(*graph, stream->handle);
  return check(result);
}

const xrt_lite_driver* xrt_lite_cuda_driver(void) {
  static const xrt_lite_buffer_api buffer = {buffer_create, buffer_destroy, buffer_write,
                                             buffer_read};
  static const xrt_lite_stream_api stream = {stream_create, stream_destroy, stream_synchronize};
  static const xrt_lite_event_api event = {event_create, event_destroy, event_record, event_wait};
  static const xrt_lite_executable_api executable = {executable_create, executable_destroy,
                                                     executable_run};
  static const xrt_lite_driver driver = {
      XRT_LITE_HAL_VERSION, "cuda", open_device, close_device, NULL,
      &buffer,              &stream, &event,     &executable};
  return &driver;
}
