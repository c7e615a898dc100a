// SPDX-License-Identifier: Apache-2.0
// Threads for libraries that end the process, or wait for ever, where one of theirs cannot start.
#pragma once

#include "xrt/export.h"

namespace xrt {

// kResource unless so many more threads can be started now: it starts them, and they end at once.
// Limits on processes (RLIMIT_NPROC, pids.max) and on memory, which stacks take, are found here.
XRT_API void require_threads(int count);

}  // namespace xrt
