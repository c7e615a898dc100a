// SPDX-License-Identifier: Apache-2.0
#include "onnx/flags.h"

#include <cstdint>
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

std::int64_t* number(Attributes& attributes, std::string_view name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
}

}  // namespace

void normalize_flags(Attributes& attributes) {
  for (const std::string_view name : kSetByOne) {
    if (std::int64_t* flag = number(attributes, name)) *flag = *flag == 1 ? 1 : 0;
  }
  for (const std::string_view name : kSetByAny) {
    if (std::int64_t* flag = number(attributes, name)) *flag = *flag != 0 ? 1 : 0;
  }
}

}  // namespace xrt
