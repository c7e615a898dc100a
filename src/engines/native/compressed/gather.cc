// SPDX-License-Identifier: Apache-2.0
// Rows of a table of 4- or 8-bit numbers: only those that are asked for are dequantised.
#include <algorithm>

#include "engines/native/compressed/kernels.h"
#include "engines/native/compressed/weights.h"
#include "engines/native/context.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/scratch.h"

namespace xrt::native {
namespace {

class BlockGatherKernel final : public Kernel {
 public:
  explicit BlockGatherKernel(const KernelCreateContext& context)
      : block_(context.node().attr_int("block", 0)), dtype_(context.input_dtype(2)) {}

  void run(KernelContext& k) const override {
    const Tensor& indices = k.input(0);
    const Tensor& q = k.input(1);
    const Tensor& scale = k.input(2);
    const Tensor* zero = k.optional_input(3);
    const std::int64_t rows = q.dims()[0];
    const std::int64_t width = q.dims()[1];
    Dims dims = indices.dims();
    dims.push_back(width);
    std::vector<std::int64_t> where = indices.to_int64();
    for (std::int64_t& row : where) {
      if (row < -rows || row >= rows) {
        fail("index " + std::to_string(row) + " is outside an axis of size " +
             std::to_string(rows));
      }
      if (row < 0) row += rows;
    }
    Tensor& y = k.output(0, dtype_, dims);
    const std::int64_t blocks = (width + block_ - 1) / block_;
    // Scales of a row: `blocks` of them, or one of its own, or the one of all.
    const std::int64_t each = scale.rank() == 2 ? blocks : scale.count() == 1 ? 0 : 1;
    const std::int64_t grain = std::max<std::int64_t>(16384 / std::max<std::int64_t>(width, 1), 1);
    k.parallel_for(static_cast<std::int64_t>(where.size()), grain,
                   [&](std::int64_t begin, std::int64_t end) {
                     Scratch<float> numbers(static_cast<std::size_t>(width));
                     Scratch<float> scales(static_cast<std::size_t>(blocks));
                     Scratch<float> zeros(static_cast<std::size_t>(blocks));
                     const std::int64_t count = std::max<std::int64_t>(each, 1);
                     for (; begin < end; ++begin) {
                       const std::int64_t row = where[static_cast<std::size_t>(begin)];
                       load_float(q.dtype(), q.raw(), row * width, width, numbers.data());
                       load_float(scale.dtype(), scale.raw(), row * each, count, scales.data());
                       if (zero != nullptr) {
                         load_float(zero->dtype(), zero->raw(), row * each, count, zeros.data());
                       }
                       for (std::int64_t i = 0; i < width; ++i) {
                         const auto b = static_cast<std::size_t>(each > 1 ? i / block_ : 0);
                         float& number = numbers[static_cast<std::size_t>(i)];
                         number = (number - zeros[b]) * scales[b];
                       }
                       store_float(dtype_, numbers.data(), width, y.raw(), begin * width);
                     }
                   });
  }

 private:
  std::int64_t block_;
  DType dtype_;
};

}  // namespace

void register_block_gather(KernelRegistry& registry) {
  registry.add({.domain = std::string(dnn::kDomain),
                .op = "BlockGather",
                .create = [](const KernelCreateContext& c) -> std::unique_ptr<Kernel> {
                  return std::make_unique<BlockGatherKernel>(c);
                }});
}

}  // namespace xrt::native
