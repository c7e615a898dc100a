// SPDX-License-Identifier: Apache-2.0
// From ops to kernels: sums of products, and how they are cut into tiles.
#include <algorithm>
#include <initializer_list>

#include "targets/cuda_writer.h"

namespace xrt::lite {
namespace cuda {
namespace {

constexpr int kTerms = 16;        // of a tile, at a time
constexpr int kProcessors = 132;  // blocks that a device runs at once, about

template <typename Params>
void epilogue(Fields& f, const Params& p, bool quantized, float alpha) {
  const bool bias = (p.flags & XRT_HAS_BIAS) != 0, residual = (p.flags & XRT_HAS_RESIDUAL) != 0;
  f.number("bias", bias);
  f.number("residual", residual);
  f.number("clips", p.activation == XRT_ACT_CLIP);
  f.real("lo", p.lo);
  f.real("hi", p.hi);
  f.real("alpha", alpha);
  f.number("y", 2 + quantized + bias + residual);
  f.type("W", p.weight_dtype == XRT_LITE_F16 ? "u16" : "float");
  f.number("x_signed", !quantized || p.x_dtype == XRT_LITE_I8);
  f.number("x_zero", quantized ? p.x_zero : 0);
  if (!quantized) return;
  f.type("X", p.x_dtype == XRT_LITE_I8 ? "i8" : "u8");
  f.type("R", p.r_dtype == XRT_LITE_I8 ? "i8" : "u8");
  f.number("y_signed", p.y_dtype == XRT_LITE_I8);
  f.number("y_zero", p.y_zero), f.number("r_zero", p.r_zero);
  f.real("r_scale", p.r_scale);
}

// Whether four outputs of a row, and of the residual, are one load or store.
bool by_fours(bool quantized, const Alignment& at, std::initializer_list<std::int64_t> strides) {
  const int needed = quantized ? 4 : 16;
  return at.y >= needed && at.residual >= needed &&
         std::all_of(strides.begin(), strides.end(), [](std::int64_t s) { return s % 4 == 0; });
}

// The largest power of two, up to 16, of elements that lie side by side and aligned as one load (of
// up to 16 bytes) wherever the left side is read: `runs` are its strides and how long its rows are.
std::int64_t together(bool quantized, const Alignment& at,
                      std::initializer_list<std::int64_t> runs) {
  std::int64_t result = quantized ? at.x : at.x == 16 ? 16 : 1;
  for (const std::int64_t s : runs) {
    while (s % result != 0) result /= 2;
  }
  return result;
}

}  // namespace

void Writer::sums(Fields& f, const char* left, std::int64_t outer, std::int64_t m, std::int64_t n,
                  std::int64_t k, int pack) {
  const CudaTile t = choose_cuda_tile(outer, m, n, k, pack);
  to_.overlaps = false;
  f.number("m", m), f.number("ng", n), f.number("k", k), f.number("outer", outer);
  f.number("bm", t.bm), f.number("bn", t.bn), f.number("tm", t.tm), f.number("bk", kTerms);
  f.number("splits", t.splits), f.number("pack", pack), f.number("pack_or_one", std::max(pack, 1));
  launch(f, fmt::format("sums<{{P}}, {}<{{P}}>>", left), ceil_div(m, t.bm), ceil_div(n, t.bn),
         outer * t.splits, t.bm / t.tm * (t.bn / 4));
  if (t.splits > 1) elements(f, "finish<{P}>", outer * m * n);
}

void Writer::image(Fields& f, const xrt_k_conv& p) {
  f.number("ih", p.ih), f.number("iw", p.iw), f.number("oh", p.oh), f.number("ow", p.ow);
  f.number("kh", p.kh), f.number("kw", p.kw), f.number("oc", p.oc);
  f.number("stride_h", p.stride_h), f.number("stride_w", p.stride_w);
  f.number("dilation_h", p.dilation_h), f.number("dilation_w", p.dilation_w);
  f.number("pad_top", p.pad_top), f.number("pad_left", p.pad_left);
  f.number("x_pitch", p.x_pitch);
  f.line(fmt::format("static __device__ inline size_t y_at(int row) {{ return (size_t)row * {}; }}",
                     p.y_pitch));
  f.line(fmt::format("static __device__ inline size_t r_at(int row) {{ return (size_t)row * {}; }}",
                     p.r_pitch));
}

void Writer::conv(const xrt_k_conv& p, bool quantized, const Alignment& at) {
  Fields f;
  const std::int64_t icg = p.ic / p.groups, ocg = p.oc / p.groups;
  const std::int64_t m = std::int64_t{p.n} * p.oh * p.ow, k = icg * p.kh * p.kw;
  image(f, p);
  epilogue(f, p, quantized, 1);
  f.number("icg", icg), f.number("batched", 0);
  f.number("b_row", 0), f.number("b_col", 0);
  f.number("wide", by_fours(quantized, at, {ocg, p.y_pitch, p.r_pitch}));
  const std::int64_t side_by_side = together(quantized, at, {icg, p.x_pitch});
  f.number("vector", side_by_side % 4 == 0);
  f.line("static __device__ inline i64 a_start(int) { return 0; }");
  f.line("static __device__ inline i64 b_start(int) { return 0; }");
  if (on_tensor_cores(p.weight_dtype, p.pack_k)) {
    sums_mma(f, "ConvLeft", p.weight_dtype, p.groups, m, ocg, k, side_by_side);
  } else {
    sums(f, "ConvLeft", p.groups, m, ocg, k, p.pack_n);
  }
}

void Writer::depthwise(const xrt_k_conv& p, bool quantized, const Alignment& at) {
  Fields f;
  image(f, p);
  epilogue(f, p, quantized, 1);
  const std::int64_t m = std::int64_t{p.n} * p.oh * p.ow;
  f.number("m", m);
  const bool wide =
      quantized && at.x >= 4 && by_fours(true, at, {p.oc, p.x_pitch, p.y_pitch, p.r_pitch});
  f.number("wide", wide), f.number("step", wide ? 4 : 1);
  elements(f, quantized ? "depthwise_q8<{P}>" : "depthwise<{P}>", m * p.oc / (wide ? 4 : 1));
}

void Writer::gemm(const xrt_k_gemm& p, bool quantized, const Alignment& at) {
  Fields f;
  epilogue(f, p, quantized, p.alpha);
  const auto start = [&](const char* name, const std::int32_t* strides) {
    std::string text = fmt::format("static __device__ inline i64 {}(int i) {{ return ", name);
    std::int64_t inner = 1;
    for (int d = 3; d >= 0; --d) {
      if (p.batch[d] > 1) {
        text += fmt::format("(i64)(i / {} % {}) * {} + ", inner, p.batch[d], strides[d]);
      }
      inner *= p.batch[d];
    }
    f.line(text + "0; }");
  };
  start("a_start", p.a_batch);
  start("b_start", p.b_batch);
  start("y_start", p.y_batch);
  f.line(
      fmt::format("static __device__ inline size_t y_at(int row) {{ return (size_t)y_start(row / "
                  "{0}) + (size_t)(row % {0}) * {1}; }}",
                  p.m, p.y_row));
  f.line("static __device__ inline size_t r_at(int row) { return y_at(row); }");
  f.number("a_row", p.a_row), f.number("a_col", p.a_col);
  f.number("b_row", p.b_row), f.number("b_col", p.b_col), f.number("batched", 1);
  std::int64_t outer = 1;
  for (const int b : p.batch) outer *= b;
  const auto& ab = p.a_batch;
  const auto& yb = p.y_batch;
  f.number("wide", by_fours(quantized, at, {p.n, p.y_row, yb[0], yb[1], yb[2], yb[3]}));
  const std::int64_t side_by_side =
      p.a_col == 1 ? together(quantized, at, {p.k, p.a_row, ab[0], ab[1], ab[2], ab[3]}) : 1;
  f.number("vector", side_by_side % 4 == 0);
  if (on_tensor_cores(p.weight_dtype, p.pack_k)) {
    sums_mma(f, "GemmLeft", p.weight_dtype, outer, p.m, p.n, p.k, side_by_side);
  } else {
    sums(f, "GemmLeft", outer, p.m, p.n, p.k, p.pack_n);
  }
}

}  // namespace cuda

using cuda::ceil_div;

CudaTile choose_cuda_tile(std::int64_t outer, std::int64_t m, std::int64_t n, std::int64_t k,
                          int pack) {
  // Larger tiles load less per product; smaller ones give a device more blocks.
  struct Shape {
    int bm, bn, tm;
    double cost;  // of a product, in larger blocks 1
  };
  static constexpr Shape kShapes[] = {
      {128, 64, 8, 1.0}, {64, 64, 4, 1.2}, {64, 32, 4, 1.5}, {32, 32, 2, 2.2}, {8, 64, 1, 3.2}};
  const std::int64_t steps = ceil_div(k, cuda::kTerms);
  CudaTile best = {};
  double least = 0;
  for (const Shape& s : kShapes) {
    if (pack > 0 && s.bn > pack) continue;
    const std::int64_t blocks = outer * ceil_div(m, s.bm) * ceil_div(n, s.bn);
    for (const int splits : {1, 2, 4, 8, 16, 32}) {
      if (splits > 1 && (steps < splits * 4 || outer * splits > 65535)) break;
      // Two blocks a processor; a launch and the sums of parts cost, too.
      const auto waves = static_cast<double>(ceil_div(blocks * splits, cuda::kProcessors * 2));
      const double work =
          waves * static_cast<double>(ceil_div(steps, splits) * cuda::kTerms) * s.bm * s.bn;
      const double parts =
          splits == 1 ? 0
                      : 5e5 + static_cast<double>(outer * m * n * splits) / cuda::kProcessors * 4;
      const double cost = work * s.cost + parts;
      if (best.bm == 0 || cost < least) best = {s.bm, s.bn, s.tm, splits}, least = cost;
    }
  }
  return best;
}

std::size_t cuda_scratch(xrt_kernel_id kernel, const void* params) {
  std::int64_t outer = 1, m = 0, n = 0, k = 0;
  int pack = 0;
  if (kernel == XRT_K_CONV_F32) {
    const auto& p = *static_cast<const xrt_k_conv*>(params);
    if (cuda::on_tensor_cores(p.weight_dtype, p.pack_k)) return 0;
    outer = p.groups, m = std::int64_t{p.n} * p.oh * p.ow, n = p.oc / p.groups;
    k = std::int64_t{p.ic / p.groups} * p.kh * p.kw, pack = p.pack_n;
  } else if (kernel == XRT_K_GEMM_F32) {
    const auto& p = *static_cast<const xrt_k_gemm*>(params);
    if (cuda::on_tensor_cores(p.weight_dtype, p.pack_k)) return 0;
    for (const int b : p.batch) outer *= b;
    m = p.m, n = p.n, k = p.k, pack = p.pack_n;
  } else {
    return 0;
  }
  const int splits = choose_cuda_tile(outer, m, n, k, pack).splits;
  return splits == 1 ? 0 : static_cast<std::size_t>(splits * outer * m * n) * 4;
}

}  // namespace xrt::lite
