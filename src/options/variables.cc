// SPDX-License-Identifier: Apache-2.0
#include "options/variables.h"

namespace xrt {

const std::vector<VariableInfo>& variable_table() {
  static const std::vector<VariableInfo> table = {
#define XRT_VARIABLE(name, help) {#name, help},
#include "options/variables.inc"
  };
  return table;
}

}  // namespace xrt
