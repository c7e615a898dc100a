// SPDX-License-Identifier: Apache-2.0
// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear and the ops on quantized numbers.
#include <algorithm>
#include <cmath>

#include "engines/native/context.h"
#include "engines/native/kernels/common/gemm.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/math/matmul_integer.h"
#include "engines/native/kernels/nn/conv.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

// Which scale belongs to which element: one for all, one per index of an axis, or one per block of
// an axis.
class Granularity {
 public:
  Granularity(const Dims& x, const Tensor& scale, std::int64_t given_axis, std::int64_t block) {
    if (scale.count() == 1 && scale.rank() <= 1) return;
    const std::size_t axis = normalize_axis(given_axis, x.size());
    size_ = x[axis];
    inner_ = product(x, axis + 1, x.size());
    if (scale.rank() == 1 && block == 0) {
      if (scale.count() != size_) fail("the scale has not one entry per index of its axis");
      scales_ = size_;
      block_ = 1;
      return;
    }
    if (scale.rank() != x.size()) fail("the scale has another rank than the input");
    scales_ = scale.dims()[axis];
    if (block == 0 && scales_ > 0) block = (size_ + scales_ - 1) / scales_;
    Dims expected = x;
    expected[axis] = block > 0 ? size_ / block + (size_ % block != 0 ? 1 : 0) : 0;
    if (block < 1 || scale.dims() != expected) fail("the scale's shape does not fit its blocks");
    block_ = block;
    outer_ = true;
  }

  std::int64_t operator()(std::int64_t element) const {
    if (block_ == 0) return 0;
    const std::int64_t at = element / inner_ % size_ / block_;
    if (!outer_) return at;
    return (element / (inner_ * size_) * scales_ + at) * inner_ + element % inner_;
  }

 private:
  std::int64_t size_ = 1, inner_ = 1, scales_ = 1;
  std::int64_t block_ = 0;  // 0: one scale for all
  bool outer_ = false;      // the scale also varies along the other axes
};

struct IntegerRange {
  double low, high;
};

IntegerRange integer_range(DType dtype) {
  const int bits = bit_width(dtype);
  const bool is_signed = is_signed_integer(dtype);
  const double span = std::ldexp(1.0, bits);
  return is_signed ? IntegerRange{-span / 2, span / 2 - 1} : IntegerRange{0, span - 1};
}

double element(const Tensor& t, std::int64_t i) {
  double value = 0;
  load_double(t.dtype(), t.raw(), i, 1, &value);
  return value;
}

Scratch<double> elements(const Tensor& t) {
  Scratch<double> values(static_cast<std::size_t>(t.count()));
  load_double(t.dtype(), t.raw(), 0, t.count(), values.data());
  return values;
}

// The quotient as the op's precision rounds it.
double divide(double x, double scale, DType precision) {
  if (precision == DType::kFloat64) return x / scale;
  const float quotient = static_cast<float>(x) / static_cast<float>(scale);
  if (precision == DType::kFloat16) return half_to_float(float_to_half(quotient));
  if (precision == DType::kBFloat16) return bfloat16_to_float(float_to_bfloat16(quotient));
  return quotient;
}

// Scales and zero points of a node, and to which elements of `x` each belongs.
struct Scaling {
  Granularity where;
  Scratch<double> scales, zeros;

  Scaling(const KernelContext& k, std::int64_t axis, std::int64_t block)
      : where(k.input(0).dims(), k.input(1), axis, block),
        scales(elements(k.input(1))),
        zeros(scales.size()) {
    const Tensor* zero = k.optional_input(2);
    if (zero == nullptr) return;
    if (zero->count() != k.input(1).count()) fail("scale and zero point have different shapes");
    zeros = elements(*zero);
  }
};

// y[i] = fn(x[i], scale, zero point), in double.
template <typename F>
void map_scaled(KernelContext& k, const Scaling& scaling, Tensor& y, bool saturate, F&& fn) {
  const Tensor& x = k.input(0);
  // Parts are whole bytes of packed elements.
  k.parallel_for((x.count() + 7) / 8, 1024, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kBlock = 512;
    double values[kBlock];
    const std::int64_t last = std::min(end * 8, x.count());
    for (std::int64_t i = begin * 8; i < last; i += kBlock) {
      const std::int64_t n = std::min(kBlock, last - i);
      load_double(x.dtype(), x.raw(), i, n, values);
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t s = scaling.where(i + j);
        values[j] = fn(values[j], scaling.scales[s], scaling.zeros[s]);
      }
      store_double(y.dtype(), values, n, y.raw(), i, saturate);
    }
  });
}

constexpr std::int64_t kGrain = 16384;  // elements per task

// float32 to bytes by one scale, in vectors.
void quantize_floats(KernelContext& k, const Scaling& scaling, Tensor& y) {
  const auto scale = static_cast<float>(scaling.scales[0]);
  const auto zero = static_cast<float>(scaling.zeros[0]);
  const auto* x = k.input(0).data<float>();
  const VectorOps& ops = vector_ops();
  k.parallel_for(y.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (y.dtype() == DType::kUInt8) {
      ops.quantize_u8(x + begin, y.data<std::uint8_t>() + begin, end - begin, scale, zero);
    } else {
      ops.quantize_s8(x + begin, y.data<std::int8_t>() + begin, end - begin, scale, zero);
    }
  });
}

// Bytes to float32 by one scale.
void dequantize_bytes(KernelContext& k, const Scaling& scaling, Tensor& y) {
  const auto scale = static_cast<float>(scaling.scales[0]);
  const auto zero = static_cast<std::int32_t>(scaling.zeros[0]);
  const Tensor& x = k.input(0);
  const VectorOps& ops = vector_ops();
  k.parallel_for(y.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    float* to = y.data<float>() + begin;
    if (x.dtype() == DType::kUInt8) {
      ops.dequantize_u8(x.data<std::uint8_t>() + begin, to, end - begin, scale, zero);
    } else {
      ops.dequantize_s8(x.data<std::int8_t>() + begin, to, end - begin, scale, zero);
    }
  });
}

Created create_quantize(const KernelCreateContext& create) {
  const Node& node = create.node();
  const std::int64_t axis = need_int(node, "axis");
  const std::int64_t block = need_int(node, "block_size");
  const bool saturate = need_int(node, "saturate") != 0;
  const auto given = static_cast<DType>(need_int(node, "output_dtype"));
  const auto given_precision = static_cast<DType>(need_int(node, "precision"));
  return make_kernel([=](KernelContext& k) {
    const Tensor* zero = k.optional_input(2);
    const DType dtype = zero != nullptr              ? zero->dtype()
                        : given != DType::kUndefined ? given
                                                     : DType::kUInt8;
    const DType precision =
        given_precision != DType::kUndefined ? given_precision : k.input(1).dtype();
    const Scaling scaling(k, axis, block);
    Tensor& y = k.output(0, dtype, k.input(0).dims());
    const bool plain = k.input(0).dtype() == DType::kFloat32 && precision == DType::kFloat32 &&
                       k.input(1).dtype() == DType::kFloat32 && scaling.scales.size() == 1;
    if (plain && (dtype == DType::kUInt8 || dtype == DType::kInt8)) {
      return quantize_floats(k, scaling, y);
    }
    const bool floating = is_floating(dtype);
    const IntegerRange range = floating ? IntegerRange{} : integer_range(dtype);
    map_scaled(k, scaling, y, saturate, [=](double value, double scale, double shift) {
      const double quotient = divide(value, scale, precision);
      return floating ? quotient + shift
                      : std::clamp(std::nearbyint(quotient) + shift, range.low, range.high);
    });
  });
}

Created create_dequantize(const KernelCreateContext& create) {
  const Node& node = create.node();
  const std::int64_t axis = need_int(node, "axis");
  const std::int64_t block = need_int(node, "block_size");
  const auto given = static_cast<DType>(need_int(node, "output_dtype"));
  return make_kernel([=](KernelContext& k) {
    const Scaling scaling(k, axis, block);
    const DType dtype = given != DType::kUndefined ? given : k.input(1).dtype();
    Tensor& y = k.output(0, dtype, k.input(0).dims());
    const bool plain = dtype == DType::kFloat32 && k.input(1).dtype() == DType::kFloat32 &&
                       scaling.scales.size() == 1;
    const DType from = k.input(0).dtype();
    if (plain && (from == DType::kUInt8 || from == DType::kInt8)) {
      return dequantize_bytes(k, scaling, y);
    }
    map_scaled(k, scaling, y, /*saturate=*/true,
               [](double value, double scale, double shift) { return (value - shift) * scale; });
  });
}

void run_dynamic_quantize(KernelContext& k) {
  const Tensor& x = k.input(0);
  const VectorOps& ops = vector_ops();
  struct Ends {
    float low = 0, high = 0;  // zero is among the numbers
  };
  Scratch<Ends> parts(static_cast<std::size_t>((x.count() + kGrain - 1) / kGrain));
  k.parallel_for(static_cast<std::int64_t>(parts.size()), 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (; begin < end; ++begin) {
                     const float* from = x.data<float>() + begin * kGrain;
                     const std::int64_t n = std::min(kGrain, x.count() - begin * kGrain);
                     parts[begin] = {std::min(0.0F, ops.minimum(from, n)),
                                     std::max(0.0F, ops.maximum(from, n))};
                   }
                 });
  float low = 0, high = 0;
  for (const Ends& part : parts) {
    low = std::min(low, part.low);
    high = std::max(high, part.high);
  }
  const float scale = (high - low) / 255.0F;
  const float divisor = scale == 0 ? 1.0F : scale;
  // Zero where infinities make the quotient no number.
  const float zero = std::fmin(std::fmax(std::nearbyint(0.0F - low / divisor), 0.0F), 255.0F);
  Tensor& y = k.output(0, DType::kUInt8, x.dims());
  k.output(1, DType::kFloat32, {}).data<float>()[0] = scale;
  k.output(2, DType::kUInt8, {}).data<std::uint8_t>()[0] = static_cast<std::uint8_t>(zero);
  k.parallel_for(x.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    ops.quantize_u8(x.data<float>() + begin, y.data<std::uint8_t>() + begin, end - begin, divisor,
                    zero);
  });
}

// x - zero point as int32. A zero point of several elements belongs to the indices of `axis`.
Tensor centred(const Tensor& x, const Tensor* zero, std::size_t axis) {
  Tensor wide = converted(x, DType::kInt32);
  if (zero == nullptr) return wide;
  if (wide.raw() == x.raw()) wide = x.clone();
  const Tensor shift = converted(*zero, DType::kInt32);
  auto* p = wide.data<std::int32_t>();
  if (shift.count() == 1) {
    const std::int32_t z = shift.data<std::int32_t>()[0];
    for (std::int64_t i = 0; i < wide.count(); ++i) p[i] -= z;
    return wide;
  }
  if (wide.count() == 0) return wide;
  if (axis >= x.rank() || shift.count() % x.dims()[axis] != 0) fail("a zero point does not fit");
  if (shift.count() == x.dims()[axis]) {
    const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
    for (std::int64_t i = 0; i < wide.count(); ++i) {
      p[i] -= shift.data<std::int32_t>()[i / inner % x.dims()[axis]];
    }
    return wide;
  }
  // One per row or column of every matrix of a batch.
  const Dims strides = broadcast_strides(shift.dims(), x.dims());
  for (std::int64_t i = 0; i < wide.count(); ++i) {
    std::int64_t rest = i;
    std::int64_t at = 0;
    for (std::size_t a = x.rank(); a-- > 0;) {
      at += rest % x.dims()[a] * strides[a];
      rest /= x.dims()[a];
    }
    p[i] -= shift.data<std::int32_t>()[at];
  }
  return wide;
}

// The axis of A's rows, along which a zero point of A varies, and of B's columns.
std::size_t row_axis(const Tensor& a) { return a.rank() < 2 ? 0 : a.rank() - 2; }
std::size_t column_axis(const Tensor& b) { return b.rank() < 1 ? 0 : b.rank() - 1; }

void run_matmul_integer(KernelContext& k) {
  const Tensor& a = k.input(0);
  const Tensor& b = k.input(1);
  Tensor& y = k.output(0, DType::kInt32, plan_matmul(a.dims(), b.dims()).output);
  multiply_tensors(k, centred(a, k.optional_input(2), row_axis(a)),
                   centred(b, k.optional_input(3), column_axis(b)), y);
}

// y = saturate(round(x * factor(i)) + zero(i))
template <typename Factor>
void requantize(const Tensor& sums, Tensor& y, Factor&& factor, const Tensor& zero,
                std::int64_t inner, std::int64_t channels) {
  const bool floating = is_floating(y.dtype());
  const IntegerRange range = floating ? IntegerRange{} : integer_range(y.dtype());
  for (std::int64_t i = 0; i < sums.count(); ++i) {
    const std::int64_t channel = inner == 0 ? 0 : i / inner % channels;
    const double z = element(zero, zero.count() == 1 ? 0 : channel);
    double value = static_cast<double>(sums.data<std::int32_t>()[i]) * factor(channel);
    value = floating ? value + z : std::clamp(std::nearbyint(value) + z, range.low, range.high);
    store_double(y.dtype(), &value, 1, y.raw(), i);
  }
}

void run_qlinear_matmul(KernelContext& k) {
  const Tensor& a = k.input(0);
  const Tensor& b = k.input(3);
  const Tensor& zero = k.input(7);
  const MatMulPlan plan = plan_matmul(a.dims(), b.dims());
  Tensor sums = allocate_checked(DType::kInt32, plan.output);
  multiply_tensors(k, centred(a, &k.input(2), row_axis(a)), centred(b, &k.input(5), column_axis(b)),
                   sums);
  Tensor& y = k.output(0, zero.dtype(), plan.output);
  const Tensor& b_scale = k.input(4);
  if (k.input(1).count() != 1 || k.input(6).count() != 1 || zero.count() != 1 ||
      (b_scale.count() != 1 && b_scale.count() != plan.n)) {
    throw Error(ErrorCode::kUnsupported, "scales per row are not supported");
  }
  const double scale = element(k.input(1), 0) / element(k.input(6), 0);
  requantize(
      sums, y,
      [&](std::int64_t channel) {
        return scale * element(b_scale, b_scale.count() == 1 ? 0 : channel);
      },
      zero, 1, plan.n);
}

Created create_conv_integer(const KernelCreateContext& create) {
  const auto attributes = WindowAttributes::of(create.node());
  const std::int64_t groups = need_int(create.node(), "group");
  return make_kernel([attributes, groups](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& w = k.input(1);
    const ConvPlan plan = plan_conv(attributes, groups, x.dims(), w.dims());
    Tensor& y = k.output(0, DType::kInt32, plan.output);
    convolve(k, plan, centred(x, k.optional_input(2), 0), centred(w, k.optional_input(3), 0),
             nullptr, y);
  });
}

Created create_qlinear_conv(const KernelCreateContext& create) {
  const auto attributes = WindowAttributes::of(create.node());
  const std::int64_t groups = need_int(create.node(), "group");
  return make_kernel([attributes, groups](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& w = k.input(3);
    const Tensor& w_scale = k.input(4);
    const Tensor& zero = k.input(7);
    const ConvPlan plan = plan_conv(attributes, groups, x.dims(), w.dims());
    if (w_scale.count() != 1 && w_scale.count() != plan.output[1]) fail("w_scale does not fit");
    Tensor sums = allocate_checked(DType::kInt32, plan.output);
    convolve(k, plan, centred(x, &k.input(2), 0), centred(w, &k.input(5), 0), k.optional_input(8),
             sums);
    Tensor& y = k.output(0, zero.dtype(), plan.output);
    const double scale = element(k.input(1), 0) / element(k.input(6), 0);
    requantize(
        sums, y,
        [&](std::int64_t channel) {
          return scale * element(w_scale, w_scale.count() == 1 ? 0 : channel);
        },
        zero, product(plan.output, 2, plan.output.size()), plan.output[1]);
  });
}

constexpr DTypeSet kQuantTypes{DType::kInt8, DType::kUInt8};

Support supports_quantize(const NodeView& n) {
  const Support in = n.check_input(0, kFloatTypes | DTypeSet{DType::kInt32});
  if (!in) return in;
  const DTypeSet out = DTypeSet{DType::kInt8, DType::kUInt8, DType::kInt16, DType::kUInt16} |
                       kFloat8Types | kPackedTypes;
  return n.check_output(0, out);
}

Support supports_dequantize(const NodeView& n) {
  const DTypeSet in = kIntegerTypes | kFloat8Types | kPackedTypes;
  const Support first = n.check_input(0, in);
  return first ? n.check_output(0, kFloatTypes) : first;
}

}  // namespace

void register_quantize_kernels(KernelRegistry& registry) {
  const auto plain = [](void (*run)(KernelContext&)) {
    return [run](const KernelCreateContext&) { return make_kernel(run); };
  };
  const auto bytes = [](std::size_t first, std::size_t second) {
    return [first, second](const NodeView& n) {
      const Support a = n.check_input(first, kQuantTypes);
      return a ? n.check_input(second, kQuantTypes) : a;
    };
  };
  registry.add({.op = "QuantizeLinear", .supports = supports_quantize, .create = create_quantize});
  registry.add(
      {.op = "DequantizeLinear", .supports = supports_dequantize, .create = create_dequantize});
  registry.add({.op = "DynamicQuantizeLinear", .create = plain(run_dynamic_quantize)});
  registry.add({.op = "MatMulInteger",
                .supports = bytes(0, 1),
                .create = [](const KernelCreateContext& create) {
                  Created packed = packed_matmul_integer(create);
                  return packed != nullptr ? std::move(packed) : make_kernel(run_matmul_integer);
                }});
  registry.add(
      {.op = "QLinearMatMul", .supports = bytes(0, 3), .create = plain(run_qlinear_matmul)});
  registry.add({.op = "ConvInteger", .supports = bytes(0, 1), .create = create_conv_integer});
  registry.add({.op = "QLinearConv", .supports = bytes(0, 3), .create = create_qlinear_conv});
}

}  // namespace xrt::native
