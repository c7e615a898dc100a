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

namespace xrt::native::dnn {
namespace {

constexpr std::int64_t kColumns = ByteTiles::kColumns;
constexpr std::int64_t kQuad = ByteTiles::kQuad;
constexpr std::int64_t kPair = ByteTiles::kPair;
constexpr std::int64_t kBlock = 8 * ByteTiles::kRows;  // rows that a panel meets at a time
// Multiplications of bytes and of words take so much of the time of one in float32, and halves of
// more weights than that are slower than words.
constexpr double kByteTime = 0.5;
constexpr double kWordTime = 0.65;
constexpr double kMostHalved = kWordTime / kByteTime - 1;
constexpr double kTaskWork = 1 << 17;  // multiplications that are worth a thread

std::int64_t up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

Tensor zeroed(DType dtype, std::int64_t count) {
  Tensor made = Tensor::allocate(dtype, {count});
  std::memset(made.raw(), 0, made.bytes());
  return made;
}

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

// --- weights -------------------------------------------------------------------------------------

TilePanels::TilePanels(const TileMatrix& w)
    : groups_(w.groups),
      columns_(w.columns),
      runs_(w.runs),
      length_(w.length),
      panels_(up(w.columns / w.groups, kColumns)) {
  if (w.depthwise) {
    pack_channels(w);
    return;
  }
  pack_bytes(w);
  if (static_cast<double>(second_.size()) > kMostHalved * static_cast<double>(first_.count())) {
    pack_words(w);
  }
}

double TilePanels::most_work(const TileMatrix& w) {
  const std::int64_t columns = w.groups * up(w.columns / w.groups, kColumns) * kColumns;
  if (w.depthwise) return static_cast<double>(columns * up(w.runs, 2) * 2);
  return kWordTime * static_cast<double>(columns * w.runs * up(w.length, kQuad) * kQuad);
}

std::int64_t TilePanels::first(std::int64_t p) const {
  return p / panels_ * (columns_ / groups_) + p % panels_ * kColumns;
}

std::int64_t TilePanels::width(std::int64_t p) const {
  return std::min(kColumns, columns_ / groups_ - p % panels_ * kColumns);
}

const std::int32_t* TilePanels::totals(std::int64_t p) const {
  return totals_.data() + p * kColumns;
}

double TilePanels::row_work() const {
  const auto first = static_cast<double>(first_.count());
  if (form_ == Form::kChannels) return first;
  return (form_ == Form::kWords ? kWordTime : kByteTime) *
         (first + static_cast<double>(second_.size()));
}

std::size_t TilePanels::bytes() const {
  return first_.bytes() + second_.size() + extras_.size() * sizeof(ByteTiles::Quad) +
         totals_.size() * sizeof(std::int32_t);
}

namespace {

// fn(run, place, weight) of all weights of a column.
template <typename F>
void over_column(const TileMatrix& w, std::int64_t column, F&& fn) {
  for (std::int64_t run = 0; run < w.runs; ++run) {
    const std::int8_t* outer = w.data + column * w.column_step + run * w.run_step;
    for (std::int64_t i = 0; i < w.length; outer += w.outer_step) {
      const std::int8_t* from = outer;
      for (std::int64_t end = i + w.inner; i < end; ++i, from += w.inner_step) fn(run, i, *from);
    }
  }
}

// The weights of one column that four bytes of a row are multiplied with: a pair whose products
// with 255 do not fit into 16 bits becomes two halves. False where there is none.
bool halve(std::int8_t* quad, std::int8_t* second) {
  bool halved = false;
  for (std::int64_t i = 0; i < kQuad; i += 2) {
    const int sum = quad[i] + quad[i + 1];
    if (sum >= -128 && sum <= 128) continue;
    for (std::int64_t h = i; h < i + 2; ++h) {
      second[h] = static_cast<std::int8_t>(quad[h] / 2);
      quad[h] = static_cast<std::int8_t>(quad[h] - second[h]);
    }
    halved = true;
  }
  return halved;
}

}  // namespace

void TilePanels::pack_bytes(const TileMatrix& w) {
  quads_ = up(length_, kQuad);
  const std::int64_t each = runs_ * quads_ * kQuad * kColumns;
  first_ = zeroed(DType::kInt8, panels() * each);
  totals_.assign(static_cast<std::size_t>(panels() * kColumns), 0);
  for (std::int64_t p = 0; p < panels(); ++p) {
    std::int8_t* panel = first_.data<std::int8_t>() + p * each;
    for (std::int64_t j = 0; j < width(p); ++j) {
      std::int32_t& total = totals_[static_cast<std::size_t>(p * kColumns + j)];
      over_column(w, first(p) + j, [&](std::int64_t run, std::int64_t i, std::int8_t number) {
        panel[((run * quads_ + i / kQuad) * kColumns + j) * kQuad + i % kQuad] = number;
        total += number;
      });
    }
  }
  // Of each half of a panel, what has to be added a second time.
  constexpr std::int64_t kHalf = kColumns / 2;
  std::array<std::int8_t, kQuad * kHalf> second{};
  extra_begins_.assign(1, 0);
  for (std::int64_t half = 0; half < 2 * panels(); ++half) {
    std::int8_t* at_quad = first_.data<std::int8_t>() + half / 2 * each + half % 2 * kHalf * kQuad;
    for (std::int64_t q = 0; q < runs_ * quads_; ++q, at_quad += kQuad * kColumns) {
      second.fill(0);
      bool halved = false;
      for (std::int64_t j = 0; j < kHalf; ++j) {
        halved = halve(at_quad + j * kQuad, second.data() + j * kQuad) || halved;
      }
      if (!halved) continue;
      second_.insert(second_.end(), second.begin(), second.end());
      extras_.push_back(
          {static_cast<std::int32_t>(q / quads_), static_cast<std::int32_t>(q % quads_ * kQuad)});
    }
    extra_begins_.push_back(static_cast<std::int64_t>(extras_.size()));
  }
  second_.shrink_to_fit();
  extras_.shrink_to_fit();
}

void TilePanels::pack_words(const TileMatrix& w) {
  form_ = Form::kWords;
  quads_ = up(length_, kPair);
  second_ = {};
  extras_ = {};
  extra_begins_ = {};
  const std::int64_t each = runs_ * quads_ * kPair * kColumns;
  first_ = zeroed(DType::kInt8, panels() * each);
  for (std::int64_t p = 0; p < panels(); ++p) {
    std::int8_t* panel = first_.data<std::int8_t>() + p * each;
    for (std::int64_t j = 0; j < width(p); ++j) {
      over_column(w, first(p) + j, [&](std::int64_t run, std::int64_t i, std::int8_t number) {
        panel[((run * quads_ + i / kPair) * kColumns + j) * kPair + i % kPair] = number;
      });
    }
  }
}

void TilePanels::pack_channels(const TileMatrix& w) {
  form_ = Form::kChannels;
  const std::int64_t pairs = up(runs_, 2);
  first_ = zeroed(DType::kInt16, panels_ * pairs * 2 * kColumns);
  totals_.assign(static_cast<std::size_t>(panels_ * kColumns), 0);
  for (std::int64_t c = 0; c < columns_; ++c) {
    const std::int64_t p = c / kColumns;
    std::int16_t* panel = first_.data<std::int16_t>() + p * pairs * 2 * kColumns;
    over_column(w, c, [&](std::int64_t run, std::int64_t, std::int8_t number) {
      panel[ByteTiles::depthwise_index(run, c % kColumns)] = number;
      totals_[static_cast<std::size_t>(c)] += number;
    });
  }
}

void TilePanels::multiply(const ByteTiles& ops, std::int64_t p,
                          std::span<const std::uint8_t* const> rows, const std::int64_t* offsets,
                          std::int32_t* sums) const {
  const auto count = static_cast<std::int64_t>(rows.size());
  if (form_ == Form::kChannels) {
    const std::int64_t pairs = up(runs_, 2);
    std::array<const std::uint8_t*, ByteTiles::kRows> here{};
    for (std::size_t r = 0; r < rows.size(); ++r) here[r] = rows[r] + p * kColumns;
    return ops.multiply_channels(here.data(), count, offsets, pairs,
                                 first_.data<std::int16_t>() + p * pairs * 2 * kColumns, sums);
  }
  const std::int64_t unit = form_ == Form::kWords ? kPair : kQuad;
  ByteTiles::Panel panel{.first = first_.data<std::int8_t>() + p * runs_ * quads_ * unit * kColumns,
                         .halves = {}};
  if (form_ == Form::kWords) {
    return ops.multiply_words({rows.data(), count, offsets, runs_, quads_}, panel, sums);
  }
  for (std::int64_t h = 0; h < 2; ++h) {
    const std::int64_t begin = extra_begins_[static_cast<std::size_t>(2 * p + h)];
    const std::int64_t end = extra_begins_[static_cast<std::size_t>(2 * p + h + 1)];
    panel.halves[h] = {second_.data() + begin * kQuad * kColumns / 2, extras_.data() + begin,
                       end - begin};
  }
  ops.multiply({rows.data(), count, offsets, runs_, quads_}, panel, sums);
}

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
  std::vector<std::int32_t> row_zeros;
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
