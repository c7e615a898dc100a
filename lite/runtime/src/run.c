/* SPDX-License-Identifier: Apache-2.0
 * Contexts and runs. */
#include <string.h>

#include "internal.h"

static size_t port_pointers(const xrt_view* v) {
  return xrt_align(v->header->ports.count * sizeof(void*), 64);
}

size_t xrt_context_bytes(const xrt_view* v) {
  return xrt_align(sizeof(xrt_lite_context), 64) + port_pointers(v) +
         xrt_align((size_t)v->targets[0].arena_bytes, 64) + 64;
}

static xrt_lite_status open_devices(xrt_lite_context* c) {
  const xrt_view* v = &c->model->view;
  for (uint32_t i = 0; i < v->header->targets.count; ++i) {
    const xrt_target_state* t = &c->model->targets[i];
    if (t->driver == NULL || t->driver->executable == NULL) continue;
    const size_t bytes = (size_t)v->targets[i].arena_bytes;
    xrt_lite_status status =
        t->driver->buffer->create(t->device, bytes > 0 ? bytes : 1, &c->arenas[i]);
    if (status == XRT_LITE_OK && t->driver->stream != NULL)
      status = t->driver->stream->create(t->device, &c->streams[i]);
    if (status != XRT_LITE_OK) return status;
  }
  return XRT_LITE_OK;
}

xrt_lite_status xrt_lite_context_create(const xrt_lite_model* model,
                                        const xrt_lite_context_options* options,
                                        xrt_lite_context** out) {
  if (model == NULL || out == NULL) return XRT_LITE_INVALID_ARGUMENT;
  *out = NULL;
  const xrt_view* v = &model->view;
  const size_t needed = xrt_context_bytes(v);
  uint8_t* memory = NULL;
  int32_t owns = 0;
  if (options != NULL && options->memory != NULL) {
    const size_t skip = xrt_align((uintptr_t)options->memory, 64) - (uintptr_t)options->memory;
    if (options->memory_bytes < skip || options->memory_bytes - skip < needed - 64)
      return XRT_LITE_OUT_OF_MEMORY;
    memory = (uint8_t*)options->memory + skip;
  } else if (model->allocator.alloc != NULL) {
    memory = (uint8_t*)model->allocator.alloc(model->allocator.user, needed, 64);
    owns = 1;
  }
  if (memory == NULL) return XRT_LITE_OUT_OF_MEMORY;
  const size_t head = xrt_align(sizeof(xrt_lite_context), 64);
  memset(memory, 0, head + port_pointers(v));
  xrt_lite_context* c = (xrt_lite_context*)(void*)memory;
  c->model = model;
  c->owns_memory = owns;
  c->inputs = (const void**)(void*)(memory + head);
  c->outputs = (void**)(void*)(memory + head) + v->header->input_count;
  c->arena = memory + head + port_pointers(v);
  c->threads = options != NULL ? options->threads : NULL;
  const xrt_lite_status status = open_devices(c);
  if (status != XRT_LITE_OK) {
    xrt_lite_context_destroy(c);
    return status;
  }
  *out = c;
  return XRT_LITE_OK;
}

void xrt_lite_context_destroy(xrt_lite_context* c) {
  if (c == NULL) return;
  for (uint32_t i = 0; i < c->model->view.header->targets.count; ++i) {
    const xrt_target_state* t = &c->model->targets[i];
    if (c->streams[i] != NULL) t->driver->stream->destroy(t->device, c->streams[i]);
    if (c->arenas[i] != NULL) t->driver->buffer->destroy(t->device, c->arenas[i]);
  }
  if (c->owns_memory) c->model->allocator.release(c->model->allocator.user, c);
}

xrt_lite_status xrt_lite_set_input(xrt_lite_context* c, int32_t index, const void* data,
                                   size_t bytes) {
  if (c == NULL || data == NULL || index < 0 ||
      (uint32_t)index >= c->model->view.header->input_count ||
      bytes != c->model->view.ports[index].bytes)
    return XRT_LITE_INVALID_ARGUMENT;
  c->inputs[index] = data;
  return XRT_LITE_OK;
}

xrt_lite_status xrt_lite_set_output(xrt_lite_context* c, int32_t index, void* data, size_t bytes) {
  if (c == NULL || data == NULL || index < 0) return XRT_LITE_INVALID_ARGUMENT;
  const xrt_file_header* h = c->model->view.header;
  if ((uint32_t)index >= h->output_count ||
      bytes != c->model->view.ports[h->input_count + (uint32_t)index].bytes)
    return XRT_LITE_INVALID_ARGUMENT;
  c->outputs[index] = data;
  return XRT_LITE_OK;
}

void xrt_lite_observe(xrt_lite_context* c, xrt_lite_observer observer, void* user) {
  c->observer = observer;
  c->observer_user = user;
}

static void* address(const xrt_lite_context* c, const xrt_file_tensor* t) {
  const xrt_view* v = &c->model->view;
  const uint8_t* base;
  switch (t->at) {
    case XRT_AT_DATA:
      base = v->bytes + v->header->data_offset;
      break;
    case XRT_AT_ARENA:
      base = c->arena;
      break;
    case XRT_AT_INPUT:
      base = (const uint8_t*)c->inputs[t->port];
      break;
    default:
      base = (const uint8_t*)c->outputs[t->port];
      break;
  }
  /* Operands that a kernel writes are in memory that may be written: check.c saw to it. */
  return (void*)((uintptr_t)base + (uintptr_t)t->offset);
}

static xrt_lite_status run_kernels(xrt_lite_context* c, const xrt_target_state* t,
                                   const xrt_file_function* f) {
  const xrt_view* v = &c->model->view;
  void* operands[XRT_MAX_OPERANDS];
  xrt_kernel_call call = {NULL, operands, NULL, c->threads};
  for (uint32_t i = f->first_op; i < f->first_op + f->op_count; ++i) {
    const xrt_file_op* op = &v->ops[i];
    for (uint32_t j = 0; j < op->operand_count; ++j)
      operands[j] = address(c, &v->tensors[v->operands[op->operands + j]]);
    call.params = v->words + op->params;
    call.scratch = op->scratch >= 0 ? address(c, &v->tensors[op->scratch]) : NULL;
    const xrt_lite_status status = t->kernels[op->kernel](&call);
    if (status != XRT_LITE_OK) return status;
    if (c->observer != NULL) c->observer(c->observer_user, (int32_t)i, (int32_t)op->kernel);
  }
  return XRT_LITE_OK;
}

/* Until the host may read what devices have been asked to write there. */
static xrt_lite_status wait(xrt_lite_context* c) {
  for (uint32_t i = 0; c->pending != 0; ++i) {
    if ((c->pending >> i & 1u) == 0) continue;
    c->pending &= ~(1u << i);
    const xrt_target_state* t = &c->model->targets[i];
    if (t->driver->stream == NULL) continue;
    const xrt_lite_status status = t->driver->stream->synchronize(t->device, c->streams[i]);
    if (status != XRT_LITE_OK) return status;
  }
  return XRT_LITE_OK;
}

static xrt_lite_status transfer(xrt_lite_context* c, const xrt_file_step* s) {
  const xrt_file_tensor* from = &c->model->view.tensors[s->a];
  const xrt_file_tensor* to = &c->model->view.tensors[s->b];
  const size_t bytes = (size_t)from->bytes;
  if (from->at == XRT_AT_ARENA && from->target != 0) {
    const xrt_target_state* t = &c->model->targets[from->target];
    if (t->driver == NULL) return XRT_LITE_NO_DRIVER;
    c->pending |= 1u << from->target;
    return t->driver->buffer->read(t->device, c->streams[from->target], c->arenas[from->target],
                                   (size_t)from->offset, address(c, to), bytes);
  }
  const xrt_lite_status status = wait(c);
  if (status != XRT_LITE_OK) return status;
  if (to->at == XRT_AT_ARENA && to->target != 0) {
    const xrt_target_state* t = &c->model->targets[to->target];
    if (t->driver == NULL) return XRT_LITE_NO_DRIVER;
    return t->driver->buffer->write(t->device, c->streams[to->target], c->arenas[to->target],
                                    (size_t)to->offset, address(c, from), bytes);
  }
  memmove(address(c, to), address(c, from), bytes);
  return XRT_LITE_OK;
}

static xrt_lite_status run_function(xrt_lite_context* c, uint32_t index) {
  const xrt_file_function* f = &c->model->view.functions[index];
  const xrt_target_state* t = &c->model->targets[f->target];
  if (t->driver->executable != NULL)
    return t->driver->executable->run(t->device, c->model->executables[index],
                                      c->streams[f->target], c->arenas[f->target]);
  const xrt_lite_status status = wait(c);
  return status == XRT_LITE_OK ? run_kernels(c, t, f) : status;
}

xrt_lite_status xrt_lite_run(xrt_lite_context* c) {
  if (c == NULL) return XRT_LITE_INVALID_ARGUMENT;
  const xrt_view* v = &c->model->view;
  for (uint32_t i = 0; i < v->header->ports.count; ++i) {
    if (c->inputs[i] == NULL) return XRT_LITE_NOT_READY; /* outputs lie behind the inputs */
  }
  for (uint32_t i = 0; i < v->header->steps.count; ++i) {
    const xrt_file_step* s = &v->steps[i];
    const xrt_lite_status status =
        s->kind == XRT_STEP_TRANSFER ? transfer(c, s) : run_function(c, s->a);
    if (status != XRT_LITE_OK) {
      wait(c); /* nothing may write to the caller's buffers after this */
      return status;
    }
  }
  return wait(c);
}
