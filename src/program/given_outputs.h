// SPDX-License-Identifier: Apache-2.0
// Outputs that a caller gave memory for.
#pragma once

#include <vector>

#include "xrt/export.h"
#include "xrt/tensor.h"

namespace xrt {

// Copies what Program::run() left elsewhere into the tensors that it was given: an output that
// shares memory with an input lies in that one. Both have an entry per output; none in `given`:
// nothing was given.
XRT_API void write_given(const std::vector<Data>& given, std::vector<Data>& outputs);

}  // namespace xrt
