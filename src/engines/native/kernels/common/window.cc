// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/common/window.h"

#include <algorithm>

#include "ops/sizes/wide_window.h"
#include "xrt/error.h"

namespace xrt::native {
namespace {

Dims filled(const std::vector<std::int64_t>& given, std::size_t count, std::int64_t fallback,
            const char* what) {
  if (given.empty()) return Dims(count, fallback);
  if (given.size() != count) {
    throw Error(ErrorCode::kInvalidArgument, std::string(what) + " has " +
                                                 std::to_string(given.size()) + " entries, not " +
                                                 std::to_string(count));
  }
  return given;
}

// Dilated, of elements of an axis: more would not fit padding of kMostOfWindow at both ends of any
// tensor that memory holds, and sums stay within int64.
constexpr std::int64_t kMostExtent = std::int64_t{1} << 48;

void check_bounds(const Dims& values, const char* what) {
  for (const std::int64_t v : values) {
    if (v <= kMostOfWindow && v >= -kMostOfWindow) continue;
    throw Error(ErrorCode::kInvalidArgument, std::string(what) + " has the entry " +
                                                 std::to_string(v) + "; at most " +
                                                 std::to_string(kMostOfWindow) + " is taken");
  }
}

}  // namespace

WindowAttributes WindowAttributes::of(const Node& node) {
  WindowAttributes a;
  a.kernel = node.attr_ints("kernel_shape");
  a.strides = node.attr_ints("strides");
  a.dilations = node.attr_ints("dilations");
  a.pads = node.attr_ints("pads");
  a.auto_pad = xrt::auto_pad(node);
  if (a.auto_pad == AutoPad::kValid) a.pads.clear();
  a.ceil_mode = node.attr_int("ceil_mode", 0) != 0;
  check_bounds(a.kernel, "kernel_shape");
  check_bounds(a.strides, "strides");
  check_bounds(a.dilations, "dilations");
  check_bounds(a.pads, "pads");
  check_bounds(node.attr_ints("output_padding"), "output_padding");
  check_bounds(node.attr_ints("output_shape"), "output_shape");
  return a;
}

void check_kernel(const WindowAttributes& attributes, const Dims& kernel) {
  if (attributes.kernel.empty() || attributes.kernel == kernel) return;
  throw Error(ErrorCode::kInvalidArgument, "'kernel_shape' is not the weight's shape");
}

Window resolve(const WindowAttributes& attributes, const Dims& spatial, const Dims& kernel) {
  const std::size_t n = spatial.size();
  check_kernel(attributes, kernel);
  Window w;
  w.kernel = filled(kernel, n, 1, "kernel_shape");
  w.strides = filled(attributes.strides, n, 1, "strides");
  w.dilations = filled(attributes.dilations, n, 1, "dilations");
  const Dims pads = filled(attributes.pads, 2 * n, 0, "pads");
  check_bounds(w.kernel, "kernel_shape");
  check_bounds(w.strides, "strides");
  check_bounds(w.dilations, "dilations");
  check_bounds(pads, "pads");
  w.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
  w.pads_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
  w.output.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (w.strides[i] < 1 || w.dilations[i] < 1 || w.kernel[i] < 1) {
      throw Error(ErrorCode::kInvalidArgument,
                  "kernel_shape, strides and dilations must be positive");
    }
    if (spatial[i] < 0 || spatial[i] > kMostExtent) {
      throw Error(ErrorCode::kInvalidArgument,
                  "an axis of " + std::to_string(spatial[i]) + " elements");
    }
    const std::int64_t extent = (w.kernel[i] - 1) * w.dilations[i] + 1;
    if (extent > kMostExtent) {
      throw Error(ErrorCode::kInvalidArgument, "a window spans " + std::to_string(extent) +
                                                   " elements, no more than " +
                                                   std::to_string(kMostExtent) + " are taken");
    }
    if (is_same(attributes.auto_pad)) {
      const AxisPadding padding =
          same_padding(attributes.auto_pad, spatial[i], extent, w.strides[i]);
      w.pads_begin[i] = padding.begin;
      w.pads_end[i] = padding.end;
    }
    const std::int64_t room = spatial[i] + w.pads_begin[i] + w.pads_end[i] - extent;
    if (room < 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a window of " + std::to_string(extent) + " does not fit " +
                      std::to_string(spatial[i]) + " elements padded by " +
                      std::to_string(w.pads_begin[i]) + " and " + std::to_string(w.pads_end[i]));
    }
    std::int64_t count = room / w.strides[i] + 1;
    if (attributes.ceil_mode && room % w.strides[i] != 0) {
      // One more window, unless it would start in the padding at the end.
      if (count * w.strides[i] < spatial[i] + w.pads_begin[i]) ++count;
    }
    w.output[i] = count;
  }
  return w;
}

}  // namespace xrt::native
