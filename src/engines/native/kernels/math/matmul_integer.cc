// SPDX-License-Identifier: Apache-2.0
// Bytes with packed weights.
#include "engines/native/kernels/math/matmul_integer.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engines/native/context.h"
#include "engines/native/kernels/common/byte_panels.h"
#include "engines/native/kernels/common/gemm.h"
#include "engines/native/scratch.h"

namespace xrt::native {
namespace {

// Rows that one unit of work multiplies with one panel.
constexpr std::int64_t kRows = 64;
// Products of two bytes that are worth a thread.
constexpr std::int64_t kWorth = 1 << 18;

Scratch<std::int32_t> zero_points(const Tensor* given, DType bytes) {
  const std::int32_t shift = bytes == DType::kUInt8 ? 128 : 0;  // as the panels have it
  if (given == nullptr) return Scratch<std::int32_t>{-shift};
  const Tensor wide = converted(*given, DType::kInt32);
  Scratch<std::int32_t> zeros(wide.data<std::int32_t>(), wide.data<std::int32_t>() + wide.count());
  for (std::int32_t& zero : zeros) zero -= shift;
  return zeros;
}

class MatMulInteger final : public Kernel {
 public:
  MatMulInteger(const Tensor& b, bool has_zero)
      : b_dims_(b.dims()), b_dtype_(b.dtype()), has_zero_(has_zero) {
    panels_ = std::static_pointer_cast<const BytePanels>(
        shared_packing(b, "matmul integer", [&]() -> std::shared_ptr<void> {
          return std::make_shared<BytePanels>(b.raw(), b.dtype(), b.dims()[1], b.dims()[0]);
        }));
  }

  void run(KernelContext& k) const override {
    const Tensor& a = k.input(0);
    const MatMulPlan plan = plan_matmul(a.dims(), b_dims_);
    Tensor& y = k.output(0, DType::kInt32, plan.output);
    if (y.count() == 0) return;
    const std::int64_t panel = panels_->panel();
    const std::int64_t rows = a.count() / plan.k;
    const std::int64_t step = panels_->row_bytes();

    // Numbers from 0 to 255, as the panels have them.
    const bool is_signed = a.dtype() == DType::kInt8;
    Tensor copy;
    if (is_signed || !panels_->takes_as_it_is()) copy = arranged(a, rows, is_signed);
    const auto* x = (copy.defined() ? copy : a).data<std::uint8_t>();

    const Scratch<std::int32_t> b_zeros = b_zero_points(k);
    const Scratch<std::int32_t> a_zeros = a_zero_points(k, rows, plan.m, is_signed ? 128 : 0);
    const bool uses_totals =
        std::any_of(b_zeros.begin(), b_zeros.end(), [](std::int32_t zero) { return zero != 0; });
    Scratch<std::int32_t> totals(uses_totals ? static_cast<std::size_t>(rows) : 0);
    const std::uint8_t flip = is_signed ? 128 : 0;
    const auto* row = static_cast<const std::uint8_t*>(a.raw());
    for (std::size_t r = 0; r < totals.size(); ++r, row += plan.k) {
      for (std::int64_t i = 0; i < plan.k; ++i) totals[r] += row[i] ^ flip;
    }

    const std::int64_t count = panels_->columns() / panel;
    const std::int64_t blocks = (rows + kRows - 1) / kRows;
    const std::int64_t each = std::min(rows, kRows) * step * panel;
    k.parallel_for(count * blocks, std::max<std::int64_t>(kWorth / each, 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     std::vector<std::int32_t> sums(static_cast<std::size_t>(kRows * panel));
                     for (std::int64_t unit = begin; unit < end; ++unit) {
                       const std::int64_t p = unit / blocks;
                       const std::int64_t first = unit % blocks * kRows;
                       const std::int64_t n = std::min(kRows, rows - first);
                       panels_->multiply(p, x + first * step, n, sums.data(), panel);
                       store(sums.data(), p * panel, first, n, plan, a_zeros, b_zeros, totals,
                             y.data<std::int32_t>());
                     }
                   });
  }

  bool reads_input(std::size_t i) const override { return i != 1; }
  std::size_t weight_bytes() const override { return panels_->bytes(); }

 private:
  Tensor arranged(const Tensor& a, std::int64_t rows, bool is_signed) const {
    const std::int64_t step = panels_->row_bytes();
    Tensor copy = allocate_checked(DType::kUInt8, {rows, step});
    const auto* from = static_cast<const std::uint8_t*>(a.raw());
    for (std::int64_t r = 0; r < rows; ++r) {
      panels_->arrange(from + r * panels_->depth(), is_signed ? 128 : 0,
                       copy.data<std::uint8_t>() + r * step);
    }
    return copy;
  }

  // One for all columns, or one a column.
  Scratch<std::int32_t> b_zero_points(const KernelContext& k) const {
    Scratch<std::int32_t> zeros = zero_points(has_zero_ ? k.optional_input(3) : nullptr, b_dtype_);
    if (zeros.size() != 1 && zeros.size() != static_cast<std::size_t>(b_dims_[1])) {
      fail("b_zero_point has neither one number nor one a column");
    }
    return zeros;
  }

  // One a row, and `more`.
  static Scratch<std::int32_t> a_zero_points(const KernelContext& k, std::int64_t rows,
                                             std::int64_t m, std::int32_t more) {
    const Scratch<std::int32_t> given = zero_points(k.optional_input(2), DType::kInt8);
    const std::size_t count = given.size();
    if (count != 1 && count != static_cast<std::size_t>(m) &&
        count != static_cast<std::size_t>(rows)) {
      fail("a_zero_point has neither one number nor one a row");
    }
    Scratch<std::int32_t> zeros(static_cast<std::size_t>(rows));
    for (std::size_t r = 0; r < zeros.size(); ++r) zeros[r] = given[r % count] + more;
    return zeros;
  }

  // Of one panel and `rows` rows: sum((x - zero) * (w - zero)) from sum(x * w). Wraps, as the
  // standard's numbers of 32 bits do.
  void store(const std::int32_t* sums, std::int64_t column, std::int64_t first, std::int64_t rows,
             const MatMulPlan& plan, const Scratch<std::int32_t>& a_zeros,
             const Scratch<std::int32_t>& b_zeros, const Scratch<std::int32_t>& totals,
             std::int32_t* y) const {
    using U = std::uint32_t;
    const std::int64_t panel = panels_->panel();
    const std::int64_t n = std::min(panel, plan.n - column);
    std::vector<U> w_sums(static_cast<std::size_t>(n)), zeros(static_cast<std::size_t>(n));
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(column + j);
      zeros[j] = static_cast<U>(b_zeros[b_zeros.size() == 1 ? 0 : at]);
      w_sums[j] = static_cast<U>(panels_->sums()[at]) - zeros[j] * static_cast<U>(plan.k);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<std::size_t>(first + r);
      const U zero = static_cast<U>(a_zeros[row]);
      const U total = totals.empty() ? 0 : static_cast<U>(totals[row]);
      std::int32_t* to = y + (first + r) * plan.n + column;
      const std::int32_t* from = sums + r * panel;
      for (std::int64_t j = 0; j < n; ++j) {
        to[j] = static_cast<std::int32_t>(static_cast<U>(from[j]) - zero * w_sums[j] -
                                          total * zeros[j]);
      }
    }
  }

  Dims b_dims_;
  DType b_dtype_;
  bool has_zero_;
  std::shared_ptr<const BytePanels> panels_;
};

}  // namespace

std::unique_ptr<Kernel> packed_matmul_integer(const KernelCreateContext& create) {
  const Tensor* b = create.constant_input(1);
  if (b == nullptr || b->rank() != 2 || b->count() == 0) return nullptr;
  return std::make_unique<MatMulInteger>(*b, create.has_input(3));
}

}  // namespace xrt::native
