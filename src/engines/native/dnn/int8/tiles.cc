// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/int8/tiles.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "engines/native/context.h"
#include "engines/native/scratch.h"

namespace xrt::native::dnn {
namespace {

constexpr std::int64_t kColumns = ByteTiles::kColumns;
constexpr std::int64_t kBlock = 8 * ByteTiles::kRows;  // rows that a panel meets at a time
constexpr double kTaskWork = 1 << 17;                  // multiplications that are worth a thread

std::int64_t up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

const std::map<std::string_view, VectorOps::Unary VectorOps::*>& functions() {
  static const std::map<std::string_view, VectorOps::Unary VectorOps::*> table{
      {"Abs", &VectorOps::abs},
      {"Elu", &VectorOps::elu},
      {"Exp", &VectorOps::exp},
      {"GeluErf", &VectorOps::gelu},
      {"GeluTanh", &VectorOps::gelu_tanh},
      {"HardSigmoid", &VectorOps::hard_sigmoid},
      {"Log", &VectorOps::log},
      {"Sigmoid", &VectorOps::sigmoid},
      {"Sqrt", &VectorOps::sqrt},
      {"Square", &VectorOps::square},
      {"Swish", &VectorOps::silu},
      {"Tanh", &VectorOps::tanh},
  };
  return table;
}

using Kind = ByteTiles::Step::Kind;

const std::map<std::string_view, Kind>& kinds() {
  static const std::map<std::string_view, Kind> table{
      {"Add", Kind::kAdd},         {"Clip", Kind::kClip}, {"Div", Kind::kDiv},
      {"Linear", Kind::kLinear},   {"Mul", Kind::kMul},   {"HardSwish", Kind::kHardSwish},
      {"LeakyRelu", Kind::kLeaky}, {"Relu", Kind::kClip}, {"Sub", Kind::kSub},
      {"Sum", Kind::kSum},
  };
  return table;
}

ByteTiles::Result result_of(DType to) {
  switch (to) {
    case DType::kUInt8:
      return ByteTiles::Result::kUInt8;
    case DType::kInt8:
      return ByteTiles::Result::kInt8;
    case DType::kInt32:
      return ByteTiles::Result::kInt32;
    default:
      return ByteTiles::Result::kFloat32;
  }
}

}  // namespace

// --- what follows the sums -----------------------------------------------------------------------

TileTerms::TileTerms(const Int8Terms& terms, std::vector<PostOp> post_ops, const TilePanels& panels,
                     const Tensor& bias)
    : terms_(terms), post_ops_(std::move(post_ops)) {
  const auto size = static_cast<std::size_t>(panels.panels() * kColumns);
  factors_.assign(size, 0.0F);
  bias_.assign(size, 0.0F);
  for (std::int64_t p = 0; p < panels.panels(); ++p) {
    for (std::int64_t j = 0; j < panels.width(p); ++j) {
      const auto column = static_cast<std::size_t>(panels.first(p) + j);
      factors_[static_cast<std::size_t>(p * kColumns + j)] = terms.factors.at(column);
      bias_[static_cast<std::size_t>(p * kColumns + j)] = bias.data<float>()[column];
    }
  }
}

TileTerms::TileTerms(const TilePanels& panels) {
  terms_.to = DType::kInt32;
  const auto size = static_cast<std::size_t>(panels.panels() * kColumns);
  factors_.assign(size, 1.0F);
  bias_.assign(size, 0.0F);
}

// --- running -------------------------------------------------------------------------------------

TileProduct::TileProduct(KernelContext& context, const TilePanels& panels, const TileTerms& terms,
                         DType x)
    : context_(context), panels_(panels), terms_(terms), x_(x) {
  const Int8Terms& t = terms.terms();
  zero_ = t.x_zero;
  if (t.zero_input >= 0) {
    const void* zero = context.input(static_cast<std::size_t>(t.zero_input)).raw();
    zero_ = x == DType::kUInt8 ? *static_cast<const std::uint8_t*>(zero)
                               : *static_cast<const std::int8_t*>(zero);
  }
  if (x == DType::kInt8) zero_ += 128;
  if (t.scale_input >= 0) {
    scale_ = *context.input(static_cast<std::size_t>(t.scale_input)).data<float>();
  }
}

void TileProduct::copy(const std::uint8_t* from, std::int64_t count, std::uint8_t* to) const {
  const std::uint8_t flip = x_ == DType::kUInt8 ? 0 : 0x80;
  if (panels_.has_words()) {
    auto* words = reinterpret_cast<std::uint16_t*>(to);
    for (std::int64_t i = 0; i < count; ++i) words[i] = from[i] ^ flip;
  } else if (flip == 0) {
    std::memcpy(to, from, static_cast<std::size_t>(count));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] ^ flip;
  }
}

void TileProduct::fill(std::int64_t count, std::uint8_t* to) const {
  if (panels_.has_words()) {
    std::fill_n(reinterpret_cast<std::uint16_t*>(to), count, static_cast<std::uint16_t>(zero_));
  } else {
    std::memset(to, zero_, static_cast<std::size_t>(count));
  }
}

ByteTiles::Step TileProduct::step_of(const PostOp& op, std::int64_t elements) const {
  ByteTiles::Step step{.kind = Kind::kFunction, .alpha = op.alpha, .beta = op.beta};
  if (const auto function = functions().find(op.op); function != functions().end()) {
    step.function = vector_ops().*(function->second);
    return step;
  }
  const auto kind = kinds().find(op.op);
  if (kind == kinds().end()) {
    throw Error(ErrorCode::kInternal, "no post-op '" + op.op + "' on bytes");
  }
  step.kind = kind->second;
  if (op.op == "Relu") {
    step.kind = Kind::kClip;
    step.alpha = 0;
    step.beta = std::numeric_limits<float>::max();
  }
  if (!op.is_binary()) return step;
  const Tensor& operand = context_.input(static_cast<std::size_t>(op.input));
  if (operand.count() != elements) {
    throw Error(ErrorCode::kInvalidArgument,
                "an operand of shape " + to_string(std::span<const std::int64_t>(operand.dims())) +
                    " has not the result's " + std::to_string(elements) + " elements");
  }
  step.operand = operand.raw();
  step.is_signed = operand.dtype() == DType::kInt8;
  return step;
}

void TileProduct::run(std::int64_t count, const Rows& rows, std::span<const std::int64_t> offsets,
                      std::span<const std::int32_t> row_totals, Tensor& y) const {
  if (y.count() == 0) return;
  const ByteTiles& ops = *byte_tiles();
  const Int8Terms& terms = terms_.terms();
  std::vector<ByteTiles::Step> steps;
  for (const PostOp& op : terms_.post_ops()) steps.push_back(step_of(op, y.count()));
  Scratch<std::int32_t> row_zeros;
  for (const std::int32_t total : row_totals) {
    const auto depth = static_cast<std::int32_t>(panels_.runs() * panels_.length());
    row_zeros.push_back(terms.w_zero * (total - depth * zero_));
  }
  const std::int64_t tiles = up(count, ByteTiles::kRows);
  const std::int64_t blocks = up(count, kBlock);
  const std::int64_t wanted = 2 * context_.num_threads();
  const std::int64_t parts =
      std::clamp<std::int64_t>(up(wanted, blocks), 1, blocks >= wanted ? 1 : panels_.panels());
  const double work = panels_.row_work() * static_cast<double>(std::min(count, kBlock)) /
                      static_cast<double>(parts);
  const auto grain = static_cast<std::int64_t>(std::max(kTaskWork / work, 1.0));
  std::byte* out = static_cast<std::byte*>(y.raw());
  const auto task = [&](std::int64_t block, std::int64_t part) {
    const std::int64_t first = tiles * block / blocks * ByteTiles::kRows;
    const std::int64_t last = std::min(tiles * (block + 1) / blocks * ByteTiles::kRows, count);
    std::array<const std::uint8_t*, kBlock> addresses;
    const std::span<const std::uint8_t*> used(addresses.data(),
                                              static_cast<std::size_t>(last - first));
    rows(first, used);
    alignas(64) std::array<std::int32_t, ByteTiles::kRows * kColumns> sums;
    alignas(64) std::array<std::int32_t, kColumns> zeros;
    const std::int64_t panels = panels_.panels();
    for (std::int64_t p = panels * part / parts; p < panels * (part + 1) / parts; ++p) {
      for (std::int64_t j = 0; j < kColumns; ++j) {
        zeros[static_cast<std::size_t>(j)] = zero_ * panels_.totals(p)[j];
      }
      ByteTiles::Finish finish{
          .factors = terms_.factors_.data() + p * kColumns,
          .bias = terms_.bias_.data() + p * kColumns,
          .zeros = zeros.data(),
          .row_zeros = nullptr,
          .scale = scale_,
          .steps = steps.data(),
          .step_count = static_cast<std::int64_t>(steps.size()),
          .to = result_of(terms_.to()),
      };
      const std::int64_t* here = offsets.data() + panels_.group(p) * panels_.runs();
      for (std::int64_t r = first; r < last; r += ByteTiles::kRows) {
        const std::int64_t n = std::min(ByteTiles::kRows, last - r);
        panels_.multiply(
            ops, p, used.subspan(static_cast<std::size_t>(r - first), static_cast<std::size_t>(n)),
            here, sums.data());
        if (!row_zeros.empty()) finish.row_zeros = row_zeros.data() + r;
        ops.finish(sums.data(), n, panels_.width(p), finish, out,
                   r * panels_.columns() + panels_.first(p), panels_.columns());
      }
    }
  };
  context_.parallel_for(blocks * parts, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) task(i / parts, i % parts);
  });
}

}  // namespace xrt::native::dnn
