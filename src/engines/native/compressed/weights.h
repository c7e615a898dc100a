// SPDX-License-Identifier: Apache-2.0
// Constant weights of 4 and 8 bits that products read as they are stored:
//   w[k][n] = (q[k][n] - zero[block of k][n]) * scale[block of k][n] + offset[block of k][n]
// Blocks lie along k, the axis that products sum over; one block may be all of it.
//
//   if (const auto given = compressed_weights(graph, value)) BlockWeights weights(*given);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "engines/native/kernel.h"
#include "engines/native/kernels/vector/panels.h"
#include "xrt/graph.h"

namespace xrt::native {

// What a DequantizeLinear of a constant matrix says.
struct CompressedMatrix {
  ValueId q, scale, zero;  // constants; `zero` may be absent
  std::size_t axis = 0;    // that blocks lie along
  std::int64_t block = 0;  // numbers of a block
};

// Nothing where `value` is no such matrix, or one that no kernel here reads: other types; blocks
// that are no multiple of 8; so few numbers that nothing is gained. `axis`: what blocks have to lie
// along.
std::optional<CompressedMatrix> compressed_matrix(const Graph& graph, ValueId value,
                                                  std::size_t axis);

// Packed for products with a few rows and with many.
class BlockWeights {
 public:
  // `zero` and `offset` may be null. q is [k, n] (axis 0) or [n, k] (axis 1), scale and zero have
  // the blocks in the place of k; or they have one number per column, or one. offset is float32
  // [blocks, n].
  BlockWeights(const Tensor& q, const Tensor& scale, const Tensor* zero, const Tensor* offset,
               std::size_t axis, std::int64_t block);
  // As save() wrote them, for operands of the same types and shapes.
  BlockWeights(StoredWeights& stored, const Tensor& q, std::size_t axis, std::int64_t block);

  std::int64_t depth() const { return depth_; }      // k
  std::int64_t columns() const { return columns_; }  // n
  std::int64_t blocks() const { return blocks_; }
  std::int64_t block() const { return block_; }
  std::int64_t panels() const { return panels_; }
  std::int64_t padded_depth() const { return padded_; }  // k in whole words: what rows have
  // Products ask for sums of the other factor.
  bool has_totals() const { return panel(0).has_totals(); }
  BlockPanel panel(std::int64_t i) const;
  std::size_t bytes() const;
  // kStored items, as StoredWeights reads them; their count is written by the kernel.
  static constexpr std::int64_t kStored = 5;
  void save(FlatWriter& writer) const;

 private:
  void set_sizes(const Tensor& q, std::size_t axis, std::int64_t block);
  void keep_halves();
  std::string layout() const;

  int bits_ = 4;
  std::int64_t depth_ = 0, padded_ = 0, columns_ = 0, block_ = 0, blocks_ = 0, panels_ = 0;
  std::int32_t zero_ = 0;  // of all, where there are no zeros_
  Tensor words_, scales_, offsets_, zeros_;
};

}  // namespace xrt::native
