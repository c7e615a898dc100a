// SPDX-License-Identifier: Apache-2.0
// What an executable says whose runs need not be waited for.
#pragma once

#include "xrt/export.h"

namespace xrt {

// An executable on a device derives from this class too where it takes RunOptions::stream. A run
// with a stream begins when what is queued there is done, and may return before its outputs are
// written: what is queued there afterwards finds them so. It is given a stream only where all
// outputs are none and marked on_device. Errors that come up after run() has returned are thrown
// by a later run().
class XRT_API FollowsStream {
 public:
  virtual ~FollowsStream();
  // Always the same answer.
  virtual bool follows_stream() const = 0;
};

}  // namespace xrt
