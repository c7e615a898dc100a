/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenXRT's C API: loads a model, says what it takes and gives, runs it. C99 and C++ compile this
 * header; other languages call the functions through their foreign-function interface.
 *
 *   xrt_status* status = NULL;
 *   xrt_program* program = NULL;
 *   if (xrt_program_load("model.onnx", NULL, &program, &status) != XRT_OK) {
 *     fprintf(stderr, "%s\n", xrt_status_message(status));
 *     xrt_status_free(status);
 *     return 1;
 *   }
 *   const int64_t dims[] = {1, 3};
 *   float pixels[] = {1, 2, 3};
 *   xrt_tensor tensor = {.size = sizeof tensor, .dtype = XRT_FLOAT32, .dims = dims, .rank = 2,
 *                        .data = pixels, .bytes = sizeof pixels};
 *   xrt_value* input = NULL;
 *   xrt_value* output = NULL;
 *   xrt_value_wrap(&tensor, &input, NULL);
 *   xrt_program_run(program, (const xrt_value* const*)&input, 1, &output, 1, NULL, NULL);
 *
 * Errors. A function that can fail returns an xrt_code and takes a `status`. If `status` is not
 * null, *status becomes null on success and a new object on failure, which the caller frees with
 * xrt_status_free(). What stood there before is overwritten, not freed. After a failure the other
 * results are as they were.
 *
 * Ownership. Handles that a function gives out belong to the caller, who frees each once with the
 * function of its type; null is allowed there. Freeing a program waits for its requests. Texts that
 * come as `char**` are freed with xrt_text_free(). Texts and arrays that come as pointers to const
 * belong to the handle they were asked of and live as long as it does. What is passed in is copied,
 * except the memory of xrt_value_wrap().
 *
 * Threads. Functions of different handles may be called at once. So may all functions of one
 * program and of one request, except those that free it. Options, values and statuses are read by
 * many threads at once, or changed by one. A value's elements are not guarded.
 *
 * Texts are UTF-8 and end with a zero byte. In names that come from an ONNX model, a byte that is
 * not part of UTF-8 is written as \xNN; in JSON other such bytes are replaced by U+FFFD.
 *
 * Growth. A structure begins with its size, which the caller sets to sizeof. Later versions add
 * members at the end, functions and codes; a caller handles codes that it does not know as
 * XRT_ERROR_INTERNAL. */
#ifndef XRT_XRT_H_
#define XRT_XRT_H_

#include <stddef.h>
#include <stdint.h>

#include "xrt/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "major.minor.patch" of the libxrt.so that is loaded. */
XRT_API const char* xrt_version(void);

/* --- errors --------------------------------------------------------------------------------- */

typedef int32_t xrt_code;
enum {
  XRT_OK = 0,
  XRT_ERROR_INVALID_ARGUMENT = 1, /* the caller passed something wrong */
  XRT_ERROR_INVALID_MODEL = 2,    /* a model or cache entry is malformed or breaks a rule */
  XRT_ERROR_UNSUPPORTED = 3,      /* well-formed, but no permitted engine can do it */
  XRT_ERROR_NOT_FOUND = 4,        /* a file, engine or entry is missing */
  XRT_ERROR_ENGINE = 5,           /* an engine's library failed: load, compile or run */
  XRT_ERROR_IO = 6,               /* the operating system refused: read, write, map, lock */
  XRT_ERROR_RESOURCE = 7,         /* out of memory, or a bound was reached */
  XRT_ERROR_INTERNAL = 8          /* a rule of the library was broken: please report */
};

typedef struct xrt_status xrt_status;
XRT_API xrt_code xrt_status_code(const xrt_status* status);       /* null: XRT_OK */
XRT_API const char* xrt_status_message(const xrt_status* status); /* null: "" */
XRT_API void xrt_status_free(xrt_status* status);
/* "ok", "invalid_argument", "invalid_model", … */
XRT_API const char* xrt_code_name(xrt_code code);

XRT_API void xrt_text_free(char* text);

/* --- element types -------------------------------------------------------------------------- */

/* The numbers are those of ONNX's TensorProto.DataType. Elements narrower than a byte are packed,
 * low bits first. */
typedef int32_t xrt_dtype;
enum {
  XRT_FLOAT32 = 1,
  XRT_UINT8 = 2,
  XRT_INT8 = 3,
  XRT_UINT16 = 4,
  XRT_INT16 = 5,
  XRT_INT32 = 6,
  XRT_INT64 = 7,
  XRT_STRING = 8,
  XRT_BOOL = 9, /* one byte, 0 or 1 */
  XRT_FLOAT16 = 10,
  XRT_FLOAT64 = 11,
  XRT_UINT32 = 12,
  XRT_UINT64 = 13,
  XRT_COMPLEX64 = 14,
  XRT_COMPLEX128 = 15,
  XRT_BFLOAT16 = 16,
  XRT_FLOAT8_E4M3FN = 17,
  XRT_FLOAT8_E4M3FNUZ = 18,
  XRT_FLOAT8_E5M2 = 19,
  XRT_FLOAT8_E5M2FNUZ = 20,
  XRT_UINT4 = 21,
  XRT_INT4 = 22,
  XRT_FLOAT4_E2M1 = 23,
  XRT_FLOAT8_E8M0 = 24,
  XRT_UINT2 = 25,
  XRT_INT2 = 26
};
/* "float32", "int4", "string", …; "" for a number that is none of the above. */
XRT_API const char* xrt_dtype_name(xrt_dtype dtype);
/* Bits of one element; 0 for strings and for a number that is none of the above. */
XRT_API int xrt_dtype_bits(xrt_dtype dtype);

/* --- values --------------------------------------------------------------------------------- */

/* The largest rank of a tensor that is passed in. */
#define XRT_MAX_RANK 64

typedef int32_t xrt_kind;
enum {
  XRT_NONE = 0, /* of a value: an optional one that is left out */
  XRT_TENSOR = 1,
  XRT_SEQUENCE = 2, /* of values */
  XRT_OPTIONAL = 3, /* of a port: xrt_port.type says of what */
  XRT_OTHER = 4     /* of a port: a map, whose values are sequences; or no value of this library */
};

typedef struct xrt_value xrt_value;

/* A dense row-major tensor in memory of the caller. */
typedef struct xrt_tensor {
  size_t size; /* sizeof(xrt_tensor) */
  xrt_dtype dtype;
  const int64_t* dims; /* `rank` numbers, each 0 or more; may be null if rank is 0 */
  size_t rank;
  void* data;   /* aligned to an element; may be null if there are no elements */
  size_t bytes; /* at least what dtype and dims need */
  /* "cuda:0": `data` lies on that GPU and is written already. Null or "cpu": on the host. */
  const char* device;
  /* If not null it is called once, with `context`, when nobody reads the memory any more; on any
   * thread. If null the memory must stay until the value is freed and every run that was given the
   * value has ended. */
  void (*release)(void* context);
  void* context;
} xrt_tensor;

/* A value over memory of the caller: an input, or an output to be written in place. Not for
 * strings. On failure `release` is not called. */
XRT_API xrt_code xrt_value_wrap(const xrt_tensor* tensor, xrt_value** value, xrt_status** status);
/* A tensor in new memory, filled with zero bytes (empty strings). */
XRT_API xrt_code xrt_value_create(xrt_dtype dtype, const int64_t* dims, size_t rank,
                                  xrt_value** value, xrt_status** status);
/* A tensor of strings, which are copied. `lengths` are in bytes; null: each text ends with a zero
 * byte. `count` must be the product of `dims`. */
XRT_API xrt_code xrt_value_create_strings(const char* const* texts, const size_t* lengths,
                                          size_t count, const int64_t* dims, size_t rank,
                                          xrt_value** value, xrt_status** status);
/* A sequence of values of `dtype`; it shares their memory. */
XRT_API xrt_code xrt_value_create_sequence(xrt_dtype dtype, const xrt_value* const* items,
                                           size_t count, xrt_value** value, xrt_status** status);
XRT_API void xrt_value_free(xrt_value* value);

/* Null is XRT_NONE. */
XRT_API xrt_kind xrt_value_kind(const xrt_value* value);
/* A tensor's elements, or those of a sequence's tensors; 0 otherwise. */
XRT_API xrt_dtype xrt_value_dtype(const xrt_value* value);
/* Of a tensor; 0 and null otherwise. */
XRT_API size_t xrt_value_rank(const xrt_value* value);
XRT_API const int64_t* xrt_value_dims(const xrt_value* value);
/* Elements of a tensor, items of a sequence; 0 otherwise. */
XRT_API size_t xrt_value_count(const xrt_value* value);
/* Bytes of a tensor's elements; 0 for strings and otherwise. */
XRT_API size_t xrt_value_bytes(const xrt_value* value);
/* A tensor's elements, on the device that xrt_value_device() says; null for strings and where there
 * are none. */
XRT_API void* xrt_value_data(const xrt_value* value);
/* "cpu", "cuda:0"; "" where the value is no tensor. */
XRT_API const char* xrt_value_device(const xrt_value* value);
/* One string of a tensor; `length` in bytes may be null. The text may hold zero bytes. */
XRT_API xrt_code xrt_value_string(const xrt_value* value, size_t index, const char** text,
                                  size_t* length, xrt_status** status);
/* One item of a sequence, as a new value that shares its memory. */
XRT_API xrt_code xrt_value_item(const xrt_value* value, size_t index, xrt_value** item,
                                xrt_status** status);

/* --- options -------------------------------------------------------------------------------- */

/* How a program is loaded and placed. Where options are null the defaults hold. */
typedef struct xrt_options xrt_options;
XRT_API xrt_code xrt_options_create(xrt_options** options, xrt_status** status);
XRT_API void xrt_options_free(xrt_options* options);
/* Any option of docs/reference/options.md by its name, its value as text: ("engine",
 * "openvino,native"), ("num_threads", "4"), ("cache_dir", ""), ("strict", "true").
 * XRT_ERROR_INVALID_ARGUMENT for an unknown name, with the nearest known one, or a value that does
 * not fit. */
XRT_API xrt_code xrt_options_set(xrt_options* options, const char* name, const char* value,
                                 xrt_status** status);
/* An engine's own option. */
XRT_API xrt_code xrt_options_set_engine(xrt_options* options, const char* engine, const char* name,
                                        const char* value, xrt_status** status);
/* Runs the node of that name on that engine. */
XRT_API xrt_code xrt_options_set_node(xrt_options* options, const char* node, const char* engine,
                                      xrt_status** status);
/* The output is written into the input's memory. */
XRT_API xrt_code xrt_options_add_alias(xrt_options* options, const char* input, const char* output,
                                       xrt_status** status);
/* The names that xrt_options_set() knows, as a JSON list. */
XRT_API xrt_code xrt_options_names_json(char** json, xrt_status** status);

/* --- programs ------------------------------------------------------------------------------- */

typedef struct xrt_program xrt_program;

/* An ONNX file, or a folder that OneFlow saved. */
XRT_API xrt_code xrt_program_load(const char* path, const xrt_options* options,
                                  xrt_program** program, xrt_status** status);
/* An ONNX model in memory, which may go when the call returns. */
XRT_API xrt_code xrt_program_load_bytes(const void* bytes, size_t size, const xrt_options* options,
                                        xrt_program** program, xrt_status** status);
/* Waits until its requests are done. Not from a callback of one of them. */
XRT_API void xrt_program_free(xrt_program* program);

/* An input or output. */
typedef struct xrt_port {
  size_t size; /* sizeof(xrt_port); set by the caller */
  const char* name;
  const char* type; /* as text: "float32[batch,3,?]", "seq(int64[*])" */
  xrt_kind kind;
  xrt_dtype dtype;     /* of a tensor, or of the tensors that a sequence or optional holds */
  int64_t rank;        /* of a tensor; -1: unknown, or no tensor */
  const int64_t* dims; /* `rank` numbers; -1: not known before a run */
  /* `rank` names of dimensions that are not known: equal names are equal sizes; null: no name */
  const char* const* symbols;
  int has_default; /* an input that may be left out */
} xrt_port;

XRT_API size_t xrt_program_input_count(const xrt_program* program); /* null: 0 */
XRT_API size_t xrt_program_output_count(const xrt_program* program);
XRT_API xrt_code xrt_program_input(const xrt_program* program, size_t index, xrt_port* port,
                                   xrt_status** status);
XRT_API xrt_code xrt_program_output(const xrt_program* program, size_t index, xrt_port* port,
                                    xrt_status** status);

/* Where outputs lie that the caller brings no memory for. */
typedef int32_t xrt_results;
enum {
  XRT_RESULTS_LIKE_INPUTS = 0, /* on the program's device if any input lies there, else the host */
  XRT_RESULTS_HOST = 1,
  XRT_RESULTS_DEVICE = 2
};

typedef struct xrt_run_options {
  size_t size; /* sizeof(xrt_run_options) */
  xrt_results results;
  /* Seconds until the run ends with XRT_ERROR_RESOURCE; 0: the program's option `deadline_s`. */
  double timeout_s;
  /* Not 0: xrt_program_submit() gives XRT_ERROR_RESOURCE where `max_queue` runs wait already,
   * instead of waiting for room. */
  int32_t must_not_wait;
} xrt_run_options;

/* Runs the program and returns when the outputs are written. `inputs` are in the program's order;
 * one with a default, or an optional one, may be null. `outputs` has one place per output: null
 * there is replaced by a new value; a value there is written in place, and a dtype or shape other
 * than the output's is XRT_ERROR_INVALID_ARGUMENT. After a failure what was null is null, and the
 * elements of what was given are undefined. `options` may be null. */
XRT_API xrt_code xrt_program_run(xrt_program* program, const xrt_value* const* inputs,
                                 size_t input_count, xrt_value** outputs, size_t output_count,
                                 const xrt_run_options* options, xrt_status** status);
/* The same by names: those inputs that are given, those outputs that are wanted. */
XRT_API xrt_code xrt_program_run_named(xrt_program* program, const char* const* input_names,
                                       const xrt_value* const* inputs, size_t input_count,
                                       const char* const* output_names, xrt_value** outputs,
                                       size_t output_count, const xrt_run_options* options,
                                       xrt_status** status);

/* A run that was submitted. */
typedef struct xrt_request xrt_request;
/* Called when the run has ended, on a thread of the library, or when it is cancelled, on the thread
 * that does; it may call xrt_request_result(), xrt_request_free() and xrt_program_submit(), and
 * must return soon. Those who wait are woken when it begins. */
typedef void (*xrt_callback)(void* context, xrt_request* request);
/* As xrt_program_run(), but does not wait for the run: runs begin on threads of the program in the
 * order of their submission, as many at once as the option `streams` says. While `max_queue` of
 * them wait, the call waits for room, but not in a callback. The values may be freed when the call
 * returns; memory that they wrap must stay until the run has ended. `outputs` may be null: all are
 * new. `callback` may be null. */
XRT_API xrt_code xrt_program_submit(xrt_program* program, const xrt_value* const* inputs,
                                    size_t input_count, const xrt_value* const* outputs,
                                    size_t output_count, const xrt_run_options* options,
                                    xrt_callback callback, void* context, xrt_request** request,
                                    xrt_status** status);
/* 1 when the run has ended, 0 when `milliseconds` have passed before. 0 asks without waiting, a
 * negative number waits without a limit. Null: 1. */
XRT_API int xrt_request_wait(xrt_request* request, int64_t milliseconds);
/* Waits, and gives the run's outcome: its error, or all outputs, each as a new value that shares
 * its memory with those of other calls. Every place of `outputs` is overwritten. */
XRT_API xrt_code xrt_request_result(xrt_request* request, xrt_value** outputs, size_t output_count,
                                    xrt_status** status);
/* Takes the run back where it has not begun. 1: it was taken back, now or before, and its result is
 * XRT_ERROR_INVALID_ARGUMENT. 0: it has begun, and goes on. Null: 0. */
XRT_API int xrt_request_cancel(xrt_request* request);
/* Does not wait and does not stop the run. */
XRT_API void xrt_request_free(xrt_request* request);

/* --- what a program tells -------------------------------------------------------------------- */

/* Which engine runs which node and why, as JSON (docs/reference/c-api.md). */
XRT_API xrt_code xrt_program_explain_json(xrt_program* program, char** json, xrt_status** status);
/* Not 0: the launches of later runs are kept, the newest 100,000. */
XRT_API xrt_code xrt_program_set_profiling(xrt_program* program, int on, xrt_status** status);
/* The launches kept, as a trace that Perfetto and Chrome open. */
XRT_API xrt_code xrt_program_trace_json(const xrt_program* program, char** json,
                                        xrt_status** status);
/* The graph after passes, before it is divided among engines. */
XRT_API xrt_code xrt_program_graph_text(const xrt_program* program, char** text,
                                        xrt_status** status);

/* --- the process ----------------------------------------------------------------------------- */

/* The engines that are found: name, version, devices and ops, or why one cannot be loaded. */
XRT_API xrt_code xrt_engines_json(char** json, xrt_status** status);
/* What `xrt doctor --json` prints: every engine, checked by running one op on it. */
XRT_API xrt_code xrt_doctor_json(char** json, xrt_status** status);

/* $XRT_CACHE_DIR, else "": no disk cache. */
XRT_API xrt_code xrt_cache_default_dir(char** dir, xrt_status** status);
/* The entries of a cache folder. */
XRT_API xrt_code xrt_cache_list_json(const char* dir, char** json, xrt_status** status);
/* Removes all entries; `removed`, their number, may be null. */
XRT_API xrt_code xrt_cache_clear(const char* dir, size_t* removed, xrt_status** status);

/* How many CPU threads all programs of the process use together. */
XRT_API int xrt_thread_budget(void);
/* 1 to 4096; holds for launches that begin from now on. */
XRT_API xrt_code xrt_set_thread_budget(int threads, xrt_status** status);

/* "debug", "info", "warning", "error" or "off": which lines go to standard error. It begins as
 * $XRT_LOG says, else as "warning". */
XRT_API xrt_code xrt_set_log_level(const char* level, xrt_status** status);

#ifdef __cplusplus
}
#endif
#endif /* XRT_XRT_H_ */
