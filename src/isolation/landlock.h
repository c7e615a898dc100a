// SPDX-License-Identifier: Apache-2.0
// Landlock, the kernel's means by which a process gives up access to what lies outside of it.
#pragma once

namespace xrt {

// From this version on Landlock refuses signals to processes outside of the domain.
constexpr int kLandlockWithSignals = 6;

// Puts this thread, and what it starts later, in a domain of its own: memory, descriptors and maps
// of processes outside of it (/proc/PID/mem, .../fd, .../maps, tracing) are refused, from version 4
// on TCP, and from kLandlockWithSignals on signals and abstract Unix sockets, too. Files stay as
// they are, but that version 1 refuses to move or link a file from one folder to another (EXDEV).
//
// Returns the version that holds, at most `most`; 0 where there is none, with the cause in errno.
// The thread must have no_new_privs.
int enter_landlock(int most);

}  // namespace xrt
