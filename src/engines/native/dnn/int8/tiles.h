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
#include "engines/native/kernels/common/tile_panels.h"
#include "engines/native/kernels/vector/byte_tiles.h"

namespace xrt::native::dnn {

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
