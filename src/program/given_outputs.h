// SPDX-License-Identifier: Apache-2.0
// Outputs that a caller gave memory for.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "xrt/export.h"
#include "xrt/program.h"
#include "xrt/tensor.h"

namespace xrt {

// Copies what Program::run() left elsewhere into the tensors that it was given: an output that
// shares memory with an input lies in that one. Both have an entry per output; none in `given`:
// nothing was given. Throws kInvalidArgument for memory of another dtype or shape.
XRT_API void write_given(const std::vector<Data>& given, std::vector<Data>& outputs);

// The outputs whose given memory is also, in part or whole, that of an input: a run that writes
// them in place would read what it wrote. Throws kInvalidArgument where two outputs overlap.
std::vector<std::size_t> outputs_over_inputs(std::span<const Data> inputs,
                                             std::span<const Data> outputs,
                                             const std::vector<Port>& ports);

}  // namespace xrt
