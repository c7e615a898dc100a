// SPDX-License-Identifier: Apache-2.0
// What an engine may say about its serialised executables.
#pragma once

#include "xrt/export.h"

namespace xrt {

// An engine derives from this class too if its load() takes all elements of constants from the blob
// and none from the function's graph, whose names, types and wiring it may read. Then a program
// that comes from the disk cache need not read the weights that its graph has beside those in the
// blob.
class XRT_API SelfContainedBlobs {
 public:
  virtual ~SelfContainedBlobs();
};

}  // namespace xrt
