/* SPDX-License-Identifier: Apache-2.0
 * Opens a file: nothing in it is used before it has been checked here. */
#include <string.h>

#include "internal.h"

static int has(const xrt_file_header* h, xrt_file_table t, uint32_t element, uint32_t max) {
  if (t.count > max || (t.offset & 7u) != 0 || t.offset < sizeof(xrt_file_header)) return 0;
  return t.offset <= h->meta_bytes &&
         (uint64_t)t.count * element <= (uint64_t)h->meta_bytes - t.offset;
}

static int in_range(uint64_t offset, uint64_t bytes, uint64_t limit) {
  return offset <= limit && bytes <= limit - offset;
}

static uint32_t dtype_bytes(uint32_t dtype) {
  switch (dtype) {
    case XRT_LITE_F32:
    case XRT_LITE_I32:
      return 4;
    case XRT_LITE_U8:
    case XRT_LITE_I8:
    case XRT_LITE_BOOL:
      return 1;
    case XRT_LITE_F16:
      return 2;
    case XRT_LITE_I64:
      return 8;
    default:
      return 0;
  }
}

static int string_ok(const xrt_view* v, uint32_t offset) {
  return offset < v->header->strings.count; /* the table ends with 0 */
}

static int ports_ok(const xrt_view* v) {
  const xrt_file_header* h = v->header;
  if (h->input_count > h->ports.count || h->output_count != h->ports.count - h->input_count)
    return 0;
  for (uint32_t i = 0; i < h->ports.count; ++i) {
    const xrt_file_port* p = &v->ports[i];
    uint64_t bytes = dtype_bytes(p->dtype);
    if (bytes == 0 || p->rank > XRT_LITE_MAX_RANK || !string_ok(v, p->name)) return 0;
    for (uint32_t d = 0; d < p->rank; ++d) {
      if (p->dims[d] < 1 || p->dims[d] > INT32_MAX) return 0;
      bytes *= (uint64_t)p->dims[d];
      if (bytes > ((uint64_t)1 << 32)) return 0;
    }
    if (bytes != p->bytes || bytes > SIZE_MAX / 2) return 0;
  }
  return 1;
}

static int tensors_ok(const xrt_view* v) {
  const xrt_file_header* h = v->header;
  for (uint32_t i = 0; i < h->tensors.count; ++i) {
    const xrt_file_tensor* t = &v->tensors[i];
    const uint32_t size = dtype_bytes(t->dtype);
    uint64_t limit;
    if (size == 0 || t->offset % size != 0) return 0;
    switch (t->at) {
      case XRT_AT_DATA:
        limit = h->data_bytes;
        break;
      case XRT_AT_ARENA:
        if (t->target >= h->targets.count) return 0;
        if (t->target != 0 && (v->targets[t->target].flags & XRT_TARGET_HOST_MEMORY)) return 0;
        limit = v->targets[t->target].arena_bytes;
        break;
      case XRT_AT_INPUT:
        if (t->port >= h->input_count) return 0;
        limit = v->ports[t->port].bytes;
        break;
      case XRT_AT_OUTPUT:
        if (t->port >= h->output_count) return 0;
        limit = v->ports[h->input_count + t->port].bytes;
        break;
      default:
        return 0;
    }
    if (t->bytes == 0 || t->bytes % size != 0 || !in_range(t->offset, t->bytes, limit)) return 0;
  }
  return 1;
}

/* Where an op of `target` may find operands: on a device with memory of its own, not in the
 * caller's buffers and not in another arena. */
static int reachable(const xrt_view* v, uint32_t target, const xrt_file_tensor* t) {
  const int host = (v->targets[target].flags & XRT_TARGET_HOST_MEMORY) != 0;
  if (t->at == XRT_AT_DATA) return 1;
  if (t->at == XRT_AT_ARENA) return t->target == (host ? 0 : target);
  return host;
}

static xrt_lite_status ops_ok(const xrt_view* v, const xrt_file_function* f) {
  const xrt_file_header* h = v->header;
  for (uint32_t i = 0; i < f->op_count; ++i) {
    const xrt_file_op* op = &v->ops[f->first_op + i];
    if (!in_range(op->params, op->param_words, h->words.count) ||
        !in_range(op->operands, op->operand_count, h->operands.count) ||
        op->operand_count > XRT_MAX_OPERANDS || !string_ok(v, op->name))
      return XRT_LITE_INVALID_FILE;
    for (uint32_t j = 0; j < op->operand_count; ++j) {
      const uint32_t index = v->operands[op->operands + j];
      if (index >= h->tensors.count || !reachable(v, f->target, &v->tensors[index]))
        return XRT_LITE_INVALID_FILE;
    }
    if (op->scratch != -1) {
      if (op->scratch < 0 || (uint32_t)op->scratch >= h->tensors.count)
        return XRT_LITE_INVALID_FILE;
      const xrt_file_tensor* t = &v->tensors[op->scratch];
      if (t->at != XRT_AT_ARENA || !reachable(v, f->target, t)) return XRT_LITE_INVALID_FILE;
    }
    const xrt_lite_status status = xrt_check_op(v, op);
    if (status != XRT_LITE_OK) return status;
  }
  return XRT_LITE_OK;
}

static xrt_lite_status plan_ok(const xrt_view* v) {
  const xrt_file_header* h = v->header;
  const uint64_t file_bytes = h->file_bytes;
  for (uint32_t i = 0; i < h->functions.count; ++i) {
    const xrt_file_function* f = &v->functions[i];
    if (f->target >= h->targets.count || !in_range(f->first_op, f->op_count, h->ops.count) ||
        !in_range(f->blob_offset, f->blob_bytes, file_bytes) || f->blob_offset % 16 != 0)
      return XRT_LITE_INVALID_FILE;
    const xrt_lite_status status = ops_ok(v, f);
    if (status != XRT_LITE_OK) return status;
  }
  for (uint32_t i = 0; i < h->steps.count; ++i) {
    const xrt_file_step* s = &v->steps[i];
    if (s->kind == XRT_STEP_FUNCTION) {
      if (s->a >= h->functions.count) return XRT_LITE_INVALID_FILE;
    } else if (s->kind == XRT_STEP_TRANSFER) {
      if (s->a >= h->tensors.count || s->b >= h->tensors.count) return XRT_LITE_INVALID_FILE;
      const xrt_file_tensor* a = &v->tensors[s->a];
      const xrt_file_tensor* b = &v->tensors[s->b];
      if (a->bytes != b->bytes || b->at == XRT_AT_DATA || b->at == XRT_AT_INPUT)
        return XRT_LITE_INVALID_FILE;
      const int a_device = a->at == XRT_AT_ARENA && a->target != 0;
      const int b_device = b->at == XRT_AT_ARENA && b->target != 0;
      if (a_device && b_device) return XRT_LITE_INVALID_FILE;
    } else {
      return XRT_LITE_INVALID_FILE;
    }
  }
  return XRT_LITE_OK;
}

xrt_lite_status xrt_view_open(const void* file, size_t bytes, xrt_view* v) {
  static const uint32_t one = 1;
  uint8_t low;
  memcpy(&low, &one, 1);
  if (low != 1) return XRT_LITE_UNSUPPORTED; /* the file is little-endian and used in place */
  if (file == NULL) return XRT_LITE_INVALID_ARGUMENT;
  if (((uintptr_t)file & 15u) != 0) return XRT_LITE_INVALID_ARGUMENT;
  if (bytes < sizeof(xrt_file_header)) return XRT_LITE_INVALID_FILE;
  const xrt_file_header* h = (const xrt_file_header*)file;
  if (h->magic != XRT_FILE_MAGIC) return XRT_LITE_INVALID_FILE;
  if (h->version != XRT_FILE_VERSION) return XRT_LITE_WRONG_VERSION;
  if (h->reserved[0] != 0 || h->reserved[1] != 0) return XRT_LITE_INVALID_FILE;
  if (h->file_bytes != bytes || h->meta_bytes < sizeof(xrt_file_header) || h->meta_bytes > bytes)
    return XRT_LITE_INVALID_FILE;
  v->bytes = (const uint8_t*)file;
  v->header = h;
  if (xrt_checksum(v->bytes + XRT_FILE_CHECKED_FROM, h->meta_bytes - XRT_FILE_CHECKED_FROM) !=
      h->meta_checksum)
    return XRT_LITE_BAD_CHECKSUM;
  const uint32_t many = 1u << 24;
  if (!has(h, h->targets, sizeof(xrt_file_target), XRT_MAX_TARGETS) || h->targets.count == 0 ||
      !has(h, h->functions, sizeof(xrt_file_function), many) ||
      !has(h, h->steps, sizeof(xrt_file_step), many) ||
      !has(h, h->ops, sizeof(xrt_file_op), many) || !has(h, h->operands, 4, many) ||
      !has(h, h->tensors, sizeof(xrt_file_tensor), many) ||
      !has(h, h->ports, sizeof(xrt_file_port), 1u << 16) || !has(h, h->words, 4, many) ||
      !has(h, h->strings, 1, 1u << 28) || h->strings.count == 0 ||
      !in_range(h->data_offset, h->data_bytes, h->file_bytes) || (h->data_offset & 63u) != 0)
    return XRT_LITE_INVALID_FILE;
  v->targets = (const xrt_file_target*)(v->bytes + h->targets.offset);
  v->functions = (const xrt_file_function*)(v->bytes + h->functions.offset);
  v->steps = (const xrt_file_step*)(v->bytes + h->steps.offset);
  v->ops = (const xrt_file_op*)(v->bytes + h->ops.offset);
  v->operands = (const uint32_t*)(v->bytes + h->operands.offset);
  v->tensors = (const xrt_file_tensor*)(v->bytes + h->tensors.offset);
  v->ports = (const xrt_file_port*)(v->bytes + h->ports.offset);
  v->words = (const uint32_t*)(v->bytes + h->words.offset);
  v->strings = (const char*)(v->bytes + h->strings.offset);
  if (v->strings[h->strings.count - 1] != 0) return XRT_LITE_INVALID_FILE;
  for (uint32_t i = 0; i < h->targets.count; ++i) {
    if (!string_ok(v, v->targets[i].name) || v->targets[i].arena_bytes > SIZE_MAX / 4)
      return XRT_LITE_INVALID_FILE;
  }
  if ((v->targets[0].flags & XRT_TARGET_HOST_MEMORY) == 0) return XRT_LITE_INVALID_FILE;
  if (!ports_ok(v) || !tensors_ok(v)) return XRT_LITE_INVALID_FILE;
  return plan_ok(v);
}
