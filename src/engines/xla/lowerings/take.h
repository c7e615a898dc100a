// SPDX-License-Identifier: Apache-2.0
// Reading elements at computed places.
#pragma once

#include "engines/xla/lowering.h"

namespace xrt::xla {

// As int64, with `size` added to negative ones.
Hlo wrap_negative(HloBuilder& b, const Hlo& index, std::int64_t size);
// NumPy's take: `index` of any rank replaces the axis.
Hlo take(HloBuilder& b, const Hlo& x, const Hlo& index, std::int64_t axis);
// NumPy's take_along_axis: result[i…] = x[i… with index[i…] at the axis].
Hlo take_along(HloBuilder& b, const Hlo& x, const Hlo& index, std::int64_t axis);
// `coordinates` [batch…, depth] address the first `depth` axes: result [batch…, other axes…].
Hlo take_at(HloBuilder& b, const Hlo& x, const Hlo& coordinates);

}  // namespace xrt::xla
