// SPDX-License-Identifier: Apache-2.0
// Weights of 8 bits, packed for the exact sums of products of bytes that this processor is best at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/native/kernels/common/tile_panels.h"
#include "xrt/tensor.h"

namespace xrt::native {

// int8, or uint8 less 128.
class BytePanels {
 public:
  // Of weights [depth][columns].
  BytePanels(const void* weights, DType dtype, std::int64_t columns, std::int64_t depth);

  std::int64_t depth() const { return depth_; }
  std::int64_t panel() const { return panel_; }      // columns of one
  std::int64_t columns() const { return columns_; }  // of whole panels
  std::int64_t row_bytes() const;                    // of a row of X as multiply() has it
  const std::vector<std::int32_t>& sums() const { return sums_; }  // of each column
  std::size_t bytes() const;

  // Whether a row of X may be read where its depth() bytes are.
  bool takes_as_it_is() const { return row_bytes() == depth_; }
  // Makes a row of depth() bytes, each of them ^ flip.
  void arrange(const std::uint8_t* from, std::uint8_t flip, std::uint8_t* row) const;
  // y[r * y_step + j] = row r times column j of panel `p`, for `rows` rows that follow each other.
  void multiply(std::int64_t p, const std::uint8_t* x, std::int64_t rows, std::int32_t* y,
                std::int64_t y_step) const;

 private:
  void pack(const std::int8_t* weights, std::int64_t columns);

  std::int64_t depth_, panel_, columns_;
  std::optional<TilePanels> tiles_;
  Tensor packed_;  // for PanelOps::multiply_bytes(), where there are no tiles
  std::vector<std::int32_t> sums_;
};

// `make()`, or what it gave for the same constant and kind while that is still in use.
std::shared_ptr<const void> shared_packing(const Tensor& source, const std::string& kind,
                                           const std::function<std::shared_ptr<void>()>& make);

}  // namespace xrt::native
