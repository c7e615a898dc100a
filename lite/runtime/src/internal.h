/* SPDX-License-Identifier: Apache-2.0
 * What the files of the core share. */
#ifndef XRT_LITE_INTERNAL_H_
#define XRT_LITE_INTERNAL_H_

#include "format.h"
#include "kernel.h"
#include "xrt_lite.h"
#include "xrt_lite_hal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A file whose header and tables have been checked. */
typedef struct xrt_view {
  const uint8_t* bytes;
  const xrt_file_header* header;
  const xrt_file_target* targets;
  const xrt_file_function* functions;
  const xrt_file_step* steps;
  const xrt_file_op* ops;
  const uint32_t* operands;
  const xrt_file_tensor* tensors;
  const xrt_file_port* ports;
  const uint32_t* words;
  const char* strings;
} xrt_view;

typedef struct xrt_target_state {
  const xrt_lite_driver* driver;
  xrt_lite_device* device;
  const xrt_lite_kernel* kernels;
  int32_t kernel_count;
  xrt_lite_buffer* constants;
  uint64_t constants_offset; /* where they begin in the file's data */
} xrt_target_state;

struct xrt_lite_model {
  xrt_view view;
  xrt_lite_allocator allocator;
  int32_t owns_memory;
  xrt_target_state targets[XRT_MAX_TARGETS];
  xrt_lite_executable** executables; /* one per function; null where kernels are called */
  void (*close_file)(void* user, const void* bytes, size_t size); /* platform layer */
  void* close_user;
};

struct xrt_lite_context {
  const xrt_lite_model* model;
  int32_t owns_memory;
  uint8_t* arena;
  xrt_lite_buffer* arenas[XRT_MAX_TARGETS]; /* of targets with memory of their own */
  xrt_lite_stream* streams[XRT_MAX_TARGETS];
  uint32_t pending; /* targets (bits) whose streams hold work that the host has not waited for */
  const void** inputs;
  void** outputs;
  const xrt_lite_threads* threads;
  xrt_lite_observer observer;
  void* observer_user;
};

uint32_t xrt_checksum(const void* bytes, size_t count);
/* Checks header and tables, and that everything they name lies where it may. */
xrt_lite_status xrt_view_open(const void* file, size_t bytes, xrt_view* view);
/* Checks an op's parameters against its operands (check.c). */
xrt_lite_status xrt_check_op(const xrt_view* view, const xrt_file_op* op);
const xrt_lite_driver* xrt_find_driver(const char* name);
size_t xrt_model_bytes(const xrt_view* view);
size_t xrt_context_bytes(const xrt_view* view);

static inline size_t xrt_align(size_t value, size_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

#ifdef __cplusplus
}
#endif

#endif /* XRT_LITE_INTERNAL_H_ */
