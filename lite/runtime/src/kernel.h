/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract between the compiler, the loader and the drivers: what a kernel is asked to do.
 *
 * An op of a file is a kernel id, a parameter structure and operands. The compiler chooses kernel,
 * weight packing and layout by the description of the target (lite/compiler/targets); a driver
 * only looks up kernel id -> function. The loader has checked (src/check.c) that parameters fit the
 * operands, so that a kernel need not: every access that the parameters describe lies inside the
 * operand's bytes, enums are known, sizes are positive. Kernels report what depends on data
 * (indices) as XRT_LITE_OUT_OF_RANGE.
 *
 * - All parameters are 32-bit words, little-endian, as they lie in the file. Strides, pitches and
 *   offsets count elements of the operand's dtype.
 * - Images are N, H, W, C; a `pitch` is the distance from one pixel to the next (>= C), so that
 *   channels of a wider tensor are read and written in place. Images lie dense but for that.
 * - Operands in the arena are aligned to 64 bytes, weights to 64 within the file (which itself is
 *   aligned to at least 16), views of wider tensors and buffers of the caller to their element.
 * - An output never overlaps an input, but for EW, CONV's residual and GEMM's residual: there an
 *   operand of the output's dtype, shape and strides may be the same memory.
 * - CPU kernels compute int8 exactly alike: acc is int32, exact; then, in float32 with each
 *   operation rounded on its own (no contraction to fused multiply-add),
 *       v = (float)acc * scale[c]                       (bias is already part of acc)
 *       v = v + (float)(r - r_zero) * r_scale           (where there is a residual)
 *       q = round_half_even(min(max(v, lo), hi)) + y_zero, saturated to y's dtype
 *   where lo and hi are in units of y's step. */
#ifndef XRT_LITE_KERNEL_H_
#define XRT_LITE_KERNEL_H_

#include "xrt_lite.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are part of the file format: never reused, new ones at the end. */
typedef enum xrt_kernel_id {
  XRT_K_NONE = 0,
  XRT_K_CONV_F32 = 1,   /* xrt_k_conv */
  XRT_K_CONV_Q8 = 2,    /* xrt_k_conv */
  XRT_K_DWCONV_F32 = 3, /* xrt_k_conv; groups == ic == oc */
  XRT_K_DWCONV_Q8 = 4,  /* xrt_k_conv; groups == ic == oc */
  XRT_K_GEMM_F32 = 5,   /* xrt_k_gemm */
  XRT_K_GEMM_Q8 = 6,    /* xrt_k_gemm */
  XRT_K_POOL = 7,       /* xrt_k_pool */
  XRT_K_EW = 8,         /* xrt_k_ew: pointwise chains, broadcasts, casts, quantise */
  XRT_K_COPY = 9,       /* xrt_k_copy: transpose, slice, concat, expand, layout change */
  XRT_K_FILL = 10,      /* xrt_k_fill */
  XRT_K_REDUCE = 11,    /* xrt_k_reduce */
  XRT_K_SOFTMAX = 12,   /* xrt_k_softmax */
  XRT_K_NORM = 13,      /* xrt_k_norm: layer normalisation */
  XRT_K_GATHER = 14,    /* xrt_k_gather */
  XRT_K_RESIZE = 15,    /* xrt_k_resize */
  XRT_K_ARG = 16,       /* xrt_k_arg: ArgMax, ArgMin */
  XRT_K_MODEL = 17,     /* xrt_k_model: a whole function that a vendor's compiler has taken */
  XRT_K_COUNT
} xrt_kernel_id;

/* Applied to the sum of product, bias and residual. */
typedef enum xrt_activation {
  XRT_ACT_NONE = 0,
  XRT_ACT_CLIP = 1, /* min(max(v, lo), hi); Relu has hi = +infinity */
  XRT_ACT_COUNT
} xrt_activation;

enum { XRT_HAS_BIAS = 1, XRT_HAS_RESIDUAL = 2 };

/* How a constant factor [K, N] (a convolution's K is kh*kw*ic of its group, in that order, N its
 * output channels) lies in memory:
 *   [group][ceil(N / pack_n)][ceil(K / pack_k)][pack_n][pack_k], filled up with zeros.
 * pack_n = 1, pack_k = 1 is [N][K]. Depthwise weights are [kh][kw][C] whatever the packing says.
 * pack_n = 0 (GEMM only): the factor is not constant, b_row and b_col are its strides.
 * Element type: float32 for *_F32 (or float16, see weight_dtype), int8 for *_Q8. */

/* Operands: x, weights, [bias], [residual], y (in this order; absent ones are left out)
 *   Q8: x, weights, scale f32[oc], [bias i32[oc]], [residual], y
 * F32: bias f32[oc]. The bias of Q8 holds what the input's zero point adds: an element outside the
 * image counts as x_zero, so that acc = sum((x - x_zero) * w) + bias. */
typedef struct xrt_k_conv {
  int32_t n, ih, iw, ic;
  int32_t oh, ow, oc;
  int32_t kh, kw, stride_h, stride_w, dilation_h, dilation_w;
  int32_t pad_top, pad_left; /* what the far sides need follows from oh and ow */
  int32_t groups;
  int32_t x_pitch, y_pitch, r_pitch;
  int32_t pack_n, pack_k;
  int32_t weight_dtype; /* F32, F16 or I8 */
  int32_t flags, activation;
  float lo, hi;
  int32_t x_dtype, y_dtype, r_dtype; /* U8 or I8 each for Q8 */
  int32_t x_zero, y_zero, r_zero;
  float r_scale;
} xrt_k_conv;

/* y[b][m][n] = act(sum_k a[b][m][k] * b[b][k][n] * alpha + bias[n] + residual[b][m][n])
 * Operands: a, b, [bias], [residual], y; Q8: a, b, scale f32[n], [bias i32[n]], [residual], y.
 * Batches: up to four dimensions with a stride for each operand (0: broadcast). Residual and y
 * share strides; columns of y are adjacent. In Q8 b is always packed and constant, a zero point is
 * x_zero. */
typedef struct xrt_k_gemm {
  int32_t m, n, k;
  int32_t batch[4]; /* outermost first, 1 where unused */
  int32_t a_batch[4], b_batch[4], y_batch[4];
  int32_t a_row, a_col; /* from m to m + 1, from k to k + 1 */
  int32_t b_row, b_col; /* from k to k + 1, from n to n + 1; pack_n == 0 only */
  int32_t y_row;
  int32_t pack_n, pack_k;
  int32_t weight_dtype;
  int32_t flags, activation;
  float lo, hi, alpha;
  int32_t x_dtype, y_dtype, r_dtype;
  int32_t x_zero, y_zero, r_zero;
  float r_scale;
} xrt_k_gemm;

typedef enum xrt_pool_kind { XRT_POOL_MAX = 0, XRT_POOL_MEAN = 1, XRT_POOL_COUNT } xrt_pool_kind;

/* Operands: x, y of one dtype (F32, U8, I8; the mean is of F32 only). */
typedef struct xrt_k_pool {
  int32_t n, ih, iw, c;
  int32_t oh, ow;
  int32_t kh, kw, stride_h, stride_w, dilation_h, dilation_w;
  int32_t pad_top, pad_left, pad_bottom, pad_right;
  int32_t x_pitch, y_pitch;
  int32_t kind;
  int32_t count_include_pad;
  int32_t dtype;
} xrt_k_pool;

/* A pointwise program. Operands: inputs, then y, which is dense over dims.
 * Registers hold `int64` (domain 1) or `float` (domain 0) and number 0..XRT_EW_REGISTERS-1; inputs
 * are loaded into registers 0..inputs-1 first, then the code runs, then register `result` is
 * stored as y_dtype: from float to an integer it is truncated, saturated for U8 and I8 and
 * rounded half to even first (a quantisation); to BOOL: != 0. An I64 y in domain 0 truncates.
 * Memory: the structure, then inputs * xrt_ew_input, then code_words words of instructions. */
#define XRT_EW_REGISTERS 12
#define XRT_EW_MAX_INPUTS 8
#define XRT_EW_MAX_RANK 6
typedef struct xrt_k_ew {
  int32_t rank; /* dims beyond it are 1 */
  int32_t dims[XRT_EW_MAX_RANK];
  int32_t domain, inputs, code_words, result, y_dtype;
} xrt_k_ew;
typedef struct xrt_ew_input {
  int32_t dtype;
  int32_t strides[XRT_EW_MAX_RANK]; /* 0: broadcast */
} xrt_ew_input;

/* One word: op | dst << 8 | a << 16 | b << 24. CONST is followed by a word of its value (float, or
 * int32 in the integer domain). */
typedef enum xrt_ew_op {
  XRT_EW_CONST = 0, /* dst = value */
  XRT_EW_ADD,
  XRT_EW_SUB,
  XRT_EW_MUL,
  XRT_EW_DIV,
  XRT_EW_MIN,
  XRT_EW_MAX,
  XRT_EW_POW, /* float only */
  XRT_EW_EQ,
  XRT_EW_LT,
  XRT_EW_LE,
  XRT_EW_AND,
  XRT_EW_OR,     /* 1 or 0 */
  XRT_EW_SELECT, /* dst = dst != 0 ? a : b */
  XRT_EW_NOT,
  XRT_EW_NEG,
  XRT_EW_ABS,
  /* float only from here */
  XRT_EW_SQRT,
  XRT_EW_EXP,
  XRT_EW_LOG,
  XRT_EW_TANH,
  XRT_EW_SIGMOID,
  XRT_EW_ERF,
  XRT_EW_FLOOR,
  XRT_EW_CEIL,
  XRT_EW_ROUND,
  XRT_EW_SIN,
  XRT_EW_COS,
  XRT_EW_SIGN,
  XRT_EW_TRUNC,
  XRT_EW_OP_COUNT
} xrt_ew_op;

/* Strided copy. Operands: x, y. Several ops may write parts of one y (concatenation). */
typedef struct xrt_k_copy {
  int32_t rank;
  int32_t dims[XRT_LITE_MAX_RANK];
  int32_t x_strides[XRT_LITE_MAX_RANK], y_strides[XRT_LITE_MAX_RANK]; /* may be negative */
  int32_t x_offset, y_offset;
  int32_t element_bytes; /* 1, 2, 4, 8 */
} xrt_k_copy;

/* Operand: y. */
typedef struct xrt_k_fill {
  int32_t count, element_bytes;
  uint32_t low, high; /* the element's bits */
} xrt_k_fill;

typedef enum xrt_reduce_kind {
  XRT_REDUCE_SUM = 0,
  XRT_REDUCE_MEAN,
  XRT_REDUCE_MAX,
  XRT_REDUCE_MIN,
  XRT_REDUCE_PROD,
  XRT_REDUCE_SUM_SQUARE,
  XRT_REDUCE_L1,
  XRT_REDUCE_L2,
  XRT_REDUCE_COUNT
} xrt_reduce_kind;

/* Operands: x, y, both F32. y is dense over `kept`; the reduced dimensions are summed over. */
typedef struct xrt_k_reduce {
  int32_t kind;
  int32_t kept[4], kept_strides[4];       /* 1 and 0 where unused */
  int32_t reduced[4], reduced_strides[4]; /* likewise */
} xrt_k_reduce;

/* Operands: x, y F32, dense [outer][size][inner]. */
typedef struct xrt_k_softmax {
  int32_t outer, size, inner, log;
} xrt_k_softmax;

/* Operands: x, scale f32[size], [bias f32[size]], y; dense [outer][size]. */
typedef struct xrt_k_norm {
  int32_t outer, size, flags;
  float epsilon;
} xrt_k_norm;

/* Operands: x [outer][size][inner], indices (I32 or I64) [count], y [outer][count][inner]. */
typedef struct xrt_k_gather {
  int32_t outer, size, inner, count;
  int32_t element_bytes, index_dtype;
} xrt_k_gather;

/* Operands: x, y F32 N, H, W, C. Source position of output i: (i + shift) * scale - shift where
 * `half_pixel` says shift = 0.5, else 0. */
typedef struct xrt_k_resize {
  int32_t n, ih, iw, c, oh, ow;
  int32_t linear; /* 0: nearest, round down; 1: linear */
  int32_t half_pixel;
  float scale_h, scale_w; /* input over output */
} xrt_k_resize;

/* Operands: x F32 [outer][size][inner], y I64 [outer][inner]: the first of equal ones. */
typedef struct xrt_k_arg {
  int32_t outer, size, inner, minimum;
} xrt_k_arg;

/* Operands: inputs, then outputs, each a whole dense tensor. What is computed is in the code of the
 * function, of which this is the only op. */
typedef struct xrt_k_model {
  int32_t inputs, outputs;
} xrt_k_model;

/* One call. */
typedef struct xrt_kernel_call {
  const void* params;
  void* const* operands;
  void* scratch; /* as many bytes as the compiler was told (target description); 64-aligned */
  const xrt_lite_threads* threads; /* null: do not go parallel */
} xrt_kernel_call;

typedef xrt_lite_status (*xrt_kernel)(const xrt_kernel_call* call);

#ifdef __cplusplus
}
#endif

#endif /* XRT_LITE_KERNEL_H_ */
