// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/recurrent/weights.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engines/native/context.h"
#include "engines/native/kernels/vector/panels.h"
#include "engines/native/kernels/vector/vector_ops.h"

namespace xrt::native {
namespace {

// Weights that a thread reads between two rounds of a team, at least.
constexpr std::int64_t kBytesPerPart = 128 << 10;

// `columns` and what fills the last panel.
std::int64_t whole_panels(std::int64_t columns) {
  const std::int64_t panel = panel_ops().panel;
  return (columns + panel - 1) / panel * panel;
}

// fn(first, last) over the panels of weights of `bytes` bytes that meet `rows` rows.
template <typename F>
void over_panels(const ProductWhere& where, std::int64_t panels, std::size_t bytes,
                 std::int64_t rows, F&& fn) {
  if (where.team == nullptr || product_bytes(bytes, rows) < kBytesPerPart * where.team->members()) {
    return fn(std::int64_t{0}, panels);
  }
  const std::int64_t members = where.team->members();
  where.team->run([&](int part) { fn(panels * part / members, panels * (part + 1) / members); });
}

}  // namespace

ByteRange byte_range(float low, float high) {
  low = std::min(low, 0.0F);
  high = std::max(high, 0.0F);
  const float step = (high - low) / 255.0F;
  const float scale = step == 0 ? 1.0F : step;
  const float zero = std::nearbyint(0.0F - low / scale);  // no number where the range is endless
  return {scale, zero > 0 ? static_cast<std::int32_t>(std::min(zero, 255.0F)) : 0};
}

FloatWeights::FloatWeights(const float* rows, std::int64_t columns, std::int64_t depth)
    : depth_(depth), columns_(whole_panels(columns)) {
  panels_ = allocate_checked(DType::kFloat32, {columns_, depth});
  const std::int64_t panel = panel_ops().panel;
  float* to = panels_.data<float>();
  for (std::int64_t first = 0; first < columns_; first += panel, to += panel * depth) {
    for (std::int64_t j = 0; j < panel; ++j) {
      const float* from = rows + (first + j) * depth;
      for (std::int64_t k = 0; k < depth; ++k) {
        const float w = first + j < columns ? from[k] : 0.0F;
        // Products with denormal numbers take ten times as long.
        to[k * panel + j] = std::fpclassify(w) == FP_SUBNORMAL ? 0.0F : w;
      }
    }
  }
}

void FloatWeights::multiply(const float* x, std::int64_t rows, float* y, std::int64_t y_step,
                            const ProductWhere& where) const {
  const PanelOps& ops = panel_ops();
  const std::int64_t panel = ops.panel;
  over_panels(where, columns_ / panel, bytes(), rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      ops.multiply(x, depth_, rows, depth_, panels_.data<float>() + p * panel * depth_,
                   y + p * panel, y_step);
    }
  });
}

void PlainWeights::multiply(const double* x, std::int64_t rows, double* y, std::int64_t y_step,
                            const ProductWhere& /*where*/) const {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < columns_; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth_; ++k) sum += x[r * depth_ + k] * rows_[j * depth_ + k];
      y[r * y_step + j] += sum;
    }
  }
}

ByteWeights::ByteWeights(const BytePanels& panels, DType dtype, std::span<const float> scale,
                         std::span<const std::int32_t> zero)
    : panels_(&panels), sums_(panels.sums()) {
  const auto columns = static_cast<std::size_t>(panels.columns());
  const std::int32_t shift = dtype == DType::kUInt8 ? 128 : 0;
  scales_.resize(columns);
  zeros_.resize(columns);
  for (std::size_t j = 0; j < columns; ++j) {
    // What fills the last panel has no scale.
    scales_[j] = scale.size() == 1 ? scale[0] : j < scale.size() ? scale[j] : 0.0F;
    zeros_[j] = (zero.size() == 1 ? zero[0] : j < zero.size() ? zero[j] : shift) - shift;
    sums_[j] -= zeros_[j] * static_cast<std::int32_t>(panels.depth());
  }
}

std::size_t ByteWeights::workspace(std::int64_t rows) const {
  const auto row = static_cast<std::size_t>(columns()) * sizeof(std::int32_t) +
                   static_cast<std::size_t>(panels_->row_bytes()) + sizeof(ByteRange) +
                   sizeof(std::int32_t);
  return static_cast<std::size_t>(rows) * row + static_cast<std::size_t>(depth());
}

void ByteWeights::multiply(const float* x, std::int64_t rows, float* y, std::int64_t y_step,
                           const ProductWhere& where) const {
  const VectorOps& ops = vector_ops();
  const PanelOps& panels = panel_ops();
  const std::int64_t panel = panels_->panel();
  const std::int64_t step = panels_->row_bytes();
  auto* sums = reinterpret_cast<std::int32_t*>(where.workspace);  // [rows][columns]
  auto* ranges = reinterpret_cast<ByteRange*>(sums + rows * columns());
  auto* totals = reinterpret_cast<std::int32_t*>(ranges + rows);
  auto* bytes = reinterpret_cast<std::uint8_t*>(totals + rows);  // [rows][step]
  std::uint8_t* one = bytes + rows * step;                       // row, as it is rounded
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = x + r * depth();
    ranges[r] = where.range != nullptr
                    ? *where.range
                    : byte_range(ops.minimum(from, depth()), ops.maximum(from, depth()));
    ops.quantize_u8(from, one, depth(), ranges[r].scale, static_cast<float>(ranges[r].zero));
    panels_->arrange(one, 0, bytes + r * step);
    totals[r] = 0;
    for (std::int64_t k = 0; k < depth(); ++k) totals[r] += one[k];
  }
  over_panels(
      where, columns() / panel, panels_->bytes(), rows, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          panels_->multiply(p, bytes, rows, sums + p * panel, columns());
        }
        const std::int64_t first = begin * panel;
        for (std::int64_t r = 0; r < rows; ++r) {
          panels.add_byte_sums(sums + r * columns() + first, y + r * y_step + first,
                               (end - begin) * panel,
                               {ranges[r].scale, ranges[r].zero, totals[r], sums_.data() + first,
                                zeros_.data() + first, scales_.data() + first});
        }
      });
}

}  // namespace xrt::native
