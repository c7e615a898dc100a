// SPDX-License-Identifier: Apache-2.0
// Two statements about one value's type, taken together.
#pragma once

#include <optional>

#include "xrt/export.h"
#include "xrt/type.h"

namespace xrt {

// What both say; nothing where they contradict. A number beats a symbol, a symbol of `second` beats
// one of `first`.
XRT_API std::optional<Type> merge_types(const Type& first, const Type& second);

// Whether nothing but ranks and dimensions of the two may contradict.
XRT_API bool agree_but_for_shapes(const Type& first, const Type& second);

}  // namespace xrt
