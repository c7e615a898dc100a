// SPDX-License-Identifier: Apache-2.0
// Cast, CastLike, BitCast: ONNX's rules where StableHLO leaves conversions open.
#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "engines/xla/lowering.h"

namespace xrt::xla {

namespace {

struct Float8 {
  double largest;
  bool has_infinity;
};

std::optional<Float8> float8(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
      return Float8{448, false};
    case DType::kFloat8E4M3FNUZ:
      return Float8{240, false};
    case DType::kFloat8E5M2:
      return Float8{57344, true};
    case DType::kFloat8E5M2FNUZ:
      return Float8{57344, false};
    case DType::kFloat4E2M1:
      return Float8{6, false};
    default:
      return std::nullopt;
  }
}

Hlo to_float8(HloBuilder& b, const Hlo& x, DType dtype, bool saturate) {
  const Float8 format = *float8(dtype);
  Hlo wide = b.convert(x, x.dtype == DType::kFloat64 ? x.dtype : DType::kFloat32);
  const Hlo largest = b.splat(format.largest, wide.dtype, wide.dims);
  const Hlo lowest = b.splat(-format.largest, wide.dtype, wide.dims);
  if (saturate || dtype == DType::kFloat4E2M1) {
    // NaN stays NaN: min and max propagate it.
    wide = b.maximum(b.minimum(wide, largest), lowest);
  }
  return b.convert(wide, dtype);
}

}  // namespace

Hlo cast(HloBuilder& b, const Hlo& x, DType dtype, bool saturate) {
  if (x.dtype == dtype) return x;
  if (dtype == DType::kBool) {
    const DType wide = is_floating(x.dtype) && bit_width(x.dtype) < 16 ? DType::kFloat32 : x.dtype;
    const Hlo value = b.convert(x, wide);
    return b.compare("NE", value, b.zeros_like(value));
  }
  if (float8(dtype) && !is_packed(x.dtype) && x.dtype != DType::kBool) {
    return to_float8(b, x, dtype, saturate);
  }
  if (is_floating(x.dtype) && is_integer(dtype)) {
    // Towards zero, through a wide integer so that what does not fit wraps as a C cast does.
    const DType wide = dtype == DType::kUInt64 ? dtype : DType::kInt64;
    const Hlo value = bit_width(x.dtype) < 16 ? b.convert(x, DType::kFloat32) : x;
    return b.convert(b.convert(value, bit_width(dtype) < 32 ? DType::kInt32 : wide), dtype);
  }
  if (is_floating(x.dtype) && bit_width(x.dtype) < 16 && bit_width(dtype) != 32) {
    return b.convert(b.convert(x, DType::kFloat32), dtype);
  }
  return b.convert(x, dtype);
}

namespace {

void cast_to(NodeContext& c, DType to) {
  const bool saturate = c.attr("saturate") != 0;
  const DType from = c.dtype(0);
  c.need(!hlo_element_type(to).empty(), fmt::format("no cast to {}", to_string(to)));
  // Rounding of the scale-only format follows its own attribute.
  c.need(to != DType::kFloat8E8M0 && from != DType::kFloat8E8M0, "float8_e8m0 is not cast");
  c.elementwise({0}, [&](const Hlos& x) { return cast(c.b, x[0], to, saturate); });
}

void lower_cast(NodeContext& c) { cast_to(c, static_cast<DType>(c.attr("to"))); }
void lower_cast_like(NodeContext& c) { cast_to(c, c.dtype(1)); }

void lower_bit_cast(NodeContext& c) {
  const auto to = static_cast<DType>(c.attr("to"));
  c.need(bit_width(to) == bit_width(c.dtype(0)) && !is_packed(to) && to != DType::kBool &&
             c.dtype(0) != DType::kBool,
         "a bit cast between these types");
  c.elementwise({0}, [&](const Hlos& x) { return c.b.bitcast(x[0], to); });
}

}  // namespace

void register_cast(LoweringTable& t) {
  t.add("Cast", lower_cast);
  t.add("CastLike", lower_cast_like);
  t.add("BitCast", lower_bit_cast);
}

}  // namespace xrt::xla
