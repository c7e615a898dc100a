// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/common/tile_panels.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace xrt::native {
namespace {

constexpr std::int64_t kColumns = ByteTiles::kColumns;
constexpr std::int64_t kQuad = ByteTiles::kQuad;
constexpr std::int64_t kPair = ByteTiles::kPair;
// Multiplications of bytes and of words take so much of the time of one in float32, and halves of
// more weights than that are slower than words.
constexpr double kByteTime = 0.5;
constexpr double kWordTime = 0.65;
constexpr double kMostHalved = kWordTime / kByteTime - 1;

std::int64_t up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

Tensor zeroed(DType dtype, std::int64_t count) {
  Tensor made = Tensor::allocate(dtype, {count});
  std::memset(made.raw(), 0, made.bytes());
  return made;
}

}  // namespace

TilePanels::TilePanels(const TileMatrix& w, bool takes_words)
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
  if (takes_words &&
      static_cast<double>(second_.size()) > kMostHalved * static_cast<double>(first_.count())) {
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

}  // namespace xrt::native
