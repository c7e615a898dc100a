// SPDX-License-Identifier: Apache-2.0
// Weights of 8 bits, packed for the loops of kernels/vector/byte_tiles.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engines/native/kernels/vector/byte_tiles.h"
#include "xrt/tensor.h"

namespace xrt::native {

// Where the weights of a product lie: that of a column at place `i` of a run, in elements from
// `data` on, at column * column_step + run * run_step + i / inner * outer_step + i % inner *
// inner_step.
struct TileMatrix {
  const std::int8_t* data = nullptr;
  std::int64_t groups = 1;   // a column belongs to one
  std::int64_t columns = 0;  // of all groups
  std::int64_t runs = 1;
  std::int64_t length = 1;  // of a run
  bool depthwise = false;   // column j is multiplied with channel j, and a run has one weight
  std::int64_t column_step = 0, run_step = 0, inner = 1, outer_step = 0, inner_step = 0;
};

// Weights in panels of ByteTiles::kColumns columns.
class TilePanels {
 public:
  // Rows are bytes, or words where those are faster and `takes_words`.
  TilePanels(const TileMatrix& w, bool takes_words);
  // The time that one row takes at most, in that of multiplications of float32.
  static double most_work(const TileMatrix& w);

  std::int64_t groups() const { return groups_; }
  std::int64_t columns() const { return columns_; }  // of all groups
  std::int64_t runs() const { return runs_; }
  std::int64_t length() const { return length_; }
  bool is_depthwise() const { return form_ == Form::kChannels; }
  // Rows are words of 16 bits.
  bool has_words() const { return form_ == Form::kWords; }
  std::int64_t panels() const { return groups_ * panels_; }
  // The time that one row takes, in that of multiplications of float32.
  double row_work() const;
  std::size_t bytes() const;

  // Of panel `p`: its group, its first column, and how many it has.
  std::int64_t group(std::int64_t p) const { return p / panels_; }
  std::int64_t first(std::int64_t p) const;
  std::int64_t width(std::int64_t p) const;
  // Sums of its columns.
  const std::int32_t* totals(std::int64_t p) const;

  // sums[count][kColumns] = rows, kRows at most, times panel `p`. `offsets`: of the group's runs.
  void multiply(const ByteTiles& ops, std::int64_t p, std::span<const std::uint8_t* const> rows,
                const std::int64_t* offsets, std::int32_t* sums) const;

 private:
  enum class Form : std::uint8_t { kBytes, kWords, kChannels };

  void pack_bytes(const TileMatrix& w);
  void pack_words(const TileMatrix& w);
  void pack_channels(const TileMatrix& w);

  std::int64_t groups_ = 1, columns_ = 0, runs_ = 1, length_ = 1, panels_ = 0, quads_ = 0;
  Form form_ = Form::kBytes;
  Tensor first_;  // int8; channels: int16
  std::vector<std::int8_t> second_;
  std::vector<ByteTiles::Quad> extras_;
  std::vector<std::int64_t> extra_begins_;  // by half of a panel, and the end
  std::vector<std::int32_t> totals_;
};

}  // namespace xrt::native
