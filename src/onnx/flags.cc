// SPDX-License-Identifier: Apache-2.0
#include "onnx/flags.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <variant>

namespace xrt {
namespace {

constexpr std::string_view kSetByOne[] = {
    "allowzero", "ceil_mode", "fmod",     "interleaved", "is_causal",
    "keepdims",  "largest",   "saturate", "sorted",      "noop_with_empty_axes",
};

constexpr std::string_view kSetByAny[] = {
    "align_corners",
    "antialias",
    "center_point_box",
    "count_include_pad",
    "detect_negative",
    "detect_positive",
    "exclude_outside",
    "exclusive",
    "input_forget",
    "inverse",
    "is_case_sensitive",
    "linear_before_reset",
    "new_axis",
    "onesided",
    "periodic",
    "reverse",
    "select_last_index",
    "training_mode",
    "transA",
    "transB",
    "upper",
};

template <std::size_t count>
bool holds(const std::string_view (&names)[count], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

void normalize_flags(Attributes& attributes) {
  for (auto& [name, value] : attributes) {
    auto* const flag = std::get_if<std::int64_t>(&value);
    if (flag == nullptr || *flag == 0 || *flag == 1) continue;
    if (holds(kSetByOne, name)) *flag = 0;
    if (holds(kSetByAny, name)) *flag = 1;
  }
}

}  // namespace xrt
