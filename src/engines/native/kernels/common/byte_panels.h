// SPDX-License-Identifier: Apache-2.0
// Weights of 8 bits, packed for PanelOps::multiply_bytes().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "xrt/tensor.h"

namespace xrt::native {

// `columns` and what fills the last panel.
std::int64_t whole_panels(std::int64_t columns);

// int8, or uint8 less 128.
class BytePanels {
 public:
  // Of weights [depth][columns].
  BytePanels(const void* weights, DType dtype, std::int64_t columns, std::int64_t depth);

  std::int64_t depth() const { return depth_; }
  std::int64_t columns() const { return columns_; }  // whole panels
  std::int64_t quads() const { return (depth_ + 3) / 4; }
  const std::int8_t* panel(std::int64_t p) const;
  // Whether -128 is among the weights of a panel.
  bool has_lowest(std::int64_t p) const { return lowest_[static_cast<std::size_t>(p)] != 0; }
  const std::vector<std::int32_t>& sums() const { return sums_; }  // of each column
  std::size_t bytes() const { return panels_.bytes() + sums_.size() * sizeof(sums_[0]); }

 private:
  std::int64_t depth_, columns_;
  Tensor panels_;
  std::vector<std::uint8_t> lowest_;
  std::vector<std::int32_t> sums_;
};

// `make()`, or what it gave for the same constant and kind while that is still in use.
std::shared_ptr<const void> shared_packing(const Tensor& source, const std::string& kind,
                                           const std::function<std::shared_ptr<void>()>& make);

}  // namespace xrt::native
