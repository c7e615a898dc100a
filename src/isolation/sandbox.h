// SPDX-License-Identifier: Apache-2.0
// What a worker gives up before it loads its engine.
#pragma once

namespace xrt {

// No new privileges, no core files, first in line when the machine is out of memory, and system
// calls that an engine needs none of fail with EPERM: sockets but those of this machine's own
// (AF_UNIX), io_uring (which makes sockets too), tracing and reading other processes, mounting,
// loading kernel code, and changing name spaces. Where the kernel has no such filters, a line in
// the log says so.
void enter_sandbox();

}  // namespace xrt
