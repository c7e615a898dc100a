/* SPDX-License-Identifier: Apache-2.0
 * From a file's bytes to a model. */
#include <string.h>

#include "internal.h"

static int host_memory(const xrt_view* v, uint32_t target) {
  return (v->targets[target].flags & XRT_TARGET_HOST_MEMORY) != 0;
}

size_t xrt_model_bytes(const xrt_view* v) {
  return xrt_align(sizeof(xrt_lite_model), 64) +
         xrt_align(v->header->functions.count * sizeof(xrt_lite_executable*), 64) + 64;
}

xrt_lite_status xrt_lite_query(const void* file, size_t bytes, xrt_lite_sizes* sizes) {
  xrt_view view;
  if (sizes == NULL) return XRT_LITE_INVALID_ARGUMENT;
  const xrt_lite_status status = xrt_view_open(file, bytes, &view);
  if (status != XRT_LITE_OK) return status;
  sizes->model_bytes = xrt_model_bytes(&view);
  sizes->context_bytes = xrt_context_bytes(&view);
  sizes->arena_bytes = (size_t)view.targets[0].arena_bytes;
  sizes->weight_bytes = (size_t)view.header->data_bytes;
  return XRT_LITE_OK;
}

static const xrt_lite_driver* find(const xrt_lite_load_options* o, const char* name) {
  for (int32_t i = 0; o != NULL && o->drivers != NULL && i < o->driver_count; ++i) {
    if (o->drivers[i] != NULL && o->drivers[i]->version == XRT_LITE_HAL_VERSION &&
        strcmp(o->drivers[i]->name, name) == 0)
      return o->drivers[i];
  }
  return xrt_find_driver(name);
}

/* Targets that no function runs on (the host of a file for a device) need no driver. */
static int is_used(const xrt_view* v, uint32_t target) {
  for (uint32_t i = 0; i < v->header->functions.count; ++i) {
    if (v->functions[i].target == target) return 1;
  }
  return 0;
}

/* The part of the file's data that ops of a target read. */
static void constants_of(const xrt_view* v, uint32_t target, uint64_t* begin, uint64_t* end) {
  *begin = UINT64_MAX;
  *end = 0;
  for (uint32_t i = 0; i < v->header->functions.count; ++i) {
    const xrt_file_function* f = &v->functions[i];
    for (uint32_t k = f->first_op; f->target == target && k < f->first_op + f->op_count; ++k) {
      const xrt_file_op* op = &v->ops[k];
      for (uint32_t j = 0; j < op->operand_count; ++j) {
        const xrt_file_tensor* t = &v->tensors[v->operands[op->operands + j]];
        if (t->at != XRT_AT_DATA) continue;
        if (t->offset < *begin) *begin = t->offset & ~(uint64_t)63;
        if (t->offset + t->bytes > *end) *end = t->offset + t->bytes;
      }
    }
  }
}

static xrt_lite_status open_target(xrt_lite_model* m, uint32_t index,
                                   const xrt_lite_load_options* options) {
  xrt_target_state* t = &m->targets[index];
  const xrt_view* v = &m->view;
  if (!is_used(v, index)) return XRT_LITE_OK;
  t->driver = find(options, v->strings + v->targets[index].name);
  if (t->driver == NULL) return XRT_LITE_NO_DRIVER;
  if ((t->driver->buffer == NULL) != host_memory(v, index)) return XRT_LITE_NO_DRIVER;
  if (t->driver->open != NULL) {
    const xrt_lite_status status = t->driver->open(&m->allocator, &t->device);
    if (status != XRT_LITE_OK) return status;
  }
  if (t->driver->executable == NULL) {
    t->kernels = t->driver->kernels(t->device, &t->kernel_count);
    return XRT_LITE_OK;
  }
  uint64_t begin, end;
  constants_of(v, index, &begin, &end);
  if (end == 0) return XRT_LITE_OK;
  const size_t bytes = (size_t)(end - begin);
  t->constants_offset = begin;
  const xrt_lite_status status = t->driver->buffer->create(t->device, bytes, &t->constants);
  if (status != XRT_LITE_OK) return status;
  return t->driver->buffer->write(t->device, NULL, t->constants, 0,
                                  v->bytes + v->header->data_offset + begin, bytes);
}

typedef struct op_source {
  const xrt_view* view;
  uint64_t constants_offset;
} op_source;

static xrt_lite_status describe_op(const void* model, int32_t index, xrt_lite_op* out,
                                   xrt_lite_operand* operands, int32_t capacity) {
  const op_source* source = (const op_source*)model;
  const xrt_view* v = source->view;
  if (index < 0 || (uint32_t)index >= v->header->ops.count) return XRT_LITE_INVALID_ARGUMENT;
  const xrt_file_op* op = &v->ops[index];
  if ((uint32_t)capacity < op->operand_count) return XRT_LITE_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < op->operand_count; ++i) {
    const xrt_file_tensor* t = &v->tensors[v->operands[op->operands + i]];
    operands[i].is_constant = t->at == XRT_AT_DATA;
    operands[i].host = t->at == XRT_AT_DATA ? v->bytes + v->header->data_offset + t->offset : NULL;
    operands[i].offset =
        (size_t)(t->offset - (operands[i].is_constant ? source->constants_offset : 0));
    operands[i].bytes = (size_t)t->bytes;
  }
  out->kernel = (int32_t)op->kernel;
  out->params = v->words + op->params;
  out->params_bytes = (size_t)op->param_words * 4;
  out->operands = operands;
  out->operand_count = (int32_t)op->operand_count;
  out->has_scratch = op->scratch >= 0;
  out->scratch_offset = op->scratch >= 0 ? (size_t)v->tensors[op->scratch].offset : 0;
  return XRT_LITE_OK;
}

static xrt_lite_status open_function(xrt_lite_model* m, uint32_t index) {
  const xrt_view* v = &m->view;
  const xrt_file_function* f = &v->functions[index];
  const xrt_target_state* t = &m->targets[f->target];
  if (t->driver->executable != NULL) {
    const op_source source = {v, t->constants_offset};
    const xrt_lite_function function = {(int32_t)f->op_count,
                                        describe_op,
                                        &source,
                                        (int32_t)f->first_op,
                                        f->blob_bytes > 0 ? v->bytes + f->blob_offset : NULL,
                                        (size_t)f->blob_bytes};
    return t->driver->executable->create(t->device, &function, t->constants,
                                         &m->executables[index]);
  }
  for (uint32_t i = 0; i < f->op_count; ++i) {
    const uint32_t kernel = v->ops[f->first_op + i].kernel;
    if (kernel >= (uint32_t)t->kernel_count || t->kernels[kernel] == NULL)
      return XRT_LITE_UNSUPPORTED;
  }
  return XRT_LITE_OK;
}

xrt_lite_status xrt_lite_load(const void* file, size_t bytes, const xrt_lite_load_options* options,
                              xrt_lite_model** out) {
  xrt_view view;
  if (out == NULL) return XRT_LITE_INVALID_ARGUMENT;
  *out = NULL;
  xrt_lite_status status = xrt_view_open(file, bytes, &view);
  if (status != XRT_LITE_OK) return status;
  if (options != NULL && options->verify_weights &&
      xrt_checksum(view.bytes + view.header->data_offset, (size_t)view.header->data_bytes) !=
          view.header->data_checksum)
    return XRT_LITE_BAD_CHECKSUM;
  static const xrt_lite_allocator none = {NULL, NULL, NULL};
  const xrt_lite_allocator* allocator =
      options != NULL && options->allocator != NULL ? options->allocator : &none;
  const size_t needed = xrt_model_bytes(&view);
  uint8_t* memory = NULL;
  int32_t owns = 0;
  if (options != NULL && options->memory != NULL) {
    const size_t skip = xrt_align((uintptr_t)options->memory, 64) - (uintptr_t)options->memory;
    if (options->memory_bytes < skip || options->memory_bytes - skip < needed - 64)
      return XRT_LITE_OUT_OF_MEMORY;
    memory = (uint8_t*)options->memory + skip;
  } else if (allocator->alloc != NULL) {
    memory = (uint8_t*)allocator->alloc(allocator->user, needed, 64);
    owns = 1;
  }
  if (memory == NULL) return XRT_LITE_OUT_OF_MEMORY;
  memset(memory, 0, needed - 64);
  xrt_lite_model* model = (xrt_lite_model*)memory;
  model->view = view;
  model->allocator = *allocator;
  model->owns_memory = owns;
  model->executables =
      (xrt_lite_executable**)(void*)(memory + xrt_align(sizeof(xrt_lite_model), 64));
  for (uint32_t i = 0; status == XRT_LITE_OK && i < view.header->targets.count; ++i)
    status = open_target(model, i, options);
  for (uint32_t i = 0; status == XRT_LITE_OK && i < view.header->functions.count; ++i)
    status = open_function(model, i);
  if (status != XRT_LITE_OK) {
    xrt_lite_unload(model);
    return status;
  }
  *out = model;
  return XRT_LITE_OK;
}

void xrt_lite_unload(xrt_lite_model* model) {
  if (model == NULL) return;
  const xrt_view* v = &model->view;
  for (uint32_t i = 0; i < v->header->functions.count; ++i) {
    const xrt_target_state* t = &model->targets[v->functions[i].target];
    if (model->executables[i] != NULL)
      t->driver->executable->destroy(t->device, model->executables[i]);
  }
  for (uint32_t i = 0; i < v->header->targets.count; ++i) {
    const xrt_target_state* t = &model->targets[i];
    if (t->constants != NULL) t->driver->buffer->destroy(t->device, t->constants);
    if (t->device != NULL && t->driver->close != NULL) t->driver->close(t->device);
  }
  void (*close_file)(void*, const void*, size_t) = model->close_file;
  void* close_user = model->close_user;
  const void* bytes = v->bytes;
  const size_t size = (size_t)v->header->file_bytes;
  if (model->owns_memory) {
    const xrt_lite_allocator allocator = model->allocator;
    allocator.release(allocator.user, model);
  }
  if (close_file != NULL) close_file(close_user, bytes, size);
}

static xrt_lite_status port(const xrt_lite_model* model, uint32_t first, uint32_t count,
                            int32_t index, xrt_lite_port* out) {
  if (out == NULL || index < 0 || (uint32_t)index >= count) return XRT_LITE_INVALID_ARGUMENT;
  const xrt_file_port* p = &model->view.ports[first + (uint32_t)index];
  out->name = model->view.strings + p->name;
  out->dtype = (xrt_lite_dtype)p->dtype;
  out->rank = (int32_t)p->rank;
  memcpy(out->dims, p->dims, sizeof(out->dims));
  out->bytes = (size_t)p->bytes;
  return XRT_LITE_OK;
}

int32_t xrt_lite_input_count(const xrt_lite_model* model) {
  return model == NULL ? 0 : (int32_t)model->view.header->input_count;
}

int32_t xrt_lite_output_count(const xrt_lite_model* model) {
  return model == NULL ? 0 : (int32_t)model->view.header->output_count;
}

xrt_lite_status xrt_lite_input(const xrt_lite_model* model, int32_t index, xrt_lite_port* out) {
  if (model == NULL) return XRT_LITE_INVALID_ARGUMENT;
  return port(model, 0, model->view.header->input_count, index, out);
}

xrt_lite_status xrt_lite_output(const xrt_lite_model* model, int32_t index, xrt_lite_port* out) {
  if (model == NULL) return XRT_LITE_INVALID_ARGUMENT;
  return port(model, model->view.header->input_count, model->view.header->output_count, index, out);
}
