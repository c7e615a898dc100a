/* SPDX-License-Identifier: Apache-2.0
 * Parameters against operands: after this a kernel may trust what it is given. */
#include "internal.h"

#define MAX_EXTENT ((int64_t)1 << 40)

typedef struct cursor {
  const xrt_view* view;
  const xrt_file_op* op;
  uint32_t next;
  int ok;
} cursor;

static int32_t dtype_bytes(int32_t dtype) {
  switch (dtype) {
    case XRT_LITE_F32:
    case XRT_LITE_I32:
      return 4;
    case XRT_LITE_F16:
      return 2;
    case XRT_LITE_I64:
      return 8;
    default:
      return 1;
  }
}

static int is_q8(int32_t dtype) { return dtype == XRT_LITE_U8 || dtype == XRT_LITE_I8; }

/* The next operand: of that dtype (0: any), at least `count` elements of it, writable if an output.
 */
static const xrt_file_tensor* take(cursor* c, int32_t dtype, int64_t count, int output) {
  if (!c->ok || c->next >= c->op->operand_count || count < 1 || count > MAX_EXTENT) {
    c->ok = 0;
    return NULL;
  }
  const xrt_file_tensor* t = &c->view->tensors[c->view->operands[c->op->operands + c->next++]];
  if (dtype != 0 && (int32_t)t->dtype != dtype) c->ok = 0;
  if (t->bytes / (uint64_t)dtype_bytes((int32_t)t->dtype) < (uint64_t)count) c->ok = 0;
  if (output && t->at != XRT_AT_ARENA && t->at != XRT_AT_OUTPUT) c->ok = 0;
  return c->ok ? t : NULL;
}

/* Elements that a strided walk touches, counted from element 0; -1 if it goes below or is absurd.
 */
static int64_t extent(int32_t rank, const int32_t* dims, const int32_t* strides, int64_t offset) {
  int64_t low = offset, high = offset;
  for (int32_t i = 0; i < rank; ++i) {
    if (dims[i] < 1) return -1;
    const int64_t reach = (int64_t)(dims[i] - 1) * strides[i];
    if (reach > MAX_EXTENT || reach < -MAX_EXTENT) return -1;
    if (reach < 0) low += reach;
    if (reach > 0) high += reach;
  }
  return low < 0 || high >= MAX_EXTENT ? -1 : high + 1;
}

/* Product of sizes, each at least 1; -1 beyond the bound. */
static int64_t product(int32_t count, const int32_t* sizes) {
  int64_t result = 1;
  for (int32_t i = 0; i < count; ++i) {
    if (sizes[i] < 1) return -1;
    result *= sizes[i];
    if (result > (int64_t)1 << 31) return -1;
  }
  return result;
}

static int64_t image(int32_t n, int32_t h, int32_t w, int32_t c, int32_t pitch) {
  const int32_t sizes[3] = {n, h, w};
  const int64_t pixels = product(3, sizes);
  if (pixels < 0 || c < 1 || pitch < c) return -1;
  return (pixels - 1) * pitch + c;
}

static int window(int32_t in, int32_t out, int32_t k, int32_t stride, int32_t dilation,
                  int32_t pad) {
  const int32_t bound = 1 << 24;
  return in >= 1 && out >= 1 && k >= 1 && stride >= 1 && dilation >= 1 && pad >= 0 && in < bound &&
         out < bound && k < bound && stride < bound && dilation < bound && pad < bound &&
         (int64_t)k * dilation < bound && (int64_t)out * stride < (1 << 30);
}

static int64_t packed(int32_t groups, int32_t n, int32_t k, int32_t pack_n, int32_t pack_k) {
  if (pack_n < 1 || pack_n > 256 || pack_k < 1 || pack_k > 64 || n < 1 || k < 1) return -1;
  const int32_t sizes[5] = {groups, (n - 1) / pack_n + 1, (k - 1) / pack_k + 1, pack_n, pack_k};
  return product(5, sizes);
}

static int epilogue(int32_t flags, int32_t activation, int q8, int32_t x, int32_t y, int32_t r) {
  if ((flags & ~(XRT_HAS_BIAS | XRT_HAS_RESIDUAL)) != 0) return 0;
  if (activation < 0 || activation >= XRT_ACT_COUNT) return 0;
  if (!q8) return 1;
  return is_q8(x) && is_q8(y) && (!(flags & XRT_HAS_RESIDUAL) || is_q8(r));
}

static int zero_ok(int32_t zero) { return zero >= -128 && zero <= 255; }

static void check_conv(cursor* c, const xrt_k_conv* p, int q8, int depthwise) {
  if (!window(p->ih, p->oh, p->kh, p->stride_h, p->dilation_h, p->pad_top) ||
      !window(p->iw, p->ow, p->kw, p->stride_w, p->dilation_w, p->pad_left) || p->groups < 1 ||
      p->ic < 1 || p->oc < 1 || p->ic % p->groups != 0 || p->oc % p->groups != 0 ||
      (depthwise && (p->groups != p->ic || p->oc != p->ic)) ||
      !epilogue(p->flags, p->activation, q8, p->x_dtype, p->y_dtype, p->r_dtype)) {
    c->ok = 0;
    return;
  }
  if (q8 && (p->weight_dtype != XRT_LITE_I8 || !zero_ok(p->x_zero) || !zero_ok(p->y_zero) ||
             !zero_ok(p->r_zero)))
    c->ok = 0;
  if (!q8 && p->weight_dtype != XRT_LITE_F32 && p->weight_dtype != XRT_LITE_F16) c->ok = 0;
  const int32_t f32 = XRT_LITE_F32;
  const int32_t k_sizes[3] = {p->kh, p->kw, depthwise ? p->oc : p->ic / p->groups};
  const int64_t k = product(3, k_sizes);
  if (k < 0 || k > INT32_MAX) {
    c->ok = 0;
    return;
  }
  take(c, q8 ? p->x_dtype : f32, image(p->n, p->ih, p->iw, p->ic, p->x_pitch), 0);
  take(c, p->weight_dtype,
       depthwise ? k : packed(p->groups, p->oc / p->groups, (int32_t)k, p->pack_n, p->pack_k), 0);
  if (q8) take(c, f32, p->oc, 0);
  if (p->flags & XRT_HAS_BIAS) take(c, q8 ? XRT_LITE_I32 : f32, p->oc, 0);
  if (p->flags & XRT_HAS_RESIDUAL)
    take(c, q8 ? p->r_dtype : f32, image(p->n, p->oh, p->ow, p->oc, p->r_pitch), 0);
  take(c, q8 ? p->y_dtype : f32, image(p->n, p->oh, p->ow, p->oc, p->y_pitch), 1);
}

static void check_gemm(cursor* c, const xrt_k_gemm* p, int q8) {
  const int32_t f32 = XRT_LITE_F32;
  if (p->m < 1 || p->n < 1 || p->k < 1 ||
      !epilogue(p->flags, p->activation, q8, p->x_dtype, p->y_dtype, p->r_dtype) ||
      (q8 && (p->weight_dtype != XRT_LITE_I8 || p->pack_n < 1 || !zero_ok(p->x_zero) ||
              !zero_ok(p->y_zero) || !zero_ok(p->r_zero))) ||
      (!q8 && p->weight_dtype != XRT_LITE_F32 &&
       !(p->weight_dtype == XRT_LITE_F16 && p->pack_n > 0)) ||
      product(4, p->batch) < 0) {
    c->ok = 0;
    return;
  }
  const int32_t dims_a[6] = {p->batch[0], p->batch[1], p->batch[2], p->batch[3], p->m, p->k};
  const int32_t dims_b[6] = {p->batch[0], p->batch[1], p->batch[2], p->batch[3], p->k, p->n};
  const int32_t dims_y[6] = {p->batch[0], p->batch[1], p->batch[2], p->batch[3], p->m, p->n};
  const int32_t at[6] = {p->a_batch[0], p->a_batch[1], p->a_batch[2],
                         p->a_batch[3], p->a_row,      p->a_col};
  const int32_t bt[6] = {p->b_batch[0], p->b_batch[1], p->b_batch[2],
                         p->b_batch[3], p->b_row,      p->b_col};
  const int32_t yt[6] = {p->y_batch[0], p->y_batch[1], p->y_batch[2], p->y_batch[3], p->y_row, 1};
  take(c, q8 ? p->x_dtype : f32, extent(6, dims_a, at, 0), 0);
  if (p->pack_n == 0) {
    take(c, f32, extent(6, dims_b, bt, 0), 0);
  } else {
    const int64_t batches = extent(4, p->batch, p->b_batch, 0);
    const int64_t one = packed(1, p->n, p->k, p->pack_n, p->pack_k);
    take(c, p->weight_dtype, batches < 1 || one < 1 ? -1 : batches - 1 + one, 0);
  }
  if (q8) take(c, f32, p->n, 0);
  if (p->flags & XRT_HAS_BIAS) take(c, q8 ? XRT_LITE_I32 : f32, p->n, 0);
  const int64_t y = extent(6, dims_y, yt, 0);
  if (p->flags & XRT_HAS_RESIDUAL) take(c, q8 ? p->r_dtype : f32, y, 0);
  take(c, q8 ? p->y_dtype : f32, y, 1);
}

static void check_pool(cursor* c, const xrt_k_pool* p) {
  if (!window(p->ih, p->oh, p->kh, p->stride_h, p->dilation_h, p->pad_top) ||
      !window(p->iw, p->ow, p->kw, p->stride_w, p->dilation_w, p->pad_left) || p->kind < 0 ||
      p->kind >= XRT_POOL_COUNT || p->pad_bottom < 0 || p->pad_right < 0 ||
      p->pad_bottom >= 1 << 24 || p->pad_right >= 1 << 24 ||
      (p->dtype != XRT_LITE_F32 && !(is_q8(p->dtype) && p->kind == XRT_POOL_MAX))) {
    c->ok = 0;
    return;
  }
  take(c, p->dtype, image(p->n, p->ih, p->iw, p->c, p->x_pitch), 0);
  take(c, p->dtype, image(p->n, p->oh, p->ow, p->c, p->y_pitch), 1);
}

static int ew_dtype_ok(int32_t d) {
  return d == XRT_LITE_F32 || d == XRT_LITE_U8 || d == XRT_LITE_I8 || d == XRT_LITE_I32 ||
         d == XRT_LITE_I64 || d == XRT_LITE_BOOL || d == XRT_LITE_F16;
}

static void check_ew(cursor* c, const xrt_k_ew* p, uint32_t words) {
  const uint32_t head = sizeof(xrt_k_ew) / 4, each = sizeof(xrt_ew_input) / 4;
  c->ok = 0;
  if (p->rank < 0 || p->rank > XRT_EW_MAX_RANK || p->inputs < 0 || p->inputs > XRT_EW_MAX_INPUTS ||
      p->code_words < 0 || p->code_words > 256 || (p->domain != 0 && p->domain != 1) ||
      p->result < 0 || p->result >= XRT_EW_REGISTERS || !ew_dtype_ok(p->y_dtype) ||
      words != head + each * (uint32_t)p->inputs + (uint32_t)p->code_words)
    return;
  const int64_t count = product(XRT_EW_MAX_RANK, p->dims);
  const xrt_ew_input* in = (const xrt_ew_input*)(p + 1);
  const uint32_t* code = (const uint32_t*)(in + p->inputs);
  uint32_t written = (1u << p->inputs) - 1;
  for (int32_t i = 0; i < p->code_words; ++i) {
    const uint32_t w = code[i], op = w & 255, d = (w >> 8) & 255, a = (w >> 16) & 255, b = w >> 24;
    if (op >= XRT_EW_OP_COUNT || d >= XRT_EW_REGISTERS || a >= XRT_EW_REGISTERS ||
        b >= XRT_EW_REGISTERS)
      return;
    if (p->domain == 1 && (op == XRT_EW_POW || op >= XRT_EW_SQRT)) return;
    const uint32_t all = written;
    if (op == XRT_EW_CONST) {
      if (++i >= p->code_words) return;
    } else {
      if (!((all >> a) & 1)) return;
      if (op <= XRT_EW_SELECT && !((all >> b) & 1)) return;
      if (op == XRT_EW_SELECT && !((all >> d) & 1)) return;
    }
    written |= 1u << d;
  }
  if (!((written >> p->result) & 1)) return;
  c->ok = 1;
  for (int32_t i = 0; i < p->inputs; ++i) {
    if (!ew_dtype_ok(in[i].dtype)) c->ok = 0;
    take(c, in[i].dtype, extent(XRT_EW_MAX_RANK, p->dims, in[i].strides, 0), 0);
  }
  take(c, p->y_dtype, count, 1);
}

static void check_copy(cursor* c, const xrt_k_copy* p) {
  const int32_t e = p->element_bytes;
  if (p->rank < 0 || p->rank > XRT_LITE_MAX_RANK || (e != 1 && e != 2 && e != 4 && e != 8)) {
    c->ok = 0;
    return;
  }
  const xrt_file_tensor* x = take(c, 0, extent(p->rank, p->dims, p->x_strides, p->x_offset), 0);
  const xrt_file_tensor* y = take(c, 0, extent(p->rank, p->dims, p->y_strides, p->y_offset), 1);
  if (!x || !y || dtype_bytes((int32_t)x->dtype) != e || dtype_bytes((int32_t)y->dtype) != e)
    c->ok = 0;
}

static void check_fill(cursor* c, const xrt_k_fill* p) {
  const int32_t e = p->element_bytes;
  const xrt_file_tensor* y = take(c, 0, p->count, 1);
  if (!y || dtype_bytes((int32_t)y->dtype) != e) c->ok = 0;
}

static void check_reduce(cursor* c, const xrt_k_reduce* p) {
  const int32_t dims[8] = {p->kept[0],    p->kept[1],    p->kept[2],    p->kept[3],
                           p->reduced[0], p->reduced[1], p->reduced[2], p->reduced[3]};
  const int32_t strides[8] = {p->kept_strides[0],    p->kept_strides[1],    p->kept_strides[2],
                              p->kept_strides[3],    p->reduced_strides[0], p->reduced_strides[1],
                              p->reduced_strides[2], p->reduced_strides[3]};
  if (p->kind < 0 || p->kind >= XRT_REDUCE_COUNT || product(4, p->reduced) < 0) c->ok = 0;
  take(c, XRT_LITE_F32, extent(8, dims, strides, 0), 0);
  take(c, XRT_LITE_F32, product(4, p->kept), 1);
}

static void check_softmax(cursor* c, const xrt_k_softmax* p) {
  const int32_t sizes[3] = {p->outer, p->size, p->inner};
  take(c, XRT_LITE_F32, product(3, sizes), 0);
  take(c, XRT_LITE_F32, product(3, sizes), 1);
}

static void check_norm(cursor* c, const xrt_k_norm* p) {
  const int32_t sizes[2] = {p->outer, p->size};
  take(c, XRT_LITE_F32, product(2, sizes), 0);
  take(c, XRT_LITE_F32, p->size, 0);
  if (p->flags & XRT_HAS_BIAS) take(c, XRT_LITE_F32, p->size, 0);
  take(c, XRT_LITE_F32, product(2, sizes), 1);
}

static void check_gather(cursor* c, const xrt_k_gather* p) {
  const int32_t x_sizes[3] = {p->outer, p->size, p->inner};
  const int32_t y_sizes[3] = {p->outer, p->count, p->inner};
  const xrt_file_tensor* x = take(c, 0, product(3, x_sizes), 0);
  if (p->index_dtype != XRT_LITE_I32 && p->index_dtype != XRT_LITE_I64) c->ok = 0;
  take(c, p->index_dtype, p->count, 0);
  const xrt_file_tensor* y = take(c, 0, product(3, y_sizes), 1);
  if (!x || !y || dtype_bytes((int32_t)x->dtype) != p->element_bytes ||
      dtype_bytes((int32_t)y->dtype) != p->element_bytes)
    c->ok = 0;
}

static void check_resize(cursor* c, const xrt_k_resize* p) {
  if (p->ih < 1 || p->iw < 1 || p->oh < 1 || p->ow < 1 || !(p->scale_h > 0) || !(p->scale_w > 0))
    c->ok = 0;
  take(c, XRT_LITE_F32, image(p->n, p->ih, p->iw, p->c, p->c), 0);
  take(c, XRT_LITE_F32, image(p->n, p->oh, p->ow, p->c, p->c), 1);
}

static void check_arg(cursor* c, const xrt_k_arg* p) {
  const int32_t x_sizes[3] = {p->outer, p->size, p->inner};
  const int32_t y_sizes[2] = {p->outer, p->inner};
  take(c, XRT_LITE_F32, product(3, x_sizes), 0);
  take(c, XRT_LITE_I64, product(2, y_sizes), 1);
}

static void check_model(cursor* c, const xrt_k_model* p) {
  if (p->inputs < 0 || p->outputs < 1 || p->inputs > XRT_MAX_OPERANDS ||
      p->outputs > XRT_MAX_OPERANDS)
    c->ok = 0;
  for (int32_t i = 0; c->ok && i < p->inputs + p->outputs; ++i) take(c, 0, 1, i >= p->inputs);
}

xrt_lite_status xrt_check_op(const xrt_view* view, const xrt_file_op* op) {
  static const uint8_t words[XRT_K_COUNT] = {0,
                                             sizeof(xrt_k_conv) / 4,
                                             sizeof(xrt_k_conv) / 4,
                                             sizeof(xrt_k_conv) / 4,
                                             sizeof(xrt_k_conv) / 4,
                                             sizeof(xrt_k_gemm) / 4,
                                             sizeof(xrt_k_gemm) / 4,
                                             sizeof(xrt_k_pool) / 4,
                                             sizeof(xrt_k_ew) / 4,
                                             sizeof(xrt_k_copy) / 4,
                                             sizeof(xrt_k_fill) / 4,
                                             sizeof(xrt_k_reduce) / 4,
                                             sizeof(xrt_k_softmax) / 4,
                                             sizeof(xrt_k_norm) / 4,
                                             sizeof(xrt_k_gather) / 4,
                                             sizeof(xrt_k_resize) / 4,
                                             sizeof(xrt_k_arg) / 4,
                                             sizeof(xrt_k_model) / 4};
  if (op->kernel == 0 || op->kernel >= XRT_K_COUNT) return XRT_LITE_INVALID_FILE;
  const uint32_t want = words[op->kernel];
  if (op->kernel == XRT_K_EW ? op->param_words < want : op->param_words != want)
    return XRT_LITE_INVALID_FILE;
  cursor c = {view, op, 0, 1};
  const void* p = view->words + op->params;
  switch (op->kernel) {
    case XRT_K_CONV_F32:
    case XRT_K_CONV_Q8:
      check_conv(&c, (const xrt_k_conv*)p, op->kernel == XRT_K_CONV_Q8, 0);
      break;
    case XRT_K_DWCONV_F32:
    case XRT_K_DWCONV_Q8:
      check_conv(&c, (const xrt_k_conv*)p, op->kernel == XRT_K_DWCONV_Q8, 1);
      break;
    case XRT_K_GEMM_F32:
    case XRT_K_GEMM_Q8:
      check_gemm(&c, (const xrt_k_gemm*)p, op->kernel == XRT_K_GEMM_Q8);
      break;
    case XRT_K_POOL:
      check_pool(&c, (const xrt_k_pool*)p);
      break;
    case XRT_K_EW:
      check_ew(&c, (const xrt_k_ew*)p, op->param_words);
      break;
    case XRT_K_COPY:
      check_copy(&c, (const xrt_k_copy*)p);
      break;
    case XRT_K_FILL:
      check_fill(&c, (const xrt_k_fill*)p);
      break;
    case XRT_K_REDUCE:
      check_reduce(&c, (const xrt_k_reduce*)p);
      break;
    case XRT_K_SOFTMAX:
      check_softmax(&c, (const xrt_k_softmax*)p);
      break;
    case XRT_K_NORM:
      check_norm(&c, (const xrt_k_norm*)p);
      break;
    case XRT_K_GATHER:
      check_gather(&c, (const xrt_k_gather*)p);
      break;
    case XRT_K_RESIZE:
      check_resize(&c, (const xrt_k_resize*)p);
      break;
    case XRT_K_MODEL:
      check_model(&c, (const xrt_k_model*)p);
      break;
    default:
      check_arg(&c, (const xrt_k_arg*)p);
      break;
  }
  return c.ok && c.next == op->operand_count ? XRT_LITE_OK : XRT_LITE_INVALID_FILE;
}
