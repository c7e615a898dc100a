// SPDX-License-Identifier: Apache-2.0
// From ops to kernels: sums of products, and how they are cut into tiles.
#include <algorithm>

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
  if (!quantized) return;
  f.type("X", p.x_dtype == XRT_LITE_I8 ? "i8" : "u8");
  f.type("R", p.r_dtype == XRT_LITE_I8 ? "i8" : "u8");
  f.number("x_signed", p.x_dtype == XRT_LITE_I8), f.number("y_signed", p.y_dtype == XRT_LITE_I8);
  f.number("x_zero", p.x_zero), f.number("y_zero", p.y_zero), f.number("r_zero", p.r_zero);
  f.real("r_scale", p.r_scale);
}

// int8 sums are never split. Terms count in fours.
CudaTile quantized_tile(std::int64_t outer, std::int64_t m, std::int64_t n, int pack) {
  if (pack >= 64 && outer * ceil_div(m, 64) * ceil_div(n, 64) >= kProcessors) return {64, 64, 4, 1};
  return {32, 32, 2, 1};
}

}  // namespace

void Writer::sums(Fields& f, const char* left, bool quantized, std::int64_t outer, std::int64_t m,
                  std::int64_t n, std::int64_t k, int pack) {
  const CudaTile t =
      quantized ? quantized_tile(outer, m, n, pack) : choose_cuda_tile(outer, m, n, k, pack);
  f.number("m", m), f.number("ng", n), f.number("k", k), f.number("outer", outer);
  f.number("bm", t.bm), f.number("bn", t.bn), f.number("tm", t.tm), f.number("bk", kTerms);
  f.number("splits", t.splits), f.number("pack", pack), f.number("pack_or_one", std::max(pack, 1));
  launch(f, fmt::format("sums{}<{{P}}, {}<{{P}}>>", quantized ? "_q8" : "", left),
         ceil_div(m, t.bm), ceil_div(n, t.bn), outer * t.splits, t.bm / t.tm * (t.bn / 4));
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

void Writer::conv(const xrt_k_conv& p, bool quantized, bool aligned) {
  Fields f;
  const std::int64_t icg = p.ic / p.groups;
  image(f, p);
  epilogue(f, p, quantized, 1);
  f.number("icg", icg), f.number("batched", 0);
  f.number("b_row", 0), f.number("b_col", 0);
  f.number("vector", aligned && icg % 4 == 0 && p.x_pitch % 4 == 0);
  f.line("static __device__ inline i64 a_start(int) { return 0; }");
  f.line("static __device__ inline i64 b_start(int) { return 0; }");
  sums(f, "ConvLeft", quantized, p.groups, std::int64_t{p.n} * p.oh * p.ow, p.oc / p.groups,
       icg * p.kh * p.kw, p.pack_n);
}

void Writer::depthwise(const xrt_k_conv& p, bool quantized) {
  Fields f;
  image(f, p);
  epilogue(f, p, quantized, 1);
  f.number("m", std::int64_t{p.n} * p.oh * p.ow);
  elements(f, quantized ? "depthwise_q8<{P}>" : "depthwise<{P}>",
           std::int64_t{p.n} * p.oh * p.ow * p.oc);
}

void Writer::gemm(const xrt_k_gemm& p, bool quantized, bool aligned) {
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
  bool vector = aligned && p.a_col == 1 && p.a_row % 4 == 0 && p.k % 4 == 0;
  std::int64_t outer = 1;
  for (int d = 0; d < 4; ++d) {
    vector = vector && p.a_batch[d] % 4 == 0;
    outer *= p.batch[d];
  }
  f.number("vector", vector);
  sums(f, "GemmLeft", quantized, outer, p.m, p.n, p.k, p.pack_n);
}

}  // namespace cuda

using cuda::ceil_div;

int cuda_pack(std::int64_t n) { return n > 32 ? 64 : 32; }

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
    outer = p.groups, m = std::int64_t{p.n} * p.oh * p.ow, n = p.oc / p.groups;
    k = std::int64_t{p.ic / p.groups} * p.kh * p.kw, pack = p.pack_n;
  } else if (kernel == XRT_K_GEMM_F32) {
    const auto& p = *static_cast<const xrt_k_gemm*>(params);
    for (const int b : p.batch) outer *= b;
    m = p.m, n = p.n, k = p.k, pack = p.pack_n;
  } else {
    return 0;
  }
  const int splits = choose_cuda_tile(outer, m, n, k, pack).splits;
  return splits == 1 ? 0 : static_cast<std::size_t>(splits * outer * m * n) * 4;
}

}  // namespace xrt::lite
