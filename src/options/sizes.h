// SPDX-License-Identifier: Apache-2.0
// What the options `shapes` and `ranges` say, in numbers and names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"
#include "xrt/options.h"
#include "xrt/type.h"

namespace xrt {

// The sizes that a dimension is to be built for: 1 <= least <= usual <= most.
struct NamedRange {
  std::string name;
  std::int64_t least = 1, usual = 1, most = 1;
  bool operator==(const NamedRange&) const = default;
};

// "batch,3,?" of `shapes`; "" has no dimension. Throws kInvalidArgument naming the input.
XRT_API Shape parse_shape(std::string_view input, std::string_view text);
// "least:usual:most", "least:most" (then the most is usual) or "size" of `ranges`. Throws
// kInvalidArgument naming the dimension.
XRT_API NamedRange parse_range(std::string_view dimension, std::string_view text);
// All of `ranges`, in order of the names.
XRT_API std::vector<NamedRange> named_ranges(const ProgramOptions& options);
// As `ranges` takes them.
XRT_API OptionMap to_option(const std::vector<NamedRange>& ranges);

}  // namespace xrt
