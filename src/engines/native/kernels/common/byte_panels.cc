// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/common/byte_panels.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "base/fork_mutex.h"
#include "engines/native/context.h"
#include "engines/native/kernels/vector/instruction_sets.h"
#include "engines/native/kernels/vector/panels.h"

namespace xrt::native {

namespace {

// Instructions that add four products of bytes are faster.
const ByteTiles* tiles() { return instruction_sets().vnni ? nullptr : byte_tiles(); }

std::int64_t up_to_quads(std::int64_t bytes) { return (bytes + 3) / 4 * 4; }

}  // namespace

BytePanels::BytePanels(const void* weights, DType dtype, std::int64_t columns, std::int64_t depth)
    : depth_(depth),
      panel_(tiles() != nullptr ? ByteTiles::kColumns : panel_ops().panel),
      columns_((columns + panel_ - 1) / panel_ * panel_) {
  const auto* from = static_cast<const std::int8_t*>(weights);
  std::vector<std::int8_t> less;
  if (dtype == DType::kUInt8) {
    less.assign(from, from + columns * depth);
    for (std::int8_t& w : less) w = static_cast<std::int8_t>(w ^ -128);
    from = less.data();
  }
  pack(from, columns);
}

void BytePanels::pack(const std::int8_t* weights, std::int64_t columns) {
  sums_.resize(static_cast<std::size_t>(columns_));
  if (tiles() != nullptr) {
    tiles_.emplace(TileMatrix{.data = weights,
                              .columns = columns,
                              .length = depth_,
                              .column_step = 1,
                              .inner = std::max<std::int64_t>(depth_, 1),
                              .inner_step = columns},
                   /*takes_words=*/true);
    for (std::int64_t p = 0; p < tiles_->panels(); ++p) {
      std::copy_n(tiles_->totals(p), panel_, sums_.begin() + p * panel_);
    }
    return;
  }
  const std::int64_t quads = up_to_quads(depth_) / 4;
  packed_ = allocate_checked(DType::kInt8, {columns_, quads, 4});
  auto* to = packed_.data<std::int8_t>();
  std::fill_n(to, packed_.count(), std::int8_t{0});
  for (std::int64_t k = 0; k < depth_; ++k) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int8_t w = weights[k * columns + j];
      to[(j / panel_ * quads + k / 4) * panel_ * 4 + j % panel_ * 4 + k % 4] = w;
      sums_[static_cast<std::size_t>(j)] += w;
    }
  }
}

std::size_t BytePanels::bytes() const {
  return (tiles_ ? tiles_->bytes() : packed_.bytes()) + sums_.size() * sizeof(sums_[0]);
}

std::int64_t BytePanels::row_bytes() const {
  return tiles_ && tiles_->has_words() ? up_to_quads(2 * depth_) : up_to_quads(depth_);
}

void BytePanels::arrange(const std::uint8_t* from, std::uint8_t flip, std::uint8_t* row) const {
  std::int64_t unit = 1;
  if (tiles_ && tiles_->has_words()) {
    unit = 2;
    auto* words = reinterpret_cast<std::uint16_t*>(row);
    for (std::int64_t i = 0; i < depth_; ++i) words[i] = from[i] ^ flip;
  } else {
    for (std::int64_t i = 0; i < depth_; ++i) row[i] = from[i] ^ flip;
  }
  std::fill(row + depth_ * unit, row + row_bytes(), std::uint8_t{0});
}

void BytePanels::multiply(std::int64_t p, const std::uint8_t* x, std::int64_t rows, std::int32_t* y,
                          std::int64_t y_step) const {
  const std::int64_t step = row_bytes();
  if (!tiles_) {
    const std::int8_t* panel = packed_.data<std::int8_t>() + p * panel_ * step;
    return panel_ops().multiply_bytes(x, step, rows, step / 4, panel, y, y_step);
  }
  constexpr std::int64_t kRows = ByteTiles::kRows;
  const std::int64_t offset = 0;
  std::array<std::int32_t, kRows * ByteTiles::kColumns> tile;  // NOLINT: written before it is read
  std::array<const std::uint8_t*, kRows> here{};
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t count = std::min(rows - first, kRows);
    for (std::int64_t r = 0; r < count; ++r) {
      here[static_cast<std::size_t>(r)] = x + (first + r) * step;
    }
    tiles_->multiply(*tiles(), p, {here.data(), static_cast<std::size_t>(count)}, &offset,
                     tile.data());
    for (std::int64_t r = 0; r < count; ++r) {
      std::copy_n(tile.data() + r * ByteTiles::kColumns, ByteTiles::kColumns,
                  y + (first + r) * y_step);
    }
  }
}

std::shared_ptr<const void> shared_packing(const Tensor& source, const std::string& kind,
                                           const std::function<std::shared_ptr<void>()>& make) {
  struct Entry {
    std::weak_ptr<const void> source, packed;
  };
  static ForkMutex mutex;
  static std::map<std::pair<const void*, std::string>, Entry> entries;
  const std::lock_guard lock(mutex);
  std::erase_if(entries, [](const auto& entry) { return entry.second.packed.expired(); });
  Entry& entry = entries[{source.raw(), kind}];
  // Memory that another tensor has now is none of the one that was packed.
  const bool same =
      !entry.source.owner_before(source.owner()) && !source.owner().owner_before(entry.source);
  if (auto packed = entry.packed.lock(); packed != nullptr && same) return packed;
  std::shared_ptr<const void> packed = make();
  entry = {source.owner(), packed};
  return packed;
}

}  // namespace xrt::native
