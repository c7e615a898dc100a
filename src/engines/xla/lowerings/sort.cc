// SPDX-License-Identifier: Apache-2.0
// TopK.
#include "engines/xla/lowering.h"
#include "engines/xla/lowerings/places.h"

namespace xrt::xla {

namespace {

void lower_top_k(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo x = c.in(0);
  c.need(x.rank() > 0, "a scalar operand");
  const std::int64_t axis = c.attr("axis");
  const std::int64_t k = c.integers(1, "the operand k").at(0);
  c.need(k >= 0 && k <= x.dims[at(axis)], "k is larger than the axis");
  const bool largest = c.attr("largest") != 0;
  // A stable sort keeps equal elements in the order of their places, as ONNX asks. NaN is above all
  // numbers, as in NumPy and PyTorch.
  const Hlos sorted = b.sort({x, b.iota(DType::kInt64, x.dims, axis)}, axis, [&](const Hlos& args) {
    const Hlo before = b.compare(largest ? "GT" : "LT", args[0], args[1]);
    if (!is_floating(x.dtype)) return before;
    const Hlo& above = args[largest ? 0 : 1];
    const Hlo& below = args[largest ? 1 : 0];
    const Hlo only_above_is_nan =
        b.binary("and", b.compare("NE", above, above), b.compare("EQ", below, below));
    return b.binary("or", before, only_above_is_nan);
  });
  c.out(0, b.slice_axis(sorted[0], axis, 0, k));
  c.out(1, b.slice_axis(sorted[1], axis, 0, k));
}

}  // namespace

void register_sort(LoweringTable& t) { t.add("TopK", lower_top_k); }

}  // namespace xrt::xla
