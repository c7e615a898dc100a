/* SPDX-License-Identifier: Apache-2.0
 *
 * The model file, version 1: little-endian, all places are offsets from its first byte.
 *
 *   header | tables (targets, functions, steps, ops, operands, tensors, ports, words, strings)
 *   | blobs of functions | weights
 *
 * Each table begins at a multiple of 8, the weights at a multiple of 64. What lies before
 * meta_bytes is covered by meta_checksum and read at load; blobs and weights have checksums of
 * their own, compared on request, so that loading does not touch them.
 * docs/reference/lite-format.md. */
#ifndef XRT_LITE_FORMAT_H_
#define XRT_LITE_FORMAT_H_

#include <stdint.h>

#define XRT_FILE_MAGIC 0x4C545258u /* "XRTL" */
#define XRT_FILE_VERSION 1u
#define XRT_FILE_CHECKED_FROM 32u /* meta_checksum covers [32, meta_bytes) */

typedef struct xrt_file_table {
  uint32_t offset, count;
} xrt_file_table;

typedef struct xrt_file_header {
  uint32_t magic, version;
  uint64_t file_bytes;
  uint32_t meta_bytes, meta_checksum;
  uint32_t reserved[2];             /* 0 */
  uint64_t data_offset, data_bytes; /* weights */
  uint32_t data_checksum;
  uint32_t input_count, output_count; /* ports: inputs first */
  uint32_t reserved2;                 /* 0 */
  xrt_file_table targets, functions, steps, ops, operands, tensors, ports, words, strings;
} xrt_file_header;

enum { XRT_TARGET_HOST_MEMORY = 1 };

/* A driver that the file needs. Targets with XRT_TARGET_HOST_MEMORY share the arena of target 0;
 * target 0 is always "host" memory, whether ops run on it or not. */
typedef struct xrt_file_target {
  uint32_t name; /* in strings */
  uint32_t flags;
  uint64_t arena_bytes;
} xrt_file_target;

typedef struct xrt_file_function {
  uint32_t target, first_op, op_count, reserved;
  uint64_t blob_offset, blob_bytes; /* 0: none */
} xrt_file_function;

enum { XRT_STEP_FUNCTION = 0, XRT_STEP_TRANSFER = 1 };

typedef struct xrt_file_step {
  uint32_t kind;
  uint32_t a, b; /* function, 0; or: tensor read, tensor written (one of the two on the host) */
  uint32_t reserved;
} xrt_file_step;

typedef struct xrt_file_op {
  uint32_t kernel;
  uint32_t params, param_words;     /* in words */
  uint32_t operands, operand_count; /* in operands */
  int32_t scratch;                  /* a tensor in the arena, or -1 */
  uint32_t name;                    /* in strings */
  uint32_t reserved;
} xrt_file_op;

enum { XRT_AT_DATA = 0, XRT_AT_ARENA = 1, XRT_AT_INPUT = 2, XRT_AT_OUTPUT = 3, XRT_AT_COUNT };

typedef struct xrt_file_tensor {
  uint64_t offset, bytes; /* in the data, the target's arena, or the port's buffer */
  uint32_t at;
  uint32_t dtype;
  uint32_t target; /* XRT_AT_ARENA: whose */
  uint32_t port;   /* XRT_AT_INPUT, XRT_AT_OUTPUT: index among inputs, or among outputs */
} xrt_file_tensor;

typedef struct xrt_file_port {
  uint32_t name, dtype, rank, reserved;
  uint64_t bytes;
  int64_t dims[8];
} xrt_file_port;

/* operands: uint32_t tensor index. words: uint32_t. strings: bytes, each string ends with 0. */

#define XRT_MAX_OPERANDS 12
#define XRT_MAX_TARGETS 8

#endif /* XRT_LITE_FORMAT_H_ */
