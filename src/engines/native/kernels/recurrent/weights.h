// SPDX-License-Identifier: Apache-2.0
// Weights of recurrent cells, packed for products with a few rows at a time.
//
// A weights type W has: Value, depth(), columns() (with what fills the last panel),
// workspace(rows), bytes(), and
//
//   y[r][j] += Σ_k x[r][k] w[k][j]      multiply(x, rows, y, y_step, where)
//
// for dense rows x. Packing is shared by all plans of a model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engines/native/kernel.h"
#include "engines/native/kernels/common/byte_panels.h"
#include "engines/native/kernels/recurrent/team.h"
#include "xrt/tensor.h"

namespace xrt::native {

// What 0 … 255 stand for: (byte - zero) * scale.
struct ByteRange {
  float scale = 1;
  std::int32_t zero = 0;
};
// As DynamicQuantizeLinear chooses it for numbers from `low` to `high`. A scale of 0 is 1 here.
ByteRange byte_range(float low, float high);

// What a product may use beside its operands.
struct ProductWhere {
  std::byte* workspace = nullptr;    // W::workspace(rows) bytes
  Team* team = nullptr;              // that the caller leads; null: only this thread
  const ByteRange* range = nullptr;  // of x, for bytes; null: each row by its own numbers
};

// Bytes of weights that a product with `rows` rows reads: once for four rows. What a thread needs
// for a MiB of them is about 8 µs.
inline std::int64_t product_bytes(std::size_t bytes, std::int64_t rows) {
  return static_cast<std::int64_t>(bytes) * std::max(rows / 4, std::int64_t{1});
}

// float32.
class FloatWeights {
 public:
  using Value = float;
  // Of weights [columns][depth].
  FloatWeights(const float* rows, std::int64_t columns, std::int64_t depth);

  std::int64_t depth() const { return depth_; }
  std::int64_t columns() const { return columns_; }
  std::size_t bytes() const { return panels_.bytes(); }
  std::size_t workspace(std::int64_t /*rows*/) const { return 0; }
  void multiply(const float* x, std::int64_t rows, float* y, std::int64_t y_step,
                const ProductWhere& where) const;

 private:
  std::int64_t depth_, columns_;
  Tensor panels_;
};

// double, as it lies in W: [columns][depth].
class PlainWeights {
 public:
  using Value = double;
  PlainWeights(const double* rows, std::int64_t columns, std::int64_t depth)
      : rows_(rows), columns_(columns), depth_(depth) {}

  std::int64_t depth() const { return depth_; }
  std::int64_t columns() const { return columns_; }
  std::size_t bytes() const { return static_cast<std::size_t>(columns_ * depth_) * sizeof(double); }
  std::size_t workspace(std::int64_t /*rows*/) const { return 0; }
  void multiply(const double* x, std::int64_t rows, double* y, std::int64_t y_step,
                const ProductWhere& where) const;

 private:
  const double* rows_;
  std::int64_t columns_, depth_;
};

// int8 and uint8. The rows of x are rounded to uint8; sums of products are exact.
class ByteWeights {
 public:
  using Value = float;
  // `scale` and `zero` have one number, or one a column.
  ByteWeights(const BytePanels& panels, DType dtype, std::span<const float> scale,
              std::span<const std::int32_t> zero);

  std::int64_t depth() const { return panels_->depth(); }
  std::int64_t columns() const { return panels_->columns(); }
  std::size_t bytes() const { return panels_->bytes(); }
  std::size_t workspace(std::int64_t rows) const;
  void multiply(const float* x, std::int64_t rows, float* y, std::int64_t y_step,
                const ProductWhere& where) const;

 private:
  const BytePanels* panels_;
  std::vector<float> scales_;
  std::vector<std::int32_t> zeros_;
  std::vector<std::int32_t> sums_;  // of (weight - zero point)
};

// Blocks of rows of a weight [directions, gates * hidden, depth]: one per direction, or two, where
// the last gate's product is one of its own.
struct Blocks {
  std::int64_t directions, gates, hidden;
  bool split;
  std::size_t count() const { return static_cast<std::size_t>(directions) * (split ? 2 : 1); }
};

// fn(first row, rows) of each block.
template <typename F>
void for_blocks(const Blocks& blocks, F&& fn) {
  for (std::int64_t d = 0; d < blocks.directions; ++d) {
    const std::int64_t first = d * blocks.gates * blocks.hidden;
    const std::int64_t apart = blocks.split ? blocks.hidden : 0;
    const std::int64_t together = blocks.gates * blocks.hidden - apart;
    fn(first, together);
    if (blocks.split) fn(first + together, apart);
  }
}

}  // namespace xrt::native
