// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "emit/emit.h"
#include "emit/pack.h"
#include "xrt/error.h"

namespace xrt::lite {
namespace {

// [C][H][W] of the dimensions behind batch and channels; one-dimensional images have height 1.
std::int64_t height(const Dims& d) { return d.size() == 4 ? d[2] : 1; }
std::int64_t width(const Dims& d) { return d.back(); }

// Fields that convolutions and products share.
template <typename Params>
void finish(Params& p, const Epilogue& e, const Quantized& q, const LValue& x, const LValue& y,
            const LValue* residual, bool bias) {
  p.flags = (bias ? XRT_HAS_BIAS : 0) | (residual != nullptr ? XRT_HAS_RESIDUAL : 0);
  p.activation = e.clip ? XRT_ACT_CLIP : XRT_ACT_NONE;
  p.lo = e.lo, p.hi = e.hi;
  p.x_dtype = static_cast<std::int32_t>(x.dtype);
  p.y_dtype = static_cast<std::int32_t>(y.dtype);
  p.r_dtype = static_cast<std::int32_t>(residual != nullptr ? residual->dtype : y.dtype);
  p.x_zero = q.x_zero, p.y_zero = q.y_zero, p.r_zero = q.r_zero;
  p.r_scale = static_cast<float>(double{q.r_scale} / q.y_scale);
}

// Throws where a weight is beyond the largest number of half precision.
void check_half(const LOp& op, const Tensor& weights) {
  constexpr float kLargest = 65504;
  for (std::int64_t i = 0; i < weights.count(); ++i) {
    const float w = weights.data<float>()[i];
    if (std::fabs(w) > kLargest) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("op '{}': the weight {:g} is beyond half precision (65504): compile "
                              "with --precision=fp32",
                              op.name, w));
    }
  }
}

std::string scales(const Quantized& q, std::int64_t channels) {
  std::string bytes(static_cast<std::size_t>(channels) * 4, '\0');
  auto* to = reinterpret_cast<float*>(bytes.data());
  for (std::int64_t c = 0; c < channels; ++c) {
    const float w = q.w_scales[q.w_scales.size() == 1 ? 0 : static_cast<std::size_t>(c)];
    to[c] = static_cast<float>(double{q.x_scale} * w / q.y_scale);
  }
  return bytes;
}

}  // namespace

void Emitter::emit(const LOp& op, const LConv& k) {
  const LValue &x = value(k.x), &y = value(op.y);
  xrt_k_conv p = {};
  p.n = word(x.dims[0]), p.ic = word(x.dims[1]), p.oc = word(y.dims[1]);
  p.ih = word(height(x.dims)), p.iw = word(width(x.dims));
  p.oh = word(height(y.dims)), p.ow = word(width(y.dims));
  p.kh = k.kh, p.kw = k.kw, p.stride_h = k.stride_h, p.stride_w = k.stride_w;
  p.dilation_h = k.dilation_h, p.dilation_w = k.dilation_w;
  p.pad_top = k.pad_top, p.pad_left = k.pad_left, p.groups = k.groups;
  p.x_pitch = pitch(k.x), p.y_pitch = pitch(op.y);
  p.r_pitch = k.residual >= 0 ? pitch(k.residual) : p.y_pitch;
  const LValue* residual = k.residual >= 0 ? &value(k.residual) : nullptr;
  finish(p, k.epilogue, k.q, x, y, residual, k.bias.defined());
  const bool depthwise = k.groups == p.ic && p.oc == p.ic && k.groups > 1;
  const bool half = !k.q.on && precision_ == Precision::kFloat16;
  if (half) check_half(op, k.weights);
  p.weight_dtype = k.q.on ? XRT_LITE_I8 : half ? XRT_LITE_F16 : XRT_LITE_F32;
  const xrt_kernel_id kernel = depthwise ? (k.q.on ? XRT_K_DWCONV_Q8 : XRT_K_DWCONV_F32)
                                         : (k.q.on ? XRT_K_CONV_Q8 : XRT_K_CONV_F32);
  p.pack_n = p.pack_k = 1;
  const int target = choose(op, kernel, &p);
  const std::int64_t icg = p.ic / k.groups, ocg = p.oc / k.groups, area = std::int64_t{k.kh} * k.kw;
  std::string packed;
  if (depthwise) {
    packed =
        pack_factor(k.weights, 1, area, p.oc, {1, 1}, half,
                    [&](std::int64_t, std::int64_t at, std::int64_t c) { return c * area + at; });
  } else {
    const Packing pack = module_.targets[static_cast<std::size_t>(target)]->pack_conv(kernel, p);
    p.pack_n = pack.n, p.pack_k = pack.k;
    packed = pack_factor(k.weights, k.groups, ocg, area * icg, pack, half,
                         [&](std::int64_t g, std::int64_t n, std::int64_t t) {
                           return ((g * ocg + n) * icg + t % icg) * area + t / icg;
                         });
  }
  std::vector<Operand> operands = {operand(k.x), constant(packed, k.q.on ? DType::kInt8
                                                                  : half ? DType::kFloat16
                                                                         : DType::kFloat32)};
  if (k.q.on) operands.push_back(constant(scales(k.q, p.oc), DType::kFloat32));
  if (k.bias.defined()) operands.push_back(constant(k.bias));
  if (residual != nullptr) operands.push_back(operand(k.residual));
  operands.push_back(operand(op.y));
  const double work = static_cast<double>(y.count()) * static_cast<double>(icg * area);
  push(op, kernel, &p, sizeof(p), std::move(operands), target, work);
}

void Emitter::emit(const LOp& op, const LGemm& k) {
  const LValue &a = value(k.a), &b = value(k.b), &y = value(op.y);
  const std::size_t rank = y.dims.size();
  xrt_k_gemm p = {};
  p.m = word(y.dims[rank - 2]), p.n = word(y.dims[rank - 1]);
  const std::size_t ar = a.dims.size(), br = b.dims.size();
  p.k = word(k.transpose_a ? a.dims[ar - 2] : a.dims[ar - 1]);
  const auto as = strides(k.a), bs = strides(k.b), ys = strides(op.y);
  p.a_row = word(k.transpose_a ? as[ar - 1] : as[ar - 2]);
  p.a_col = word(k.transpose_a ? as[ar - 2] : as[ar - 1]);
  p.b_row = word(k.transpose_b ? bs[br - 1] : bs[br - 2]);
  p.b_col = word(k.transpose_b ? bs[br - 2] : bs[br - 1]);
  p.y_row = word(ys[rank - 2]);
  if (a.dims[ar - 1] == 1 && !k.transpose_a) p.a_col = 1;
  const bool packed = b.is_constant() && br == 2;
  std::fill_n(p.batch, 4, 1);
  if (packed && ar == rank) {  // all rows of all batches are rows of one product
    for (std::size_t d = 0; d + 2 < rank; ++d) p.m = word(std::int64_t{p.m} * y.dims[d]);
    if (rank > 2) p.a_row = p.k, p.a_col = 1;
    p.y_row = p.n;
  } else {
    for (std::size_t d = 0; d + 2 < rank; ++d) {
      const std::size_t to = 4 - (rank - 2) + d;
      const auto stride = [&](const LValue& v, const std::vector<std::int64_t>& s) -> std::int64_t {
        const std::size_t r = v.dims.size();
        if (d + r < rank || v.dims[d + r - rank] == 1) return 0;
        return s[d + r - rank];
      };
      p.batch[to] = word(y.dims[d]);
      p.a_batch[to] = word(stride(a, as));
      p.b_batch[to] = word(stride(b, bs));
      p.y_batch[to] = word(ys[d]);
    }
  }
  const LValue* residual = k.residual >= 0 ? &value(k.residual) : nullptr;
  finish(p, k.epilogue, k.q, a, y, residual, k.bias.defined());
  p.alpha = k.alpha;
  const bool half = packed && !k.q.on && precision_ == Precision::kFloat16;
  if (half) check_half(op, b.constant);
  p.weight_dtype = k.q.on ? XRT_LITE_I8 : half ? XRT_LITE_F16 : XRT_LITE_F32;
  const xrt_kernel_id kernel = k.q.on ? XRT_K_GEMM_Q8 : XRT_K_GEMM_F32;
  p.pack_n = p.pack_k = packed ? 1 : 0;
  const int target = choose(op, kernel, &p);
  std::vector<Operand> operands = {operand(k.a)};
  if (packed) {
    const Packing pack = module_.targets[static_cast<std::size_t>(target)]->pack_gemm(kernel, p);
    const std::int64_t row = p.b_row, col = p.b_col;
    p.pack_n = pack.n, p.pack_k = pack.k, p.b_row = p.b_col = 0;
    operands.push_back(constant(pack_factor(b.constant, 1, p.n, p.k, pack, half,
                                            [&](std::int64_t, std::int64_t n, std::int64_t t) {
                                              return t * row + n * col;
                                            }),
                                k.q.on ? DType::kInt8
                                : half ? DType::kFloat16
                                       : DType::kFloat32));
  } else {
    operands.push_back(operand(k.b));
  }
  if (k.q.on) operands.push_back(constant(scales(k.q, p.n), DType::kFloat32));
  if (k.bias.defined()) operands.push_back(constant(k.bias));
  if (residual != nullptr) operands.push_back(operand(k.residual));
  operands.push_back(operand(op.y));
  const double work = static_cast<double>(y.count()) * p.k;
  push(op, kernel, &p, sizeof(p), std::move(operands), target, work);
}

void Emitter::emit(const LOp& op, const LPool& k) {
  const LValue &x = value(k.x), &y = value(op.y);
  xrt_k_pool p = {};
  p.n = word(x.dims[0]), p.c = word(x.dims[1]);
  p.ih = word(height(x.dims)), p.iw = word(width(x.dims));
  p.oh = word(height(y.dims)), p.ow = word(width(y.dims));
  p.kh = k.kh, p.kw = k.kw, p.stride_h = k.stride_h, p.stride_w = k.stride_w;
  p.dilation_h = k.dilation_h, p.dilation_w = k.dilation_w;
  p.pad_top = k.pad_top, p.pad_left = k.pad_left;
  p.pad_bottom = k.pad_bottom, p.pad_right = k.pad_right;
  p.x_pitch = pitch(k.x), p.y_pitch = pitch(op.y);
  p.kind = k.kind;
  p.count_include_pad = k.count_include_pad ? 1 : 0;
  p.dtype = static_cast<std::int32_t>(x.dtype);
  push(op, XRT_K_POOL, p, {operand(k.x), operand(op.y)},
       static_cast<double>(y.count()) * k.kh * k.kw);
}

}  // namespace xrt::lite
