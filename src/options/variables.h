// SPDX-License-Identifier: Apache-2.0
// The environment variables that the core reads, but for those of options.
#pragma once

#include <string_view>
#include <vector>

#include "xrt/export.h"

namespace xrt {

struct VariableInfo {
  std::string_view name;
  std::string_view help;
};

// In the order of src/options/variables.inc.
XRT_API const std::vector<VariableInfo>& variable_table();

}  // namespace xrt
