// SPDX-License-Identifier: Apache-2.0
#include "engines/native/compressed/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "ir/attributes.h"
#include "ir/pattern.h"

namespace xrt::native {
namespace {

// Fewer numbers are not worth a kernel of their own: they are dequantised once.
constexpr std::int64_t kLeastNumbers = 1 << 14;

bool is_compressed(DType dtype) {
  return dtype == DType::kInt4 || dtype == DType::kUInt4 || dtype == DType::kInt8 ||
         dtype == DType::kUInt8;
}

// A number less the middle of its type's range: from -8 or -128 on.
std::int32_t centred_number(const Tensor& t, std::int64_t i) {
  const auto* bytes = static_cast<const std::uint8_t*>(t.raw());
  switch (t.dtype()) {
    case DType::kInt4:
      return ((bytes[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8;
    case DType::kUInt4:
      return (bytes[i / 2] >> (i % 2 * 4) & 15) - 8;
    case DType::kInt8:
      return static_cast<std::int8_t>(bytes[i]);
    default:
      return bytes[i] - 128;
  }
}

std::int64_t whole(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

}  // namespace

std::optional<CompressedMatrix> compressed_matrix(const Graph& graph, ValueId value,
                                                  std::size_t axis) {
  const Node* node = producer(graph, value, "DequantizeLinear");
  if (node == nullptr) return std::nullopt;
  const Tensor* q = graph.constant(node->input(0));
  const Tensor* scale = graph.constant(node->input(1));
  const Tensor* zero = node->input(2).valid() ? graph.constant(node->input(2)) : nullptr;
  if (q == nullptr || scale == nullptr || (node->input(2).valid() && zero == nullptr) ||
      q->rank() != 2 || !is_compressed(q->dtype()) || q->count() < kLeastNumbers ||
      (scale->dtype() != DType::kFloat32 && scale->dtype() != DType::kFloat16) ||
      graph.type(value).dtype != scale->dtype()) {
    return std::nullopt;
  }
  if (zero != nullptr && (zero->dtype() != q->dtype() || zero->dims() != scale->dims())) {
    return std::nullopt;
  }
  CompressedMatrix m{node->input(0), node->input(1), node->input(2), axis, 0};
  const std::int64_t depth = q->dims()[axis];
  const std::int64_t columns = q->dims()[1 - axis];
  const std::int64_t given_axis = need_int(*node, "axis");
  m.block = need_int(*node, "block_size");
  if (m.block == 0) {
    m.block = depth;
    const bool by_column = scale->rank() == 1 && scale->count() == columns &&
                           given_axis == 1 - static_cast<std::int64_t>(axis);
    if (!by_column && scale->count() != 1) return std::nullopt;
    return m;
  }
  Dims blocks = q->dims();
  blocks[axis] = whole(depth, m.block);
  if (given_axis != static_cast<std::int64_t>(axis) || scale->dims() != blocks) return std::nullopt;
  if (m.block >= depth) {
    m.block = depth;
  } else if (m.block % 8 != 0) {
    return std::nullopt;
  }
  return m;
}

void BlockWeights::set_sizes(const Tensor& q, std::size_t axis, std::int64_t block) {
  bits_ = bit_width(q.dtype());
  depth_ = q.dims()[axis];
  columns_ = q.dims()[1 - axis];
  block_ = block;
  const std::int64_t word = 32 / bits_;
  padded_ = whole(depth_, word) * word;
  // A block that ends with the numbers ends with the last word.
  if (block_ >= depth_) block_ = padded_;
  blocks_ = whole(padded_, block_);
  panels_ = whole(columns_, panel_ops().panel);
}

std::string BlockWeights::layout() const {
  return fmt::format("{} bits, panels of {}", bits_, panel_ops().panel);
}

BlockWeights::BlockWeights(const Tensor& q, const Tensor& scale, const Tensor* zero,
                           const Tensor* offset, std::size_t axis, std::int64_t block) {
  set_sizes(q, axis, block);
  const std::int64_t panel = panel_ops().panel;
  const std::int64_t word = 32 / bits_;
  const auto mask = static_cast<std::uint32_t>((1ULL << bits_) - 1);
  words_ = allocate_checked(DType::kUInt32, {panels_, padded_ / word, panel});
  auto* to = words_.data<std::uint32_t>();
  std::fill_n(to, words_.count(), 0U);
  const std::int64_t k_step = axis == 0 ? columns_ : 1;
  const std::int64_t n_step = axis == 0 ? 1 : depth_;
  for (std::int64_t p = 0; p < panels_; ++p) {
    const std::int64_t width = std::min(panel, columns_ - p * panel);
    for (std::int64_t k = 0; k < depth_; ++k) {
      const std::int64_t i = k % word;
      const std::int64_t shift = bits_ == 8 ? 8 * i : i < 4 ? 8 * i : 8 * (i - 4) + 4;
      std::uint32_t* line = to + (p * (padded_ / word) + k / word) * panel;
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int32_t number = centred_number(q, k * k_step + (p * panel + j) * n_step);
        line[j] |= (static_cast<std::uint32_t>(number) & mask) << shift;
      }
    }
  }
  std::vector<float> factors(static_cast<std::size_t>(scale.count()));
  load_float(scale.dtype(), scale.raw(), 0, scale.count(), factors.data());
  // Of a block and a column, in `scale`.
  const auto place = [&](std::int64_t b, std::int64_t n) {
    if (scale.count() == 1) return std::int64_t{0};
    if (scale.rank() == 1) return n;
    return axis == 0 ? b * columns_ + n : n * blocks_ + b;
  };
  const bool is_unsigned = q.dtype() == DType::kUInt4 || q.dtype() == DType::kUInt8;
  const std::int32_t absent = is_unsigned ? -(1 << (bits_ - 1)) : 0;
  scales_ = allocate_checked(DType::kFloat32, {panels_, blocks_, panel});
  Tensor zeros = allocate_checked(DType::kInt8, {panels_, blocks_, panel});
  if (offset != nullptr) offsets_ = allocate_checked(DType::kFloat32, {panels_, blocks_, panel});
  std::int32_t least = 127;
  std::int32_t most = -128;
  for (std::int64_t p = 0, at = 0; p < panels_; ++p) {
    for (std::int64_t b = 0; b < blocks_; ++b) {
      for (std::int64_t j = 0; j < panel; ++j, ++at) {
        const std::int64_t n = p * panel + j;
        const bool fills = n >= columns_;  // the last panel
        scales_.data<float>()[at] = fills ? 0.0F : factors[static_cast<std::size_t>(place(b, n))];
        if (offset != nullptr) {
          offsets_.data<float>()[at] = fills ? 0.0F : offset->data<float>()[b * columns_ + n];
        }
        if (fills) {
          zeros.data<std::int8_t>()[at] = 0;
          continue;
        }
        const std::int32_t z = zero == nullptr ? absent : centred_number(*zero, place(b, n));
        zeros.data<std::int8_t>()[at] = static_cast<std::int8_t>(z);
        least = std::min(least, z);
        most = std::max(most, z);
      }
    }
  }
  if (least < most) {
    zeros_ = std::move(zeros);
  } else {
    zero_ = least;
  }
  keep_halves();
}

namespace {

// Empty where a number would be rounded.
Tensor exact_halves(const Tensor& numbers) {
  if (!numbers.defined()) return {};
  Tensor halves = allocate_checked(DType::kFloat16, numbers.dims());
  std::vector<float> back(static_cast<std::size_t>(numbers.count()));
  vector_ops().float_to_half(numbers.data<float>(), static_cast<std::uint16_t*>(halves.raw()),
                             numbers.count());
  vector_ops().half_to_float(static_cast<const std::uint16_t*>(halves.raw()), back.data(),
                             numbers.count());
  const bool is_exact = std::memcmp(back.data(), numbers.raw(), numbers.bytes()) == 0;
  return is_exact ? halves : Tensor();
}

}  // namespace

// What was float16 in a file stays so: reading it is what products with one row wait for.
void BlockWeights::keep_halves() {
  if (!panel_ops().takes_halves) return;
  Tensor scales = exact_halves(scales_);
  Tensor offsets = exact_halves(offsets_);
  if (!scales.defined() || offsets.defined() != offsets_.defined()) return;
  scales_ = std::move(scales);
  offsets_ = std::move(offsets);
}

BlockWeights::BlockWeights(StoredWeights& stored, const Tensor& q, std::size_t axis,
                           std::int64_t block) {
  set_sizes(q, axis, block);
  const std::int64_t panel = panel_ops().panel;
  const auto take = [&](const std::string& name, DType dtype, Dims dims) {
    const Tensor bytes = stored.take(name, byte_count(dtype, dims));
    return Tensor::wrap(dtype, std::move(dims), const_cast<void*>(bytes.raw()), bytes.owner());
  };
  words_ = take(layout(), DType::kUInt32, {panels_, padded_ * bits_ / 32, panel});
  // Float32, or float16 where there are half as many bytes.
  const auto take_factors = [&](const std::string& name) -> Tensor {
    const Dims dims{panels_, blocks_, panel};
    const bool is_half = stored.next_bytes() == byte_count(DType::kFloat16, dims);
    if (stored.next_bytes() == 0) {
      stored.take(name, 0);
      return {};
    }
    return take(name, is_half ? DType::kFloat16 : DType::kFloat32, dims);
  };
  scales_ = take_factors("scales");
  offsets_ = take_factors("offsets");
  if (stored.next_bytes() > 0) {
    zeros_ = take("zeros", DType::kInt8, {panels_, blocks_, panel});
  } else {
    stored.take("zeros", 0);
  }
  zero_ = take("zero", DType::kInt32, {1}).data<std::int32_t>()[0];
}

void BlockWeights::save(FlatWriter& writer) const {
  const auto put = [&](const std::string& name, const Tensor& t) {
    writer.text(name);
    writer.bytes({static_cast<const char*>(t.raw()), t.bytes()});
  };
  const auto put_optional = [&](const std::string& name, const Tensor& t) {
    if (t.defined()) {
      put(name, t);
    } else {
      writer.text(name).bytes({});
    }
  };
  put(layout(), words_);
  put("scales", scales_);
  put_optional("offsets", offsets_);
  put_optional("zeros", zeros_);
  writer.text("zero").bytes({reinterpret_cast<const char*>(&zero_), sizeof(zero_)});
}

BlockPanel BlockWeights::panel(std::int64_t i) const {
  const std::int64_t width = panel_ops().panel;
  const std::int64_t at = i * blocks_ * width;
  const auto factors = [&](const Tensor& t) -> const void* {
    if (!t.defined()) return nullptr;
    return static_cast<const std::byte*>(t.raw()) + byte_count(t.dtype(), Dims{at});
  };
  return {.words = words_.data<std::uint32_t>() + i * (padded_ * bits_ / 32) * width,
          .scales = factors(scales_),
          .offsets = factors(offsets_),
          .zeros = zeros_.defined() ? zeros_.data<std::int8_t>() + at : nullptr,
          .zero = zero_,
          .depth = padded_,
          .block = block_,
          .bits = bits_,
          .has_halves = scales_.dtype() == DType::kFloat16};
}

std::size_t BlockWeights::bytes() const {
  const auto of = [](const Tensor& t) { return t.defined() ? t.bytes() : 0; };
  return of(words_) + of(scales_) + of(offsets_) + of(zeros_);
}

}  // namespace xrt::native
