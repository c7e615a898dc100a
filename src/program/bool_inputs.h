// SPDX-License-Identifier: Apache-2.0
// Tensors of bool whose bytes are neither 0 nor 1, as NumPy's views may be: libraries index and add
// up such bytes.
#pragma once

#include <optional>

#include "xrt/tensor.h"

namespace xrt {

// The same truth values in bytes of 0 and 1; nothing where they are such already, or are none that
// the host can read.
std::optional<Data> with_plain_bools(const Data& data);

}  // namespace xrt
