/* SPDX-License-Identifier: Apache-2.0
 *
 * What a driver is: tables of functions. A driver is one folder under lite/runtime/drivers.
 *
 * driver -> device -> buffer, stream, event, executable. A driver whose memory is the host's leaves
 * `buffer` null; one that works synchronously leaves `stream` and `event` null. A driver of plain
 * CPU kernels gives a table `kernels` and leaves `executable` null: the core then calls the
 * kernels one by one, and nothing else has to be written. */
#ifndef XRT_LITE_HAL_H_
#define XRT_LITE_HAL_H_

#include "xrt_lite.h"

#ifdef __cplusplus
extern "C" {
#endif

#define XRT_LITE_HAL_VERSION 1

typedef struct xrt_lite_device xrt_lite_device;         /* the driver's own */
typedef struct xrt_lite_buffer xrt_lite_buffer;         /* the driver's own */
typedef struct xrt_lite_stream xrt_lite_stream;         /* the driver's own */
typedef struct xrt_lite_event xrt_lite_event;           /* the driver's own */
typedef struct xrt_lite_executable xrt_lite_executable; /* the driver's own */

typedef struct xrt_lite_buffer_api {
  xrt_lite_status (*create)(xrt_lite_device* device, size_t bytes, xrt_lite_buffer** buffer);
  void (*destroy)(xrt_lite_device* device, xrt_lite_buffer* buffer);
  /* Between the host and the device, ordered with the stream (null: done on return). After `write`
   * the host's bytes may change; what `read` fetches is there once the stream is synchronized. */
  xrt_lite_status (*write)(xrt_lite_device* device, xrt_lite_stream* stream,
                           xrt_lite_buffer* buffer, size_t offset, const void* from, size_t bytes);
  xrt_lite_status (*read)(xrt_lite_device* device, xrt_lite_stream* stream, xrt_lite_buffer* buffer,
                          size_t offset, void* to, size_t bytes);
} xrt_lite_buffer_api;

typedef struct xrt_lite_stream_api {
  xrt_lite_status (*create)(xrt_lite_device* device, xrt_lite_stream** stream);
  void (*destroy)(xrt_lite_device* device, xrt_lite_stream* stream);
  xrt_lite_status (*synchronize)(xrt_lite_device* device, xrt_lite_stream* stream);
} xrt_lite_stream_api;

typedef struct xrt_lite_event_api {
  xrt_lite_status (*create)(xrt_lite_device* device, xrt_lite_event** event);
  void (*destroy)(xrt_lite_device* device, xrt_lite_event* event);
  xrt_lite_status (*record)(xrt_lite_device* device, xrt_lite_event* event,
                            xrt_lite_stream* stream);
  xrt_lite_status (*wait)(xrt_lite_device* device, xrt_lite_event* event, xrt_lite_stream* stream);
} xrt_lite_event_api;

/* An operand as a driver with memory of its own sees it. */
typedef struct xrt_lite_operand {
  int32_t is_constant; /* else it lies in the device's arena */
  const void* host;    /* constants: the bytes in the file */
  size_t offset;       /* in the constants' or the arena's buffer */
  size_t bytes;
} xrt_lite_operand;

typedef struct xrt_lite_op {
  int32_t kernel; /* xrt_kernel_id */
  const void* params;
  size_t params_bytes;
  const xrt_lite_operand* operands;
  int32_t operand_count;
  int32_t has_scratch;
  size_t scratch_offset; /* in the arena */
} xrt_lite_op;

/* A run of ops on one device, with what the compiler put into the file for the driver (a cubin, an
 * .om model): valid during the call. */
typedef struct xrt_lite_function {
  int32_t op_count;
  xrt_lite_status (*op)(const void* model, int32_t index, xrt_lite_op* op,
                        xrt_lite_operand* operands, int32_t capacity);
  const void* model; /* handed to op() */
  int32_t first_op;
  const void* blob;
  size_t blob_bytes;
} xrt_lite_function;

typedef struct xrt_lite_executable_api {
  /* At load. `constants` is a buffer that holds the file's constants of this device. */
  xrt_lite_status (*create)(xrt_lite_device* device, const xrt_lite_function* function,
                            xrt_lite_buffer* constants, xrt_lite_executable** executable);
  void (*destroy)(xrt_lite_device* device, xrt_lite_executable* executable);
  /* May return before the work is done; the stream orders it. */
  xrt_lite_status (*run)(xrt_lite_device* device, xrt_lite_executable* executable,
                         xrt_lite_stream* stream, xrt_lite_buffer* arena);
} xrt_lite_executable_api;

struct xrt_kernel_call; /* src/kernel.h */
typedef xrt_lite_status (*xrt_lite_kernel)(const struct xrt_kernel_call* call);

typedef struct xrt_lite_driver {
  uint32_t version; /* XRT_LITE_HAL_VERSION */
  const char* name; /* what files call it: "generic", "x86", "cuda" … */
  /* Opens the machine's device: XRT_LITE_NO_DEVICE where there is none. Null for kernel tables
   * that run on any machine the runtime was built for. */
  xrt_lite_status (*open)(const xrt_lite_allocator* allocator, xrt_lite_device** device);
  void (*close)(xrt_lite_device* device);
  /* Kernel id -> function; null entries are not supported. `kernels` may depend on the machine
   * (AVX2 or AVX-512): it is asked once per load. Null: the driver has executables. */
  const xrt_lite_kernel* (*kernels)(xrt_lite_device* device, int32_t* count);
  const xrt_lite_buffer_api* buffer;
  const xrt_lite_stream_api* stream;
  const xrt_lite_event_api* event;
  const xrt_lite_executable_api* executable;
} xrt_lite_driver;

/* Makes a driver known to later loads; the structure must stay. A name that is taken is replaced.
 * Not thread-safe: call it before the first load. XRT_LITE_OUT_OF_MEMORY beyond 8 drivers. */
XRT_LITE_API xrt_lite_status xrt_lite_register_driver(const xrt_lite_driver* driver);

/* Drivers that are part of the runtime; a program links those that it names. */
XRT_LITE_API const xrt_lite_driver* xrt_lite_generic_driver(void);
XRT_LITE_API const xrt_lite_driver* xrt_lite_x86_driver(void); /* AVX2, AVX-512, AMX */
XRT_LITE_API const xrt_lite_driver* xrt_lite_cuda_driver(void);
XRT_LITE_API const xrt_lite_driver* xrt_lite_ascend_driver(void);
XRT_LITE_API const xrt_lite_driver* xrt_lite_arm_driver(void); /* NEON of 64-bit Arm */
XRT_LITE_API const xrt_lite_driver* xrt_lite_cortex_m_driver(void);

/* Platform layer: opens a shared library and registers what its function
 * `const xrt_lite_driver* xrt_lite_driver_entry(void)` returns. Before the first load of a model.
 * The library stays open. XRT_LITE_IO: it cannot be opened; XRT_LITE_NO_DRIVER: it has no such
 * function; else what xrt_lite_register_driver returns. */
XRT_LITE_API xrt_lite_status xrt_lite_load_driver(const char* path);

#ifdef __cplusplus
}
#endif
#endif /* XRT_LITE_HAL_H_ */
