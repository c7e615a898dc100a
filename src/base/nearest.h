// SPDX-License-Identifier: Apache-2.0
// "Did you mean …?": the name nearest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"

namespace xrt {

// Insertions, deletions and substitutions that turn one text into the other.
XRT_API std::size_t edit_distance(std::string_view a, std::string_view b);

// "; did you mean 'name'?" for the nearest of the names, or that they are `names`, where none is
// near.
XRT_API std::string suggestion(std::string_view wrong, const std::vector<std::string>& names);

}  // namespace xrt
