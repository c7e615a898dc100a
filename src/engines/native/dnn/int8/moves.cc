// SPDX-License-Identifier: Apache-2.0
// Between float32 and bytes, and from bytes to bytes. Of domain kDomain:
//
// QuantizeLast(X, scale, zero point): QuantizeLinear of X (batch, channels, spatial …), its result
// stored as (batch, spatial …, channels).
// Int8Table(X): bytes to the bytes that the attribute `table` has for them, by their unsigned
// value. Int8Add(A, B): round(A * a_scale + B * b_scale + shift) within low … high.
// Int8Mul(A, B): round((A - a_zero) * (B - b_zero) * scale + shift), likewise. A and B broadcast.
// The attribute `to` is the element type of the result.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "engines/native/dnn/families.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/common/axes.h"
#include "engines/native/kernels/common/broadcast.h"
#include "engines/native/kernels/vector/vector_ops.h"

namespace xrt::native::dnn {
namespace {

constexpr std::int64_t kBlock = 512;

// Three rows of bytes side by side. A store of four bytes is as quick as one of one; what it writes
// too far, the next one overwrites.
void interleave(const std::uint8_t* rows, std::uint8_t* y, std::int64_t n) {
  for (std::int64_t i = 0; i + 1 < n; ++i) {
    const std::uint32_t pixel = rows[i] | static_cast<std::uint32_t>(rows[kBlock + i]) << 8 |
                                static_cast<std::uint32_t>(rows[2 * kBlock + i]) << 16;
    std::memcpy(y + 3 * i, &pixel, 4);
  }
  for (std::int64_t c = 0; c < 3; ++c) y[3 * (n - 1) + c] = rows[c * kBlock + n - 1];
}

// At most kBlock pixels of all channels, from rows of `stride` numbers to bytes that lie side by
// side. `quantize`: of a row.
template <typename Quantize>
void quantize_pixels(const float* x, std::uint8_t* y, std::int64_t channels, std::int64_t stride,
                     std::int64_t n, Quantize&& quantize) {
  std::array<std::uint8_t, 3 * kBlock> rows;
  if (channels == 3 && std::endian::native == std::endian::little) {
    for (std::int64_t c = 0; c < 3; ++c) quantize(x + c * stride, rows.data() + c * kBlock, n);
    return interleave(rows.data(), y, n);
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    quantize(x + c * stride, rows.data(), n);
    for (std::int64_t i = 0; i < n; ++i) y[i * channels + c] = rows[static_cast<std::size_t>(i)];
  }
}

std::unique_ptr<Kernel> create_quantize_last(const KernelCreateContext& create) {
  const float scale = create.constant_input(1)->data<float>()[0];
  const Tensor* zero_point = create.constant_input(2);
  const DType dtype = create.output_dtype(0);
  float zero = 0;
  if (zero_point != nullptr) {
    zero = dtype == DType::kUInt8 ? static_cast<float>(zero_point->data<std::uint8_t>()[0])
                                  : static_cast<float>(zero_point->data<std::int8_t>()[0]);
  }
  return make_kernel([scale, zero, dtype](KernelContext& k) {
    const Tensor& x = k.input(0);
    Dims dims = x.dims();
    const std::int64_t channels = dims[1];
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
    Tensor& y = k.output(0, dtype, dims);
    if (y.count() == 0) return;
    const std::int64_t pixels = y.count() / (dims[0] * channels);
    const std::int64_t blocks = (pixels + kBlock - 1) / kBlock;
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (kBlock * channels));
    const VectorOps& ops = vector_ops();
    k.parallel_for(dims[0] * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (; begin < end; ++begin) {
        const std::int64_t first = begin % blocks * kBlock;
        const std::int64_t n = std::min(kBlock, pixels - first);
        const std::int64_t image = begin / blocks * channels * pixels;
        const float* from = x.data<float>() + image + first;
        const std::int64_t to = image + first * channels;
        quantize_pixels(from, static_cast<std::uint8_t*>(y.raw()) + to, channels, pixels, n,
                        [&](const float* a, std::uint8_t* b, std::int64_t count) {
                          if (dtype == DType::kUInt8) {
                            ops.quantize_u8(a, b, count, scale, zero);
                          } else {
                            ops.quantize_s8(a, reinterpret_cast<std::int8_t*>(b), count, scale,
                                            zero);
                          }
                        });
      }
    });
  });
}

constexpr std::int64_t kGrain = 16384;  // bytes per task

DType result_type(const Node& node) { return static_cast<DType>(node.attr_int("to", 0)); }

std::unique_ptr<Kernel> create_table(const KernelCreateContext& create) {
  const std::vector<std::int64_t> given = create.node().attr_ints("table");
  std::array<std::uint8_t, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(given.at(i));
  return make_kernel(
      [table, to = result_type(create.node())](KernelContext& k) {
        const Tensor& x = k.input(0);
        Tensor& y = k.output(0, to, x.dims());
        const auto* from = static_cast<const std::uint8_t*>(x.raw());
        auto* result = static_cast<std::uint8_t*>(y.raw());
        k.parallel_for(x.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
          vector_ops().lookup(table.data(), from + begin, result + begin, end - begin);
        });
      },
      {.in_place = {0}});
}

// Short rows that are repeated: A has the result's shape, B (outer, 1, inner) or (1, 1, inner)
// where that is (outer, repeats, inner).
struct Repeated {
  std::int64_t outer = 1, repeats = 1, inner = 1;
  bool advances = false;  // B has rows of its own per outer index
};

constexpr std::int64_t kLongRow = 256;  // that is long enough by itself
constexpr std::int64_t kTiled = 2048;   // bytes of repeated rows at a time

std::optional<Repeated> repeated_rows(const Dims& a, const Dims& b, const Dims& y) {
  if (a != y || b.size() != y.size()) return std::nullopt;
  Repeated found;
  std::size_t d = y.size();
  for (; d > 0 && b[d - 1] == y[d - 1]; --d) found.inner *= y[d - 1];
  for (; d > 0 && b[d - 1] == 1; --d) found.repeats *= y[d - 1];
  for (; d > 0 && b[d - 1] == y[d - 1]; --d) found.outer *= y[d - 1];
  found.advances = found.outer > 1;
  const bool worth = found.inner > 1 && found.inner < kLongRow && found.repeats > 1;
  return d == 0 && worth ? std::optional(found) : std::nullopt;
}

// fn(a, b, y, n) over whole tiles of B's rows.
template <typename Rows>
void over_tiles(const KernelContext& k, const Repeated& how, const std::byte* a, const std::byte* b,
                std::byte* y, Rows&& rows) {
  const std::int64_t tile = std::min(how.repeats, kTiled / how.inner);
  const std::int64_t tiles = (how.repeats + tile - 1) / tile;
  k.parallel_for(how.outer * tiles, 8, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::byte, kTiled> tiled;
    std::int64_t filled = -1;
    for (; begin < end; ++begin) {
      const std::int64_t outer = begin / tiles;
      const std::int64_t source = how.advances ? outer : 0;
      if (source != filled) {
        for (std::int64_t t = 0; t < tile; ++t) {
          std::copy_n(b + source * how.inner, how.inner, tiled.data() + t * how.inner);
        }
        filled = source;
      }
      const std::int64_t row = begin % tiles * tile;
      const std::int64_t at = (outer * how.repeats + row) * how.inner;
      rows(a + at, tiled.data(), y + at, std::min(tile, how.repeats - row) * how.inner);
    }
  });
}

// y = fn(a, b, y, n), element by element. `scalar`: the same for one of them that is repeated, the
// first where `swapped`.
template <typename Rows, typename Scalar>
void broadcast_bytes(KernelContext& k, DType to, Rows&& rows, Scalar&& scalar) {
  const std::array<const Tensor*, 2> inputs{&k.input(0), &k.input(1)};
  const Tensor& a = *inputs[0];
  const Tensor& b = *inputs[1];
  Tensor& y = k.output(0, to, broadcast_dims(a.dims(), b.dims()));
  if (y.count() == 0) return;
  const auto* x0 = static_cast<const std::byte*>(a.raw());
  const auto* x1 = static_cast<const std::byte*>(b.raw());
  auto* result = static_cast<std::byte*>(y.raw());
  if (const auto repeated = repeated_rows(a.dims(), b.dims(), y.dims())) {
    return over_tiles(k, *repeated, x0, x1, result, rows);
  }
  const BroadcastLoop loop(y.dims(), inputs);
  loop.run(k, 2, [&](std::int64_t out, const auto& offsets, std::int64_t n) {
    if (loop.dense(0) && loop.dense(1)) {
      rows(x0 + offsets[0], x1 + offsets[1], result + out, n);
    } else if (loop.dense(0)) {
      scalar(x0 + offsets[0], x1[offsets[1]], result + out, n, /*swapped=*/false);
    } else if (loop.dense(1)) {
      scalar(x1 + offsets[1], x0[offsets[0]], result + out, n, /*swapped=*/true);
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        rows(x0 + offsets[0], x1 + offsets[1], result + out + i, 1);
      }
    }
  });
}

float number(std::byte byte, bool is_signed) {
  return is_signed ? static_cast<float>(static_cast<std::int8_t>(byte))
                   : static_cast<float>(std::to_integer<std::uint8_t>(byte));
}

std::unique_ptr<Kernel> create_add(const KernelCreateContext& create) {
  const Node& node = create.node();
  const VectorOps::AddBytes how{node.attr_float("a_scale", 1), node.attr_float("b_scale", 1),
                                node.attr_float("shift", 0), node.attr_float("low", 0),
                                node.attr_float("high", 0)};
  return make_kernel([how, to = result_type(node)](KernelContext& k) {
    const std::array<bool, 2> is_signed{k.input(0).dtype() == DType::kInt8,
                                        k.input(1).dtype() == DType::kInt8};
    const auto& add = vector_ops().add_bytes;
    broadcast_bytes(
        k, to,
        [&](const std::byte* a, const std::byte* b, std::byte* y, std::int64_t n) {
          add[is_signed[0]][is_signed[1]](a, b, y, n, how);
        },
        [&](const std::byte* x, std::byte one, std::byte* y, std::int64_t n, bool swapped) {
          VectorOps::AddBytes rest = how;
          rest.a_scale = swapped ? how.b_scale : how.a_scale;
          rest.b_scale = 0;
          rest.shift +=
              number(one, is_signed[swapped ? 0 : 1]) * (swapped ? how.a_scale : how.b_scale);
          const bool s = is_signed[swapped ? 1 : 0];
          add[s][s](x, x, y, n, rest);
        });
  });
}

std::unique_ptr<Kernel> create_mul(const KernelCreateContext& create) {
  const Node& node = create.node();
  const VectorOps::MulBytes how{static_cast<std::int32_t>(node.attr_int("a_zero", 0)),
                                static_cast<std::int32_t>(node.attr_int("b_zero", 0)),
                                node.attr_float("scale", 1),
                                node.attr_float("shift", 0),
                                node.attr_float("low", 0),
                                node.attr_float("high", 0)};
  return make_kernel([how, to = result_type(node)](KernelContext& k) {
    const std::array<bool, 2> is_signed{k.input(0).dtype() == DType::kInt8,
                                        k.input(1).dtype() == DType::kInt8};
    const VectorOps& ops = vector_ops();
    broadcast_bytes(
        k, to,
        [&](const std::byte* a, const std::byte* b, std::byte* y, std::int64_t n) {
          ops.mul_bytes[is_signed[0]][is_signed[1]](a, b, y, n, how);
        },
        [&](const std::byte* x, std::byte one, std::byte* y, std::int64_t n, bool swapped) {
          const auto factor = number(one, is_signed[swapped ? 0 : 1]) -
                              static_cast<float>(swapped ? how.a_zero : how.b_zero);
          const float scale = factor * how.scale;
          const auto zero = static_cast<float>(swapped ? how.b_zero : how.a_zero);
          const VectorOps::AddBytes rest{scale, 0, how.shift - zero * scale, how.low, how.high};
          const bool s = is_signed[swapped ? 1 : 0];
          ops.add_bytes[s][s](x, x, y, n, rest);
        });
  });
}

}  // namespace

void register_int8_moves(KernelRegistry& registry) {
  registry.add({.domain = std::string(kDomain), .op = "Int8Table", .create = create_table});
  registry.add({.domain = std::string(kDomain), .op = "Int8Add", .create = create_add});
  registry.add({.domain = std::string(kDomain), .op = "Int8Mul", .create = create_mul});
  registry.add(
      {.domain = std::string(kDomain), .op = "QuantizeLast", .create = create_quantize_last});
}

}  // namespace xrt::native::dnn
