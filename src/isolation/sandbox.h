// SPDX-License-Identifier: Apache-2.0
// What a worker gives up before it loads its engine.
#pragma once

#include <limits>

#include "xrt/export.h"

namespace xrt {

// Called while the process has one thread: others would keep what Landlock takes.
//
// No new privileges, no core files, first in line when the machine is out of memory. System calls
// that an engine needs none of fail with EPERM: sockets but those of this machine's own (AF_UNIX),
// io_uring (which makes sockets too), tracing other processes, reading their memory, taking their
// descriptors and setting their limits, mounting, loading kernel code, and new name spaces.
// Of root's capabilities those to files are left. Landlock refuses the memory, descriptors and maps
// of other processes in /proc, and signals to them; before its version 6 the filter refuses signals
// to all processes but this one itself.
//
// A line in the log says what the kernel does not have. `most_landlock` bounds the version of
// Landlock, for tests; 0 does without.
XRT_API void enter_sandbox(int most_landlock = std::numeric_limits<int>::max());

}  // namespace xrt
