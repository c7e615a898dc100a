// SPDX-License-Identifier: Apache-2.0
// Int8MatMul and Int8Sums (dnn/int8/matmul.cc) by the loops of kernels/vector/byte_tiles.h.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engines/native/context.h"
#include "engines/native/dnn/families.h"
#include "engines/native/dnn/int8/tiles.h"
#include "engines/native/scratch.h"

namespace xrt::native::dnn {
namespace {

TileMatrix matrix_of(const Tensor& w, bool transposed) {
  const std::int64_t k = w.dims()[transposed ? 1 : 0];
  const std::int64_t n = w.dims()[transposed ? 0 : 1];
  return {.data = w.data<std::int8_t>(),
          .columns = n,
          .length = k,
          .column_step = transposed ? k : 1,
          .inner = std::max<std::int64_t>(k, 1),
          .inner_step = transposed ? 1 : n};
}

class TileMatMulKernel final : public Kernel {
 public:
  explicit TileMatMulKernel(const KernelCreateContext& context)
      : Kernel({.in_place = summed_inputs(read_post_ops(context.node()))}),
        x_(context.input_dtype(0)),
        panels_(matrix_of(*context.constant_input(1), context.node().attr_int("trans_b", 0) != 0),
                /*takes_words=*/true),
        terms_(terms_of(context, panels_)) {}

  std::size_t weight_bytes() const override { return panels_.bytes(); }
  bool reads_input(std::size_t i) const override { return i != 1 && i != 2; }
  std::string describe() const override { return int8_name("tiles"); }

  void run(KernelContext& k) const override {
    const Tensor& x = k.input(0);
    const std::int64_t depth = panels_.length();
    Dims dims = x.dims();
    if (dims.empty() || dims.back() != depth) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the shape " + to_string(std::span<const std::int64_t>(dims)) +
                      " cannot be multiplied with a matrix of " + std::to_string(depth) + " rows");
    }
    dims.back() = panels_.columns();
    Tensor& y = k.output(0, terms_.to(), dims);
    if (y.count() == 0) return;
    const std::int64_t rows = y.count() / panels_.columns();
    const TileProduct job(k, panels_, terms_, x_);
    const auto* bytes = x.data<std::uint8_t>();
    std::int64_t step = depth;
    if (!job.takes_as_it_is() || depth % ByteTiles::kQuad != 0) {
      step = (depth + ByteTiles::kQuad - 1) / ByteTiles::kQuad * ByteTiles::kQuad * job.unit();
      bytes = copied(k, job, x, rows, step);
    }
    Scratch<std::int32_t> totals;
    if (terms_.terms().w_zero != 0) {  // with X of uint8 only
      totals.resize(static_cast<std::size_t>(rows));
      k.parallel_for(rows, std::max<std::int64_t>(kEnough / std::max<std::int64_t>(depth, 1), 1),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t r = begin; r < end; ++r) {
                         totals[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(
                             byte_tiles()->total(x.data<std::uint8_t>() + r * depth, depth));
                       }
                     });
    }
    const auto addresses = [&](std::int64_t first, std::span<const std::uint8_t*> to) {
      const std::uint8_t* row = bytes + first * step;
      for (const std::uint8_t*& address : to) {
        address = row;
        row += step;
      }
    };
    const std::int64_t offset = 0;
    job.run(rows, addresses, {&offset, 1}, totals, y);
  }

 private:
  static constexpr std::int64_t kEnough = 1 << 16;  // bytes that are worth another thread

  static TileTerms terms_of(const KernelCreateContext& context, const TilePanels& panels) {
    const auto terms = Int8Terms::of(context.node());
    if (!terms) return TileTerms(panels);
    return {*terms, read_post_ops(context.node()), panels, *context.constant_input(2)};
  }

  // Rows of unsigned bytes, `step` each.
  static const std::uint8_t* copied(KernelContext& k, const TileProduct& job, const Tensor& x,
                                    std::int64_t rows, std::int64_t step) {
    const std::int64_t depth = x.dims().back();
    auto* memory =
        reinterpret_cast<std::uint8_t*>(k.scratch(static_cast<std::size_t>(rows * step)));
    k.parallel_for(rows, std::max<std::int64_t>(kEnough / std::max<std::int64_t>(step, 1), 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t r = begin; r < end; ++r) {
                       std::uint8_t* to = memory + r * step;
                       job.copy(x.data<std::uint8_t>() + r * depth, depth, to);
                       std::memset(to + depth * job.unit(), 0,
                                   static_cast<std::size_t>(step - depth * job.unit()));
                     }
                   });
    return memory;
  }

  DType x_;
  TilePanels panels_;
  TileTerms terms_;
};

}  // namespace

void register_tile_matmul(KernelRegistry& registry) {
  for (const char* op : {"Int8MatMul", "Int8Sums"}) {
    registry.add({.domain = std::string(kDomain),
                  .op = op,
                  .priority = kPriority,
                  .supports =
                      [](const NodeView&) {
                        return byte_products() == ByteProducts::kTiles
                                   ? Support::yes()
                                   : Support::no("oneDNN computes it");
                      },
                  .create = [](const KernelCreateContext& c) -> std::unique_ptr<Kernel> {
                    return std::make_unique<TileMatMulKernel>(c);
                  }});
  }
}

}  // namespace xrt::native::dnn
