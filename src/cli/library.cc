// SPDX-License-Identifier: Apache-2.0
// The command as a library: the program calls it, and so does a Python process, which brings the
// engines that are written in Python.
#include <cstdio>

#include "cli/command.h"

extern "C" __attribute__((visibility("default"))) int xrt_run_command(int argc,
                                                                      const char* const* argv) {
  const int code = xrt::cli::run_command_line(argc, argv);
  std::fflush(nullptr);  // the process may end by another way than exit()
  return code;
}
