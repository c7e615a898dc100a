// SPDX-License-Identifier: Apache-2.0
// What an executable may tell people about itself.
#pragma once

#include <string>
#include <vector>

#include "xrt/export.h"

namespace xrt {

// An executable derives from this class too where it has something to say that its nodes and times
// do not show. Explanation::notes has each remark, after the name of the function.
class XRT_API TellsRemarks {
 public:
  virtual ~TellsRemarks();
  // Always the same answer: sentences without a capital and a full stop, like error messages.
  virtual std::vector<std::string> remarks() const = 0;
};

}  // namespace xrt
