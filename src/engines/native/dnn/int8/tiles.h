// SPDX-License-Identifier: Apache-2.0
// Products of bytes with constant weights by the loops of kernels/vector/byte_tiles.h, and what a
// fused node (int8.h) makes of the sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engines/native/dnn/int8/int8.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernel.h"
#include "engines/native/kernels/vector/byte_tiles.h"

namespace xrt::native::dnn {

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
  explicit TilePanels(const TileMatrix& w);
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

  // sums[count][kColumns] = rows times panel `p`. `offsets`: of the group's runs.
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

// A fused node's terms and post-ops, for panels.
class TileTerms {
 public:
  // `bias`: float32, one number per column.
  TileTerms(const Int8Terms& terms, std::vector<PostOp> post_ops, const TilePanels& panels,
            const Tensor& bias);
  // Sums and nothing else.
  explicit TileTerms(const TilePanels& panels);

  const std::vector<PostOp>& post_ops() const { return post_ops_; }
  const Int8Terms& terms() const { return terms_; }
  DType to() const { return terms_.to; }

 private:
  friend class TileProduct;
  Int8Terms terms_;
  std::vector<PostOp> post_ops_;
  std::vector<float> factors_, bias_;  // [panels][kColumns]
};

// One product of one run.
class TileProduct {
 public:
  // Addresses of rows [first, first + addresses.size()).
  using Rows = std::function<void(std::int64_t first, std::span<const std::uint8_t*> addresses)>;

  // X's zero point is looked up. All is kept by reference.
  TileProduct(KernelContext& context, const TilePanels& panels, const TileTerms& terms, DType x);

  // Whether rows of X can be read where they are.
  bool takes_as_it_is() const { return x_ == DType::kUInt8 && !panels_.has_words(); }
  // Bytes that a byte of X takes in a row.
  std::int64_t unit() const { return panels_.has_words() ? 2 : 1; }
  // `count` bytes of X as a row has them.
  void copy(const std::uint8_t* from, std::int64_t count, std::uint8_t* to) const;
  void fill(std::int64_t count, std::uint8_t* to) const;  // of X's zero point

  // y[r] = what the terms make of row r, for `count` rows; y has all columns side by side.
  // `offsets`: [groups][runs]. `row_totals`: sums of the rows, where terms().w_zero is not 0.
  void run(std::int64_t count, const Rows& rows, std::span<const std::int64_t> offsets,
           std::span<const std::int32_t> row_totals, Tensor& y) const;

 private:
  ByteTiles::Step step_of(const PostOp& op, std::int64_t elements) const;

  KernelContext& context_;
  const TilePanels& panels_;
  const TileTerms& terms_;
  DType x_;
  std::int32_t zero_ = 0;
  float scale_ = 1;
};

}  // namespace xrt::native::dnn
