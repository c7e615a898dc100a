// SPDX-License-Identifier: Apache-2.0
// The program that runs an engine in a process of its own: src/isolation/serve.h. It is started by
// libxrt, which gives it a socket, the engine's name and its own process id. Words before these are
// a command that serves instead (Python): it begins with what a worker may do.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "isolation/sandbox.h"
#include "isolation/serve.h"
#include "xrt/registry.h"

int main(int argc, char** argv) {
  constexpr int kOwnWords = 4;
  if (argc < kOwnWords) {
    std::fputs("xrt_worker is started by OpenXRT alone: it runs an engine for another process\n",
               stderr);
    return 2;
  }
  // Beyond `ulimit -f` a write of the engine's library is an error of it, and no end of the worker.
  ::signal(SIGXFSZ, SIG_IGN);
  // Files that the other process left open are none of the engine's.
  constexpr unsigned kFirst = 4;  // behind the socket
  ::close_range(kFirst, ~0U, 0);
  xrt::enter_sandbox();
  if (argc > kOwnWords) {
    ::execvp(argv[1], argv + 1);
    std::perror(argv[1]);
    return 127;
  }
  xrt::serve_engine(argv[1], argv[2], argv[3],
                    [](const std::string& name) { return xrt::get_engine(name); });
}
