// SPDX-License-Identifier: Apache-2.0
// What an executable may say about the scratch memory of its runs, beside
// Executable::workspace_bytes().
#pragma once

#include "xrt/export.h"

namespace xrt {

// An executable derives from this class too where its library does not tell how much scratch memory
// a run takes: its workspace_bytes() is 0 then, which is no promise. Where the user set a bound
// (ProgramOptions::max_workspace_bytes), the runtime says that nothing holds such a function to it.
class XRT_API TellsWorkspace {
 public:
  virtual ~TellsWorkspace();
  // Always the same answer.
  virtual bool workspace_known() const { return false; }
};

}  // namespace xrt
