// SPDX-License-Identifier: Apache-2.0
// Explicit quantisation: Q and DQ become TensorRT's layers, from which its builder makes int8 and
// float8 kernels. TensorRT quantises symmetrically: zero points are zero.
#include <algorithm>
#include <cstring>

#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

namespace {

bool is_quantized(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kFloat8E4M3FN || dtype == DType::kInt4;
}

void require_symmetric(NodeContext& c) {
  if (!c.has(2)) return;
  const Tensor* zero = c.constant(2);
  c.need(zero != nullptr, "the zero point is not a constant");
  const auto* bytes = static_cast<const unsigned char*>(zero->raw());
  c.need(std::all_of(bytes, bytes + zero->bytes(), [](unsigned char b) { return b == 0; }),
         "TensorRT quantises symmetrically: the zero point is not zero");
}

// The scale as TensorRT wants it: a scalar, one number per channel, or one per block.
Value scale_of(NodeContext& c, std::int64_t& axis) {
  c.need(c.constant(1) != nullptr, "the scale is not a constant");
  const std::int64_t rank = c.rank(0);
  c.need(rank > 0, "TensorRT does not quantise scalars");
  axis = -1;
  if (c.rank(1) == 0) return c.in(1);
  if (c.rank(1) == 1 && c.attr("block_size") == 0) {
    if (c.dims(1)[0] == 1) return c.net.reshape(c.in(1), {});
    axis = c.attr("axis");
    return c.in(1);
  }
  c.need(c.dtype(0) == DType::kInt4 || c.out_dtype() == DType::kInt4,
         "TensorRT scales blocks of int4 only");
  return c.in(1);
}

void quantize(NodeContext& c) {
  c.require_float(0);
  const DType to = c.out_dtype();
  c.need(is_quantized(to), "TensorRT quantises to int8, float8_e4m3fn and int4 only");
  require_symmetric(c);
  std::int64_t axis = -1;
  const Value scale = c.net.cast(scale_of(c, axis), c.dtype(0));
  c.need(axis < 0 || c.constant(0) != nullptr,
         "TensorRT quantises per channel where the values are weights only");
  auto* layer =
      c.net.made(c.net.network().addQuantize(*c.in(0), *scale, to_trt(to)), "a quantise layer");
  if (axis >= 0) layer->setAxis(static_cast<std::int32_t>(axis));
  c.out(c.net.out(layer));
}

// int8 to float32; `scale` holds one number, or one per index of the axis.
Tensor dequantized(const Tensor& x, const Tensor& scale, std::int64_t axis) {
  Tensor out = Tensor::allocate(DType::kFloat32, x.dims());
  std::int64_t inner = 1;
  for (std::size_t i = static_cast<std::size_t>(axis + 1); axis >= 0 && i < x.rank(); ++i) {
    inner *= x.dims()[i];
  }
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t channel = axis < 0 ? 0 : i / inner % scale.count();
    out.data<float>()[i] =
        static_cast<float>(x.data<std::int8_t>()[i]) * scale.data<float>()[channel];
  }
  return out;
}

void dequantize(NodeContext& c) {
  const DType from = c.dtype(0);
  const DType to = c.out_dtype();
  require_symmetric(c);
  if (from == DType::kInt32) {  // a bias: no layer of TensorRT's, but plain arithmetic
    const Value x = c.net.cast(c.in(0), to);
    const Value scale = c.net.cast(c.in(1), to);
    if (c.rank(1) == 0 || c.dims(1)[0] == 1) {
      c.out(c.net.binary(x, c.net.reshape(scale, {}), EW::kPROD));
      return;
    }
    Extents line(static_cast<std::size_t>(c.rank(0)), Extent(1));
    const std::int64_t axis = c.attr("axis");
    line[static_cast<std::size_t>(axis)] = Extent(c.in(1), 0);
    c.out(c.net.binary(x, c.net.reshape(scale, line), EW::kPROD));
    return;
  }
  c.need(is_quantized(from), "TensorRT dequantises int8, float8_e4m3fn, int4 and int32 only");
  c.need(to == DType::kFloat32 || to == DType::kFloat16 || to == DType::kBFloat16,
         "TensorRT dequantises to float32, float16 and bfloat16");
  std::int64_t axis = -1;
  const Value scale = c.net.cast(scale_of(c, axis), to);
  // TensorRT-RTX has no convolutions in int8, and fails where it finds one: it gets the kernel as
  // the numbers that it stands for.
  if (is_rtx() && from == DType::kInt8 && to == DType::kFloat32 && c.constant(0) != nullptr &&
      c.constant(1)->dtype() == DType::kFloat32 && c.read_only_by(0, "Conv")) {
    c.out_constant(0, dequantized(*c.constant(0), *c.constant(1), axis));
    return;
  }
  auto* layer =
      c.net.made(c.net.network().addDequantize(*c.in(0), *scale, to_trt(to)), "a dequantise layer");
  if (axis >= 0) layer->setAxis(static_cast<std::int32_t>(axis));
  c.out(c.net.out(layer));
}

}  // namespace

void register_quantize(LoweringTable& t) {
  t.add("QuantizeLinear", quantize);
  t.add("DequantizeLinear", dequantize);
}

}  // namespace xrt::tensorrt
