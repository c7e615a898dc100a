// SPDX-License-Identifier: Apache-2.0
// Pointwise expressions as instructions for XRT_K_EW.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lir/lir.h"

namespace xrt::lite {

struct EwCode {
  std::vector<std::uint32_t> words;
  int result = 0;  // register
};

// Nothing where the expression needs more registers or words than there are.
std::optional<EwCode> assemble(const LEw& ew);

}  // namespace xrt::lite
