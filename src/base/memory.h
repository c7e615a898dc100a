// SPDX-License-Identifier: Apache-2.0
// What memory this process can still have.
#pragma once

#include <cstddef>

#include "xrt/export.h"

namespace xrt {

// Bytes that can be had without swapping: the least of what the kernel says is available and what
// the process's control group leaves. All there could be where neither can be read.
XRT_API std::size_t available_memory();

}  // namespace xrt
