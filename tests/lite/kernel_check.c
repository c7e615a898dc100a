/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of one driver against plain loops over their definition (lite/runtime/src/kernel.h):
 * float32 within rounding, int8 exactly. C without an operating system, so that it runs on a bare
 * Cortex-M as on a desktop; test_arm.py and test_mcu.py build and run it. Defined by the build:
 *   DRIVER or TABLE   the function that gives the driver; or an expression that gives its table,
 *                     whose declaration is in HEADER
 *   PACK_N_F32, PACK_K_F32, PACK_N_Q8, PACK_K_Q8   how the driver's compiler target packs
 *   WIDE        sizes beyond the drivers' buffers, which need more memory */
#include <math.h>
#include <string.h>

#include "kernel_math.h"
#include "print.h"
#include "xrt_lite_hal.h"
#ifdef HEADER
#include HEADER
#endif

#ifdef WIDE
#define LONGEST 1100
#define BYTES (1 << 22)
#else
#define LONGEST 300
#define BYTES 65536
#endif

static uint32_t state = 7;

static uint32_t bits(void) {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

static int pick(int low, int high) { return low + (int)(bits() % (uint32_t)(high - low + 1)); }

/* Operands one after the other; freed all at once. */
static _Alignas(64) uint8_t memory[BYTES];
static size_t used;
static int too_large;

static void* take(size_t bytes) {
  const size_t at = used;
  used += (bytes + 63) / 64 * 64;
  if (used <= BYTES) return memory + at;
  too_large = 1;
  used = at;
  return memory;
}

static float* floats(int64_t count) {
  float* v = (float*)take((size_t)count * 4);
  for (int64_t i = 0; i < count && !too_large; ++i)
    v[i] = (float)(int32_t)(bits() % 20001) * 0.0001f - 1.0f;
  return v;
}

static uint8_t* bytes(int64_t count) {
  uint8_t* v = (uint8_t*)take((size_t)count);
  for (int64_t i = 0; i < count && !too_large; ++i) v[i] = (uint8_t)bits();
  return v;
}

static int wrong, cases;

static void report(const char* what) {
  print_text(what);
  print_text(": ");
  print_number(cases);
  print_text(" cases, ");
  print_number(wrong);
  print_text(" wrong\n");
}

static const xrt_lite_kernel* table;

/* Tasks in the wrong order: nothing may depend on it. */
static void run_backwards(void* pool, void (*task)(void*, int32_t), void* argument, int32_t count) {
  (void)pool;
  for (int32_t i = count - 1; i >= 0; --i) task(argument, i);
}

static int call(int kernel, const void* params, void** operands) {
  const xrt_lite_threads threads = {run_backwards, NULL, 3};
  const xrt_kernel_call c = {params, operands, NULL, pick(0, 1) ? &threads : NULL};
  if (table[kernel](&c) == XRT_LITE_OK) return 1;
  print_text("a kernel was refused\n");
  ++wrong;
  return 0;
}

/* [group][N][K] to [group][ceil(N / pack_n)][ceil(K / pack_k)][pack_n][pack_k]. */
static void* packed(const void* w, int groups, int n, int k, int pack_n, int pack_k, int size) {
  const int blocks = (n + pack_n - 1) / pack_n, parts = (k + pack_k - 1) / pack_k;
  const size_t count = (size_t)groups * (size_t)blocks * (size_t)parts * (size_t)(pack_n * pack_k);
  uint8_t* to = (uint8_t*)take(count * (size_t)size);
  if (too_large) return to;
  memset(to, 0, count * (size_t)size);
  for (int g = 0; g < groups; ++g)
    for (int c = 0; c < n; ++c)
      for (int i = 0; i < k; ++i) {
        const int64_t at =
            ((((int64_t)g * blocks + c / pack_n) * parts + i / pack_k) * pack_n + c % pack_n) *
                pack_k +
            i % pack_k;
        memcpy(to + at * size, (const uint8_t*)w + (((int64_t)g * n + c) * k + i) * size,
               (size_t)size);
      }
  return to;
}

/* [C][taps] to [taps][C], as depthwise factors lie. */
static void* turned(const void* w, int channels, int taps, int size) {
  uint8_t* to = (uint8_t*)take((size_t)(channels * taps * size));
  for (int c = 0; c < channels && !too_large; ++c)
    for (int t = 0; t < taps; ++t)
      memcpy(to + (t * channels + c) * size, (const uint8_t*)w + (c * taps + t) * size,
             (size_t)size);
  return to;
}

/* The contract's formula, each operation rounded on its own. */
static uint8_t requantized(int32_t sum, float scale, const uint8_t* r, int r_dtype, int r_zero,
                           float r_scale, int clip, float lo, float hi, int y_zero, int y_dtype) {
  volatile float v = (float)sum * scale;
  if (r) {
    volatile float other = (float)(xrt_load_q8(r, 0, r_dtype) - r_zero) * r_scale;
    v = v + other;
  }
  float bounded = v;
  if (clip) bounded = fminf(fmaxf(bounded, lo), hi);
  const int q = (int)rintf(fminf(fmaxf(bounded, -1024.0f), 1024.0f)) + y_zero;
  const int low = y_dtype == XRT_LITE_U8 ? 0 : -128, high = low + 255;
  return (uint8_t)(q < low ? low : q > high ? high : q);
}

static int out(int in, int k, int stride, int dilation, int pad) {
  const int n = (in + 2 * pad - (k - 1) * dilation - 1) / stride + 1;
  return n < 1 ? 1 : n;
}

static int byte_type(void) { return pick(0, 1) ? XRT_LITE_U8 : XRT_LITE_I8; }
static int zero_of(int dtype) { return dtype == XRT_LITE_U8 ? pick(0, 255) : pick(-128, 127); }

static xrt_k_conv random_conv(int q8, int depthwise) {
  xrt_k_conv p;
  memset(&p, 0, sizeof(p));
  p.n = pick(1, 2);
  p.kh = pick(1, 4);
  p.kw = pick(1, 4);
  p.stride_h = pick(1, 2);
  p.stride_w = pick(1, 3);
  p.dilation_h = pick(1, 2);
  p.dilation_w = pick(1, 2);
  p.pad_top = pick(0, 3);
  p.pad_left = pick(0, 3);
  p.ih = pick(1, 9);
  p.iw = pick(1, 11);
  p.oh = out(p.ih, p.kh, p.stride_h, p.dilation_h, p.pad_top);
  p.ow = out(p.iw, p.kw, p.stride_w, p.dilation_w, p.pad_left);
  p.groups = pick(0, 2) == 0 ? pick(2, 3) : 1;
  p.ic = p.groups * (pick(0, 1) ? 4 * pick(1, 9) : pick(1, 35));
  p.oc = p.groups * pick(1, 40);
  if (depthwise) p.groups = p.oc = p.ic = pick(1, 50);
  if (pick(0, 7) == 0 && !depthwise) {
    p.groups = p.kh = p.n = 1;
    p.ic = LONGEST;
    p.oc = pick(1, 20);
    p.oh = out(p.ih, 1, p.stride_h, p.dilation_h, p.pad_top);
  }
  p.x_pitch = p.ic + pick(0, 3);
  p.y_pitch = p.oc + pick(0, 3);
  p.r_pitch = p.oc + pick(0, 3);
  p.pack_n = q8 ? PACK_N_Q8 : PACK_N_F32;
  p.pack_k = q8 ? PACK_K_Q8 : PACK_K_F32;
  p.weight_dtype = q8 ? XRT_LITE_I8 : XRT_LITE_F32;
  p.flags = pick(0, 3);
  p.activation = pick(0, 1);
  p.lo = q8 ? -20.0f : -0.5f;
  p.hi = q8 ? 90.0f : 1.5f;
  p.x_dtype = q8 ? byte_type() : XRT_LITE_F32;
  p.y_dtype = q8 ? byte_type() : XRT_LITE_F32;
  p.r_dtype = q8 ? byte_type() : XRT_LITE_F32;
  p.x_zero = zero_of(p.x_dtype);
  p.y_zero = zero_of(p.y_dtype);
  p.r_zero = zero_of(p.r_dtype);
  p.r_scale = 0.37f;
  return p;
}

typedef struct operands {
  const void *x, *w, *bias, *r;
  const float* scale;
  void* y;
} operands;

/* Compares channel c of one output pixel. */
static void check_conv_at(const xrt_k_conv* p, const operands* o, int q8, int pixel, int c) {
  const int icg = p->ic / p->groups, ocg = p->oc / p->groups;
  const int n = pixel / p->ow / p->oh, oy = pixel / p->ow % p->oh, ox = pixel % p->ow;
  double sum = 0;
  int32_t exact = 0;
  for (int ky = 0; ky < p->kh; ++ky)
    for (int kx = 0; kx < p->kw; ++kx) {
      const int iy = oy * p->stride_h - p->pad_top + ky * p->dilation_h;
      const int ix = ox * p->stride_w - p->pad_left + kx * p->dilation_w;
      if (iy < 0 || iy >= p->ih || ix < 0 || ix >= p->iw) continue;
      const int x = ((n * p->ih + iy) * p->iw + ix) * p->x_pitch + c / ocg * icg;
      const int w = ((c * p->kh + ky) * p->kw + kx) * icg;
      for (int i = 0; i < icg; ++i) {
        if (q8)
          exact +=
              (xrt_load_q8(o->x, x + i, p->x_dtype) - p->x_zero) * ((const int8_t*)o->w)[w + i];
        else
          sum += (double)((const float*)o->x)[x + i] * ((const float*)o->w)[w + i];
      }
    }
  const int r = pixel * p->r_pitch + c, y = pixel * p->y_pitch + c;
  if (q8) {
    if (o->bias) exact += ((const int32_t*)o->bias)[c];
    const uint8_t expected =
        requantized(exact, o->scale[c], o->r ? (const uint8_t*)o->r + r : NULL, p->r_dtype,
                    p->r_zero, p->r_scale, p->activation, p->lo, p->hi, p->y_zero, p->y_dtype);
    wrong += ((const uint8_t*)o->y)[y] != expected;
    return;
  }
  if (o->bias) sum += ((const float*)o->bias)[c];
  if (o->r) sum += ((const float*)o->r)[r];
  if (p->activation) sum = fmin(fmax(sum, p->lo), p->hi);
  const float error = (float)fabs(sum - ((const float*)o->y)[y]);
  const int k = p->kh * p->kw * icg;
  if (!(error < 1e-6f * (float)(20 + k))) ++wrong;
}

static void check_conv(int q8, int depthwise, int half) {
  xrt_k_conv p = random_conv(q8, depthwise);
  const int k = p.kh * p.kw * p.ic / p.groups, pixels = p.n * p.oh * p.ow;
  const int64_t x_count = (int64_t)p.n * p.ih * p.iw * p.x_pitch;
  operands o = {0};
  used = 0;
  too_large = 0;
  o.x = q8 ? (void*)bytes(x_count) : (void*)floats(x_count);
  float* wf = q8 ? NULL : floats((int64_t)p.oc * k);
  o.w = q8 ? (void*)bytes((int64_t)p.oc * k) : (void*)wf;
  float* scale = floats(p.oc);
  int32_t* bias = (int32_t*)take((size_t)p.oc * 4);
  const float* bias_f = floats(p.oc);
  if (too_large) return;
  for (int c = 0; c < p.oc; ++c) {
    scale[c] = 0.002f * (float)pick(1, 9);
    bias[c] = pick(-5000, 5000);
  }
  o.scale = scale;
  if (p.flags & XRT_HAS_BIAS) o.bias = q8 ? (const void*)bias : (const void*)bias_f;
  if (p.flags & XRT_HAS_RESIDUAL)
    o.r =
        q8 ? (void*)bytes((int64_t)pixels * p.r_pitch) : (void*)floats((int64_t)pixels * p.r_pitch);
  const size_t y_bytes = (size_t)pixels * (size_t)p.y_pitch * (q8 ? 1 : 4);
  o.y = take(y_bytes);
  void* factors;
  if (half) {
    p.weight_dtype = XRT_LITE_F16;
    for (int i = 0; i < p.oc * k; ++i) wf[i] = xrt_half_to_float(xrt_float_to_half(wf[i]));
  }
  factors = depthwise ? turned(o.w, p.oc, k, q8 ? 1 : 4)
                      : packed(o.w, p.groups, p.oc / p.groups, k, p.pack_n, p.pack_k, q8 ? 1 : 4);
  if (too_large) return;
  if (half) {
    const size_t count = (size_t)(memory + used - (uint8_t*)factors) / 4;
    for (size_t i = 0; i < count; ++i)
      ((uint16_t*)factors)[i] = xrt_float_to_half(((const float*)factors)[i]);
  }
  memset(o.y, 77, y_bytes);
  void* list[8] = {(void*)o.x, factors};
  int next = 2;
  if (q8) list[next++] = scale;
  if (o.bias) list[next++] = (void*)o.bias;
  if (o.r) list[next++] = (void*)o.r;
  list[next] = o.y;
  ++cases;
  if (!call(depthwise ? (q8 ? XRT_K_DWCONV_Q8 : XRT_K_DWCONV_F32)
                      : (q8 ? XRT_K_CONV_Q8 : XRT_K_CONV_F32),
            &p, list))
    return;
  /* Every pixel and channel of small images, some of large ones. */
  const int64_t work = (int64_t)pixels * p.oc * k;
  const int step = work > 200000 ? 1 + pick(2, 5) : 1;
  for (int at = 0; at < pixels * p.oc; at += step) check_conv_at(&p, &o, q8, at / p.oc, at % p.oc);
  for (int i = 0; i < pixels; ++i) /* what lies between pixels is not the kernel's */
    for (int c = p.oc * (q8 ? 1 : 4); c < p.y_pitch * (q8 ? 1 : 4); ++c)
      wrong +=
          ((const uint8_t*)o.y)[(size_t)i * (size_t)p.y_pitch * (q8 ? 1 : 4) + (size_t)c] != 77;
}

/* The second factor: packed (kind 0), packed in half precision (3), or in memory by rows (1) or
 * by columns (2). */
static void check_gemm_f32(int kind) {
  const int constant = kind == 0 || kind == 3;
  xrt_k_gemm p;
  memset(&p, 0, sizeof(p));
  p.m = pick(1, LONGEST / 10);
  p.n = pick(1, 50);
  p.k = pick(1, LONGEST / 5);
  for (int i = 0; i < 4; ++i) p.batch[i] = constant ? 1 : i < 2 ? pick(1, 2) : 1;
  p.flags = pick(0, 3);
  p.activation = pick(0, 1);
  p.lo = -2.0f;
  p.hi = 3.0f;
  p.alpha = 0.5f;
  p.weight_dtype = kind == 3 ? XRT_LITE_F16 : XRT_LITE_F32;
  p.x_dtype = p.y_dtype = p.r_dtype = XRT_LITE_F32;
  const int columns = pick(0, 2) == 0;
  p.a_row = columns ? 1 : p.k + 2;
  p.a_col = columns ? p.m + 1 : 1;
  p.b_row = kind == 2 ? 1 : p.n + 1;
  p.b_col = kind == 2 ? p.k + 3 : 1;
  p.y_row = p.n + 1;
  p.pack_n = constant ? PACK_N_F32 : 0;
  p.pack_k = constant ? PACK_K_F32 : 0;
  int a_size = (p.m + 3) * (p.k + 3), b_size = (p.n + 3) * (p.k + 4), y_size = p.m * p.y_row;
  for (int i = 3; i >= 0; --i) {
    p.a_batch[i] = a_size;
    p.b_batch[i] = i == 1 ? 0 : b_size; /* broadcast */
    p.y_batch[i] = y_size;
    a_size *= p.batch[i];
    b_size *= p.batch[i];
    y_size *= p.batch[i];
  }
  used = 0;
  too_large = 0;
  const float *a = floats(a_size), *bias = floats(p.n), *r = floats(y_size);
  float *b = floats(b_size), *y = floats(y_size);
  void* factors = b;
  if (constant) {
    float* w = (float*)take((size_t)(p.n * p.k) * 4);
    if (too_large) return;
    for (int n = 0; n < p.n; ++n)
      for (int k = 0; k < p.k; ++k) {
        float* v = &b[k * p.b_row + n * p.b_col];
        if (kind == 3) *v = xrt_half_to_float(xrt_float_to_half(*v));
        w[n * p.k + k] = *v;
      }
    factors = packed(w, 1, p.n, p.k, p.pack_n, p.pack_k, 4);
    if (kind == 3 && !too_large) {
      const size_t count = (size_t)(memory + used - (uint8_t*)factors) / 4;
      for (size_t i = 0; i < count; ++i)
        ((uint16_t*)factors)[i] = xrt_float_to_half(((const float*)factors)[i]);
    }
  }
  if (too_large) return;
  void* list[6] = {(void*)a, factors};
  int next = 2;
  if (p.flags & XRT_HAS_BIAS) list[next++] = (void*)bias;
  if (p.flags & XRT_HAS_RESIDUAL) list[next++] = (void*)r;
  list[next] = y;
  ++cases;
  if (!call(XRT_K_GEMM_F32, &p, list)) return;
  for (int i = 0; i < p.batch[0] * p.batch[1]; ++i) {
    const int b0 = i / p.batch[1], b1 = i % p.batch[1];
    const int a_at = b0 * p.a_batch[0] + b1 * p.a_batch[1];
    const int b_at = b0 * p.b_batch[0] + b1 * p.b_batch[1];
    const int y_at = b0 * p.y_batch[0] + b1 * p.y_batch[1];
    for (int m = 0; m < p.m; ++m)
      for (int n = 0; n < p.n; ++n) {
        double sum = 0;
        for (int k = 0; k < p.k; ++k)
          sum += (double)a[a_at + m * p.a_row + k * p.a_col] * b[b_at + k * p.b_row + n * p.b_col];
        sum *= p.alpha;
        const int at = y_at + m * p.y_row + n;
        if (p.flags & XRT_HAS_BIAS) sum += bias[n];
        if (p.flags & XRT_HAS_RESIDUAL) sum += r[at];
        if (p.activation) sum = fmin(fmax(sum, p.lo), p.hi);
        const float error = (float)fabs(sum - y[at]);
        if (!(error < 1e-6f * (float)(20 + p.k))) ++wrong;
      }
  }
}

static void check_gemm_q8(void) {
  xrt_k_gemm p;
  memset(&p, 0, sizeof(p));
  p.m = pick(1, 20);
  p.n = pick(1, 50);
  p.k = pick(1, LONGEST);
  for (int i = 0; i < 4; ++i) p.batch[i] = 1;
  p.flags = pick(0, 3);
  p.activation = pick(0, 1);
  p.lo = -20.0f;
  p.hi = 90.0f;
  const int columns = pick(0, 3) == 0;
  p.a_row = columns ? 1 : p.k + pick(0, 2);
  p.a_col = columns ? p.m + 1 : 1;
  p.y_row = p.n + pick(0, 2);
  p.pack_n = PACK_N_Q8;
  p.pack_k = PACK_K_Q8;
  p.alpha = 1.0f;
  p.weight_dtype = XRT_LITE_I8;
  p.x_dtype = byte_type();
  p.y_dtype = byte_type();
  p.r_dtype = byte_type();
  p.x_zero = zero_of(p.x_dtype);
  p.y_zero = zero_of(p.y_dtype);
  p.r_zero = zero_of(p.r_dtype);
  p.r_scale = 0.37f;
  used = 0;
  too_large = 0;
  const uint8_t* a = bytes((int64_t)(p.m + 2) * (p.k + 2));
  const int8_t* w = (const int8_t*)bytes((int64_t)p.n * p.k);
  const uint8_t* r = bytes((int64_t)p.m * p.y_row);
  uint8_t* y = bytes((int64_t)p.m * p.y_row);
  float* scale = floats(p.n);
  int32_t* bias = (int32_t*)take((size_t)p.n * 4);
  if (too_large) return;
  for (int n = 0; n < p.n; ++n) {
    scale[n] = 0.0007f * (float)pick(1, 9);
    bias[n] = pick(-5000, 5000);
  }
  void* factors = packed(w, 1, p.n, p.k, p.pack_n, p.pack_k, 1);
  if (too_large) return;
  void* list[6] = {(void*)a, factors, scale};
  int next = 3;
  if (p.flags & XRT_HAS_BIAS) list[next++] = bias;
  if (p.flags & XRT_HAS_RESIDUAL) list[next++] = (void*)r;
  list[next] = y;
  ++cases;
  if (!call(XRT_K_GEMM_Q8, &p, list)) return;
  for (int m = 0; m < p.m; ++m)
    for (int n = 0; n < p.n; ++n) {
      int32_t sum = (p.flags & XRT_HAS_BIAS) ? bias[n] : 0;
      for (int k = 0; k < p.k; ++k)
        sum += (xrt_load_q8(a, (int64_t)m * p.a_row + (int64_t)k * p.a_col, p.x_dtype) - p.x_zero) *
               w[n * p.k + k];
      const int at = m * p.y_row + n;
      wrong += y[at] != requantized(sum, scale[n], (p.flags & XRT_HAS_RESIDUAL) ? r + at : NULL,
                                    p.r_dtype, p.r_zero, p.r_scale, p.activation, p.lo, p.hi,
                                    p.y_zero, p.y_dtype);
    }
}

static void check_pool(int dtype) {
  xrt_k_pool p;
  memset(&p, 0, sizeof(p));
  p.n = pick(1, 2);
  p.ih = pick(1, 9);
  p.iw = pick(1, 9);
  p.c = pick(1, 60);
  p.kh = pick(1, 3);
  p.kw = pick(1, 3);
  p.stride_h = p.stride_w = pick(1, 2);
  p.dilation_h = p.dilation_w = 1;
  p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = pick(0, 1);
  p.oh = out(p.ih, p.kh, p.stride_h, 1, p.pad_top);
  p.ow = out(p.iw, p.kw, p.stride_w, 1, p.pad_left);
  p.x_pitch = p.c + pick(0, 2);
  p.y_pitch = p.c + pick(0, 2);
  p.count_include_pad = pick(0, 1);
  p.dtype = dtype;
  p.kind = dtype == XRT_LITE_F32 ? pick(0, 1) : XRT_POOL_MAX;
  const int is_float = dtype == XRT_LITE_F32;
  const int64_t count = (int64_t)p.n * p.ih * p.iw * p.x_pitch;
  const int64_t results = (int64_t)p.n * p.oh * p.ow * p.y_pitch;
  used = 0;
  too_large = 0;
  void* x = is_float ? (void*)floats(count) : (void*)bytes(count);
  void* y = is_float ? (void*)floats(results) : (void*)bytes(results);
  if (too_large) return;
  void* list[2] = {x, y};
  ++cases;
  if (!call(XRT_K_POOL, &p, list)) return;
  for (int i = 0; i < p.n * p.oh * p.ow; ++i) {
    for (int c = 0; c < p.c; ++c) {
      double best = -1e30, sum = 0;
      int inside = 0, padded = 0;
      for (int ky = 0; ky < p.kh; ++ky)
        for (int kx = 0; kx < p.kw; ++kx) {
          const int iy = i / p.ow % p.oh * p.stride_h - p.pad_top + ky;
          const int ix = i % p.ow * p.stride_w - p.pad_left + kx;
          if (iy < p.ih + p.pad_bottom && ix < p.iw + p.pad_right) ++padded;
          if (iy < 0 || iy >= p.ih || ix < 0 || ix >= p.iw) continue;
          const int at = ((i / p.ow / p.oh * p.ih + iy) * p.iw + ix) * p.x_pitch + c;
          const double v = is_float ? ((const float*)x)[at] : xrt_load_q8(x, at, dtype);
          best = v > best ? v : best;
          sum += v;
          ++inside;
        }
      if (inside == 0) continue;
      const int at = i * p.y_pitch + c;
      const double expected =
          p.kind == XRT_POOL_MAX ? best : sum / (p.count_include_pad ? padded : inside);
      const double is = is_float ? ((const float*)y)[at] : xrt_load_q8(y, at, dtype);
      wrong += !(fabs(is - expected) < 1e-5);
    }
  }
}

static int all_wrong;

/* Ends one kind of kernel. */
static void end(const char* what, int most) {
  report(what);
  if (cases * 2 < most) {
    print_text("too few cases fit into memory\n");
    ++wrong;
  }
  all_wrong += wrong;
  wrong = cases = 0;
}

#define CHECK(WHAT, COUNT, STATEMENT)          \
  for (int i = 0; i < (COUNT); ++i) STATEMENT; \
  end(WHAT, COUNT);

int main(void) {
#ifdef TABLE
  table = TABLE;
#else
  int32_t count = 0;
  table = DRIVER()->kernels(NULL, &count);
#endif
  if (table == NULL) {
    print_text("this processor lacks the instructions\n");
    return 2;
  }
  CHECK("conv f32", 40, check_conv(0, 0, 0))
  CHECK("conv f32, half factors", 15, check_conv(0, 0, 1))
  CHECK("depthwise f32", 40, check_conv(0, 1, i % 4 == 0))
  CHECK("conv int8", 60, check_conv(1, 0, 0))
  CHECK("depthwise int8", 60, check_conv(1, 1, 0))
  CHECK("gemm f32", 48, check_gemm_f32(i % 4))
  CHECK("gemm int8", 40, check_gemm_q8())
  CHECK("pool", 60, check_pool(i % 3 == 0 ? XRT_LITE_F32 : i % 3 == 1 ? XRT_LITE_U8 : XRT_LITE_I8))
  print_text(all_wrong == 0 ? "all right\n" : "wrong\n");
  return all_wrong != 0;
}
