// SPDX-License-Identifier: Apache-2.0
// What the rules of QuantizeOptions say of one node.
#pragma once

#include <optional>
#include <string_view>

#include "xrt/quantize.h"

namespace xrt::quantization {

// Whether `text` is `pattern`, in which '*' is any text and '?' any character.
bool matches(std::string_view pattern, std::string_view text);

struct OpChoice {
  std::optional<bool> int8 = {};
  bool is_meant = false;  // the rule of `int8` names the op type, or this node alone
  std::optional<Activations> form = {};
  std::optional<Clipping> clipping = {};
};
OpChoice choice_for(const Node& node, const QuantizeOptions& options);

}  // namespace xrt::quantization
