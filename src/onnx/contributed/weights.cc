// SPDX-License-Identifier: Apache-2.0
// Products with, and rows of, weights of a few bits a number, scaled in blocks.
#include "onnx/contributed/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "xrt/error.h"

namespace xrt::contributed {
namespace {

// Constants are made as tensors, whose memory is bounded.
Tensor bytes_of(std::int64_t count) { return Tensor::allocate(DType::kUInt8, {count}); }

void check_block(std::int64_t block, std::int64_t bits) {
  if (block < 1 || block > kLength.most || (bits != 2 && bits != 4 && bits != 8)) {
    throw Error(
        ErrorCode::kInvalidModel,
        fmt::format("blocks of {} numbers of {} bits: 2, 4 and 8 bits are defined", block, bits));
  }
}

// The numbers of a constant whose bytes hold 8 / bits of them each, low bits first.
Tensor unpacked(const Tensor& packed, std::int64_t bits) {
  const auto* bytes = packed.data<std::uint8_t>();
  const auto mask = static_cast<unsigned>((1U << bits) - 1U);
  Tensor numbers = bytes_of(product({static_cast<std::int64_t>(packed.bytes()), 8 / bits}));
  auto* number = numbers.data<std::uint8_t>();
  for (std::size_t i = 0; i < packed.bytes(); ++i) {
    for (std::int64_t shift = 0; shift < 8; shift += bits) {
      *number++ = static_cast<std::uint8_t>((bytes[i] >> shift) & mask);
    }
  }
  return numbers;
}

// Numbers below 16 two a byte, others one a byte.
Tensor as_small_type(const Tensor& numbers, Dims dims, std::int64_t bits) {
  if (bits == 8) return numbers.reshaped(std::move(dims));
  Tensor packed = Tensor::allocate(DType::kUInt4, std::move(dims));
  auto* bytes = static_cast<std::uint8_t*>(packed.raw());
  std::memset(bytes, 0, packed.bytes());
  const auto* number = numbers.data<std::uint8_t>();
  for (std::int64_t i = 0; i < numbers.count(); ++i) {
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | number[i] << (i % 2 == 0 ? 0 : 4));
  }
  return packed;
}

}  // namespace

ValueId unpacked_bits(Rewriting& r, ValueId v, std::int64_t bits) {
  check_block(1, bits);
  if (bits == 8) return v;
  const auto byte = [&](std::int64_t number) { return r.cast(r.whole(number), DType::kUInt8); };
  Values parts;
  for (std::int64_t shift = 0; shift < 8; shift += bits) {
    const ValueId shifted =
        shift == 0 ? v : r.op("BitShift", {v, byte(shift)}, {{"direction", std::string("RIGHT")}});
    parts.push_back(r.unsqueeze(r.op("BitwiseAnd", {shifted, byte((1 << bits) - 1)}), {-1}));
  }
  return r.reshape_to(r.concat(parts, -1), r.concat({r.shape(v, 0, -1), r.ints({-1})}));
}

ValueId block_dequantised(Rewriting& r, const BlockWeights& w) {
  check_block(w.block, w.bits);
  if (w.columns < 0 || w.columns > kLength.most) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("its weights have {} columns", w.columns));
  }
  const std::int64_t blocks = (w.columns + w.block - 1) / w.block;
  const std::int64_t padded = blocks * w.block;
  product({w.rows, padded});  // throws where it is too large
  const std::int64_t row_points = (blocks * w.bits + 7) / 8 * (8 / w.bits);
  const ValueId scales = r.reshape(w.scales, {w.rows, blocks});
  const Tensor q = r.known(w.packed, {DType::kUInt8, DType::kInt8, DType::kInt32});
  const bool float_zeros = w.zeros.valid() && r.dtype(w.zeros) != DType::kUInt8;
  const Tensor zeros = float_zeros ? Tensor() : r.known(w.zeros);
  if (!q.defined() || float_zeros || w.zeros.valid() != zeros.defined()) {
    const auto spread = [&](ValueId v) { return r.unsqueeze(v, {2}); };
    const ValueId numbers = r.reshape(unpacked_bits(r, r.reshape(w.packed, {w.rows, -1}), w.bits),
                                      {w.rows, blocks, w.block});
    ValueId points = w.zeros;
    if (!points.valid()) {
      points = r.number(static_cast<double>(1 << (w.bits - 1)), scales);
    } else if (float_zeros) {
      points = spread(r.reshape(points, {w.rows, blocks}));
    } else {
      const ValueId all = unpacked_bits(r, r.reshape(points, {w.rows, -1}), w.bits);
      points = spread(r.cast_like(r.slice(all, {0}, {blocks}, {1}), scales));
    }
    const ValueId products = r.mul(r.sub(r.cast_like(numbers, scales), points), spread(scales));
    const ValueId lines = r.reshape(products, {w.rows, padded});
    return r.transpose(padded == w.columns ? lines : r.slice(lines, {0}, {w.columns}, {1}), {1, 0});
  }
  const Tensor numbers = unpacked(q, w.bits);
  const Tensor given = zeros.defined() ? unpacked(zeros, w.bits) : Tensor();
  if (numbers.count() < w.rows * padded ||
      (zeros.defined() && given.count() < product({w.rows, row_points}))) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("its weights or zero points are too few for {} rows of {} blocks of {}",
                            w.rows, blocks, w.block));
  }
  Tensor turned_bytes = bytes_of(w.rows * w.columns);
  Tensor points_bytes = bytes_of(w.rows * blocks);
  const auto* number = numbers.data<std::uint8_t>();
  auto* turned = turned_bytes.data<std::uint8_t>();
  auto* points = points_bytes.data<std::uint8_t>();
  std::fill_n(points, w.rows * blocks, static_cast<std::uint8_t>(1U << (w.bits - 1)));
  for (std::int64_t row = 0; row < w.rows && w.columns > 0; ++row) {
    for (std::int64_t i = 0; i < w.columns; ++i) {
      turned[i * w.rows + row] = number[row * padded + i];
    }
    for (std::int64_t i = 0; i < blocks && zeros.defined(); ++i) {
      points[i * w.rows + row] = given.data<std::uint8_t>()[row * row_points + i];
    }
  }
  return r.op("DequantizeLinear",
              {r.constant(as_small_type(turned_bytes, {w.columns, w.rows}, w.bits)),
               r.transpose(scales, {1, 0}),
               r.constant(as_small_type(points_bytes, {blocks, w.rows}, w.bits))},
              {{"axis", std::int64_t{0}}, {"block_size", w.block}});
}

namespace {

// As block_dequantised, but number i of a row has the scale and zero point `groups`[i]. Zero points
// are not packed.
ValueId picked_dequantised(Rewriting& r, const BlockWeights& w, ValueId groups) {
  const std::int64_t blocks = (w.columns + w.block - 1) / w.block;
  const ValueId chosen = r.slice(groups, {0}, {w.columns}, {0});
  const auto picked = [&](ValueId v) {
    return r.gather(r.reshape(v, {w.rows, blocks}), chosen, 1);
  };
  const ValueId scales = picked(w.scales);
  const ValueId points =
      w.zeros.valid() ? picked(w.zeros) : r.number(static_cast<double>(1 << (w.bits - 1)), scales);
  const ValueId numbers = unpacked_bits(r, r.reshape(w.packed, {w.rows, -1}), w.bits);
  const ValueId rows = r.cast_like(r.slice(numbers, {0}, {w.columns}, {1}), scales);
  return r.transpose(r.mul(r.sub(rows, points), scales), {1, 0});
}

void rewrite_matmul_nbits(Rewriting& r) {
  BlockWeights w;
  w.bits = r.int_attr("bits", 4, kBits);
  w.block = r.required_int("block_size", kLength);
  w.rows = r.required_int("N", kLength);
  w.columns = r.required_int("K", kLength);
  check_block(w.block, w.bits);
  if (r.flag("weight_prepacked")) {
    r.refuse("weights in the layout of one engine (weight_prepacked)");
  }
  w.packed = r.need(1);
  w.scales = r.need(2);
  w.zeros = r.input(3);
  const bool grouped = r.input(4).valid();
  if (grouped && (w.bits != 4 || (w.zeros.valid() && r.dtype(w.zeros) == DType::kUInt8))) {
    r.refuse(
        "g_idx with 2 or 8 bits, or with packed zero points, which ONNX Runtime does not read "
        "there");
  }
  const ValueId weights = grouped ? picked_dequantised(r, w, r.input(4)) : block_dequantised(r, w);
  const ValueId y = r.matmul(r.need(0), weights);
  r.finish({r.input(5).valid() ? r.add(y, r.input(5)) : y});
}

// The sixteen numbers of bitsandbytes' types FP4 and NF4, as its code has them.
constexpr std::array<float, 16> kFp4 = {
    0.0F,  5.208333333e-03F,  0.66666667F,  1.0F,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
    -0.0F, -5.208333333e-03F, -0.66666667F, -1.0F, -0.33333333F, -0.5F, -0.16666667F, -0.25F};
constexpr std::array<float, 16> kNf4 = {-1.0F,        -0.69619280F, -0.52507305F, -0.39491749F,
                                        -0.28444138F, -0.18477343F, -0.09105004F, 0.0F,
                                        0.07958030F,  0.16093020F,  0.24611230F,  0.33791524F,
                                        0.44070983F,  0.56261700F,  0.72295684F,  1.0F};

// Weights (N, K) as one list of numbers in a table of 16, two a byte, high bits first; one factor
// for each block of the list.
void rewrite_matmul_bnb4(Rewriting& r) {
  const auto block = r.required_int("block_size", kLength);
  const auto rows = r.required_int("N", kLength);
  const auto columns = r.required_int("K", kLength);
  const bool trans_b = r.flag("transB", true);
  const auto& table = r.required_int("quant_type", {0, 1}) == 1 ? kNf4 : kFp4;
  check_block(block, 4);
  const ValueId a = r.need(0);
  const ValueId low_first = r.reshape(unpacked_bits(r, r.need(1), 4), {-1, 2});
  const ValueId indices = r.gather(r.cast(low_first, DType::kInt32), r.ints({1, 0}), 1);
  const ValueId lut = r.cast_like(r.constant(Tensor::from<float>(DType::kFloat32, {16}, table)), a);
  const std::int64_t count = rows * columns;
  ValueId numbers = r.reshape(r.gather(lut, indices), {-1});
  const std::int64_t blocks = (count + block - 1) / block;
  const std::int64_t missing = blocks * block - (count + 1) / 2 * 2;
  if (missing > 0) {
    numbers = r.op("Pad", {numbers, r.ints({0, missing})});
  }
  const ValueId factors = r.reshape(r.need(2), {blocks, 1});
  const ValueId listed = r.slice(numbers, {0}, {blocks * block}, {0});
  ValueId weights = r.reshape(r.mul(r.reshape(listed, {blocks, block}), factors), {-1});
  weights = r.reshape(r.slice(weights, {0}, {count}, {0}), {rows, columns});
  r.finish({r.matmul(a, trans_b ? r.transpose(weights, {1, 0}) : weights)});
}

// Blocks of 32 or 64 numbers of a column, one behind the other: a float32 scale, for one of the
// types a zero point of a byte, and the numbers, the first 16 of each 32 in the low bits.
void rewrite_matmul_fp_q4(Rewriting& r) {
  const auto kind = r.int_attr("blk_quant_type", 1, {0, 2});
  const Tensor blob = r.known(r.need(1), {DType::kUInt8});
  const Tensor shape = r.known(r.need(2), {DType::kInt64});
  if (!blob.defined() || !shape.defined() || shape.count() != 2) {
    r.refuse("weights that are no constant");
  }
  const Ints dims = shape.to_int64();
  const std::int64_t rows = dims[0];
  const std::int64_t columns = dims[1];
  for (const std::int64_t d : dims) {
    if (d < 1 || d > kLength.most) {
      throw Error(ErrorCode::kInvalidModel, fmt::format("its weights have the size {}", d));
    }
  }
  const std::int64_t block = kind == 2 ? 64 : 32;
  const bool has_zero = kind == 1;
  const std::int64_t blocks = (rows + block - 1) / block;
  const std::int64_t stride = 4 + (has_zero ? 1 : 0) + block / 2;
  if (static_cast<std::int64_t>(blob.bytes()) < product({columns, blocks, stride})) {
    throw Error(ErrorCode::kInvalidModel, "its blob of weights is too short");
  }
  Tensor weights = Tensor::allocate(DType::kFloat32, {rows, columns});
  const auto* at = blob.data<std::uint8_t>();
  for (std::int64_t n = 0; n < columns; ++n) {
    for (std::int64_t b = 0; b < blocks; ++b, at += stride) {
      float scale = 0.0F;
      std::memcpy(&scale, at, sizeof(scale));
      const int zero = has_zero ? at[4] : 8;
      const std::uint8_t* numbers = at + 4 + (has_zero ? 1 : 0);
      for (std::int64_t i = 0; i < block && b * block + i < rows; ++i) {
        const std::uint8_t byte = numbers[i / 32 * 16 + i % 16];
        const int number = i % 32 < 16 ? byte & 15 : byte >> 4;
        weights.data<float>()[(b * block + i) * columns + n] =
            static_cast<float>(number - zero) * scale;
      }
    }
  }
  r.become("MatMul", {r.need(0), r.constant(std::move(weights))});
}

// Rows of a table in blocks: they are taken first, so that only they are computed.
void rewrite_gather_block_quantized(Rewriting& r) {
  std::int64_t bits = r.int_attr("bits", 4, kBits);
  const auto block = r.int_attr("block_size", 128, kLength);
  const ValueId indices = r.need(1);
  const ValueId scales = r.need(2);
  ValueId data = r.need(0);
  ValueId zeros = r.input(3);
  const auto rank = static_cast<std::int64_t>(r.need_rank(0));
  const auto gather_axis = static_cast<std::int64_t>(r.axis_attr("gather_axis", 0, r.need_rank(0)));
  const auto axis = static_cast<std::int64_t>(r.axis_attr("quantize_axis", 1, r.need_rank(0)));
  const DType type = r.dtype(data);
  const Tensor known = r.known(data);
  if (type == DType::kUInt8 && (gather_axis != 0 || axis != rank - 1)) {
    check_block(block, bits);
    r.refuse("bytes that are not gathered at their first axis and scaled along their last one");
  }
  const bool four = type == DType::kUInt4 || type == DType::kInt4;
  const Tensor known_zeros = four ? r.known(zeros, {type}) : r.known(zeros);
  const auto is_even = [](const Tensor& t) { return t.rank() > 0 && t.dims().back() % 2 == 0; };
  // Two numbers a byte, as bytes.
  const auto as_bytes = [&](const Tensor& t) {
    Dims dims = t.dims();
    dims.back() /= 2;
    return r.constant(Tensor::wrap(DType::kUInt8, dims, const_cast<void*>(t.raw()), t.owner()));
  };
  const bool bytes_work = four && gather_axis == 0 && axis == rank - 1 && known.defined() &&
                          is_even(known) && (!zeros.valid() || known_zeros.defined());
  if (type != DType::kUInt8 && !bytes_work) {
    const ValueId table =
        r.op("DequantizeLinear", {data, scales, zeros}, {{"axis", axis}, {"block_size", block}});
    return r.become("Gather", {table, indices}, {{"axis", gather_axis}});
  }
  const auto signs = [&](ValueId numbers) {  // of four bits
    if (type != DType::kInt4) return numbers;
    const ValueId above = r.op("GreaterOrEqual", {numbers, r.number(8.0, numbers)});
    return r.where(above, r.sub(numbers, r.number(16.0, numbers)), numbers);
  };
  const ValueId factors = r.gather(scales, indices);
  double point = 0.0;
  ValueId points;
  if (four) {
    bits = 4;
    data = as_bytes(known);
    if (known_zeros.defined()) {
      // A row of zero points may be of odd length.
      const Tensor all = unpacked(known_zeros, 4);
      const ValueId table = r.constant(Tensor::from(
          DType::kUInt8, known_zeros.dims(),
          std::span<const std::uint8_t>(all.data<std::uint8_t>(),
                                        static_cast<std::size_t>(known_zeros.count()))));
      points = r.gather(table, indices);
    }
  } else {
    check_block(block, bits);
    point = static_cast<double>(1 << (bits - 1));
    if (zeros.valid()) {
      points = r.op("Slice", {unpacked_bits(r, r.gather(zeros, indices), bits), r.ints({0}),
                              r.shape(factors, -1), r.ints({-1})});
    }
  }
  const ValueId q = signs(r.cast_like(unpacked_bits(r, r.gather(data, indices), bits), scales));
  points = points.valid() ? signs(r.cast_like(points, scales)) : r.number(point, scales);
  const ValueId size = r.squeeze(r.shape(q, -1), {0});
  const ValueId block_of = r.div(r.range(size), r.whole(block));
  const auto spread = [&](ValueId v) { return r.rank(v) == 0U ? v : r.gather(v, block_of, -1); };
  r.finish({r.mul(r.sub(q, spread(points)), spread(factors))});
}

constexpr auto kWeights = std::to_array<Entry>({
    {kMicrosoft, "GatherBlockQuantized", rewrite_gather_block_quantized},
    {kMicrosoft, "MatMulBnb4", rewrite_matmul_bnb4},
    {kMicrosoft, "MatMulFpQ4", rewrite_matmul_fp_q4},
    {kMicrosoft, "MatMulNBits", rewrite_matmul_nbits},
});

}  // namespace

std::span<const Entry> weight_ops() { return kWeights; }

}  // namespace xrt::contributed
