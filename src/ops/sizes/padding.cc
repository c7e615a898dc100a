// SPDX-License-Identifier: Apache-2.0
#include "ops/sizes/padding.h"

#include <algorithm>
#include <string>

#include "xrt/error.h"

namespace xrt {
namespace {

AxisPadding shared(AutoPad mode, std::int64_t total) {
  const std::int64_t less = total / 2;
  const std::int64_t more = total - less;
  return mode == AutoPad::kSameUpper ? AxisPadding{less, more} : AxisPadding{more, less};
}

}  // namespace

AutoPad auto_pad(const Node& node) {
  const std::string mode = node.attr_string("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) return AutoPad::kNotSet;
  if (mode == "VALID") return AutoPad::kValid;
  if (mode == "SAME_UPPER") return AutoPad::kSameUpper;
  if (mode == "SAME_LOWER") return AutoPad::kSameLower;
  throw Error(ErrorCode::kInvalidModel, "node '" + node.name + "' (" + node.qualified_op() +
                                            "): its auto_pad '" + mode +
                                            "' is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID");
}

AxisPadding same_padding(AutoPad mode, std::int64_t size, std::int64_t extent,
                         std::int64_t stride) {
  const std::int64_t rest = size % stride;
  return shared(mode, std::max<std::int64_t>(0, extent - (rest == 0 ? stride : rest)));
}

TransposedPadding transposed_padding(AutoPad mode, const TransposedAxis& axis, std::int64_t size,
                                     std::int64_t output) {
  const std::int64_t full = axis.stride * (size - 1) + axis.output_padding + axis.extent;
  const AxisPadding cut = shared(mode, std::max<std::int64_t>(0, full - output));
  return {cut.begin, cut.end, axis.output_padding + std::max<std::int64_t>(0, output - full)};
}

TransposedPadding transposed_same_padding(AutoPad mode, const TransposedAxis& axis) {
  const std::int64_t total = axis.extent + axis.output_padding - axis.stride;
  const AxisPadding cut = shared(mode, std::max<std::int64_t>(0, total));
  return {cut.begin, cut.end, axis.output_padding};
}

}  // namespace xrt
