/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenXRT Lite: runs a compiled model file. C11; the core needs nothing but memcpy and its kin.
 *
 *   xrt_lite_model* model;
 *   xrt_lite_context* context;
 *   xrt_lite_load(bytes, size, NULL, &model);
 *   xrt_lite_context_create(model, NULL, &context);
 *   xrt_lite_set_input(context, 0, pixels, pixel_bytes);
 *   xrt_lite_set_output(context, 0, scores, score_bytes);
 *   xrt_lite_run(context);
 *
 * A model is immutable once loaded and may be shared by threads; a context belongs to one run at a
 * time. All memory is taken by xrt_lite_load and xrt_lite_context_create: a run allocates nothing.
 * The file's bytes are used in place and must outlive the model. */
#ifndef XRT_LITE_H_
#define XRT_LITE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef XRT_LITE_API
#define XRT_LITE_API __attribute__((visibility("default")))
#endif

typedef enum xrt_lite_status {
  XRT_LITE_OK = 0,
  XRT_LITE_INVALID_ARGUMENT = 1, /* null pointer, index out of range, wrong buffer size */
  XRT_LITE_INVALID_FILE = 2,     /* not a model file, truncated or inconsistent */
  XRT_LITE_WRONG_VERSION = 3,    /* a file of a newer format than this runtime reads */
  XRT_LITE_BAD_CHECKSUM = 4,     /* the content does not match its checksum */
  XRT_LITE_OUT_OF_MEMORY = 5,    /* the allocator, or the memory that was given, is too small */
  XRT_LITE_NO_DRIVER = 6,        /* the file needs a driver that is not registered */
  XRT_LITE_UNSUPPORTED = 7,      /* a driver lacks a kernel that the file asks of it */
  XRT_LITE_NOT_READY = 8,        /* an input or output has no buffer yet */
  XRT_LITE_DEVICE_ERROR = 9,     /* a device or its library failed */
  XRT_LITE_OUT_OF_RANGE = 10,    /* data at run time: an index beyond the table it looks up */
  XRT_LITE_IO = 11,              /* a file cannot be opened, read or mapped */
  XRT_LITE_NO_DEVICE = 12        /* a driver's device, or the library to reach it, is not here */
} xrt_lite_status;

/* A sentence for people; never null. */
XRT_LITE_API const char* xrt_lite_message(xrt_lite_status status);

/* Element types; the numbers are those of ONNX's TensorProto.DataType. */
typedef enum xrt_lite_dtype {
  XRT_LITE_F32 = 1,
  XRT_LITE_U8 = 2,
  XRT_LITE_I8 = 3,
  XRT_LITE_I32 = 6,
  XRT_LITE_I64 = 7,
  XRT_LITE_BOOL = 9,
  XRT_LITE_F16 = 10
} xrt_lite_dtype;

#define XRT_LITE_MAX_RANK 8

typedef struct xrt_lite_port {
  const char* name;
  xrt_lite_dtype dtype;
  int32_t rank;
  int64_t dims[XRT_LITE_MAX_RANK];
  size_t bytes; /* of a dense row-major buffer */
} xrt_lite_port;

/* Where memory comes from at load time. `alloc` returns null when there is no more. */
typedef struct xrt_lite_allocator {
  void* (*alloc)(void* user, size_t bytes, size_t alignment);
  void (*release)(void* user, void* memory);
  void* user;
} xrt_lite_allocator;

/* Runs task(argument, i) for i in [0, count), possibly at once, and returns when all are done. */
typedef struct xrt_lite_threads {
  void (*run)(void* pool, void (*task)(void* argument, int32_t index), void* argument,
              int32_t count);
  void* pool;
  int32_t count; /* how many run at once */
} xrt_lite_threads;

struct xrt_lite_driver; /* xrt_lite_hal.h */

typedef struct xrt_lite_load_options {
  /* Memory of the caller that the model's tables are put in; null: the allocator is asked. */
  void* memory;
  size_t memory_bytes;
  const xrt_lite_allocator* allocator; /* null: the platform's (xrt_lite_default_allocator) */
  /* Drivers beside those that xrt_lite_register_driver made known. */
  const struct xrt_lite_driver* const* drivers;
  int32_t driver_count;
  int32_t verify_weights; /* not 0: the checksum of the weights is compared, too (reads them all) */
} xrt_lite_load_options;

typedef struct xrt_lite_context_options {
  /* Memory of the caller for the context and its arena; null: the model's allocator is asked. */
  void* memory;
  size_t memory_bytes;
  const xrt_lite_threads* threads; /* null: runs on the calling thread only */
} xrt_lite_context_options;

typedef struct xrt_lite_model xrt_lite_model;
typedef struct xrt_lite_context xrt_lite_context;

typedef struct xrt_lite_sizes {
  size_t model_bytes;   /* what load_options.memory must hold */
  size_t context_bytes; /* what context_options.memory must hold, arena included */
  size_t arena_bytes;
  size_t weight_bytes; /* in the file, used in place */
} xrt_lite_sizes;

/* What a file needs, after the same checks as xrt_lite_load but for drivers. */
XRT_LITE_API xrt_lite_status xrt_lite_query(const void* file, size_t bytes, xrt_lite_sizes* sizes);

/* `file` must be aligned to 16 bytes (64 for full speed). */
XRT_LITE_API xrt_lite_status xrt_lite_load(const void* file, size_t bytes,
                                           const xrt_lite_load_options* options,
                                           xrt_lite_model** model);
XRT_LITE_API void xrt_lite_unload(xrt_lite_model* model); /* its contexts must be gone */

XRT_LITE_API int32_t xrt_lite_input_count(const xrt_lite_model* model);
XRT_LITE_API int32_t xrt_lite_output_count(const xrt_lite_model* model);
XRT_LITE_API xrt_lite_status xrt_lite_input(const xrt_lite_model* model, int32_t index,
                                            xrt_lite_port* port);
XRT_LITE_API xrt_lite_status xrt_lite_output(const xrt_lite_model* model, int32_t index,
                                             xrt_lite_port* port);

XRT_LITE_API xrt_lite_status xrt_lite_context_create(const xrt_lite_model* model,
                                                     const xrt_lite_context_options* options,
                                                     xrt_lite_context** context);
XRT_LITE_API void xrt_lite_context_destroy(xrt_lite_context* context);

/* `bytes` must be the port's; the buffers are the caller's and are read and written by every run
 * until others are set. An element's natural alignment suffices. */
XRT_LITE_API xrt_lite_status xrt_lite_set_input(xrt_lite_context* context, int32_t index,
                                                const void* data, size_t bytes);
XRT_LITE_API xrt_lite_status xrt_lite_set_output(xrt_lite_context* context, int32_t index,
                                                 void* data, size_t bytes);
XRT_LITE_API xrt_lite_status xrt_lite_run(xrt_lite_context* context);

/* Called after each step of a run, if set: for profiles. `kernel` is an xrt_kernel_id, `step` an
 * index into the file's ops. */
typedef void (*xrt_lite_observer)(void* user, int32_t step, int32_t kernel);
XRT_LITE_API void xrt_lite_observe(xrt_lite_context* context, xrt_lite_observer observer,
                                   void* user);

/* --- platform layer (lite/runtime/platform): not part of the core, left out on microcontrollers */

/* Maps the file where the system can, else reads it; the model owns the mapping. */
XRT_LITE_API xrt_lite_status xrt_lite_load_file(const char* path,
                                                const xrt_lite_load_options* options,
                                                xrt_lite_model** model);
/* malloc and free. */
XRT_LITE_API const xrt_lite_allocator* xrt_lite_default_allocator(void);
/* A pool of `count` threads (the caller is one of them); null where there are none. */
XRT_LITE_API xrt_lite_threads* xrt_lite_threads_create(int32_t count);
XRT_LITE_API void xrt_lite_threads_destroy(xrt_lite_threads* threads);

#ifdef __cplusplus
}
#endif
#endif /* XRT_LITE_H_ */
