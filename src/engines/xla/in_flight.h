// SPDX-License-Identifier: Apache-2.0
// Runs on a device that were started and not waited for.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engines/xla/pjrt_api.h"
#include "xrt/tensor.h"

namespace xrt::xla {

// Keeps what such runs read until they have ended, and their errors until somebody asks.
// Thread-safety: everything may be used by many threads at once.
class InFlight {
 public:
  struct Run {
    std::string function;
    PjrtEvent complete;
    std::vector<std::shared_ptr<PJRT_Buffer>> arguments;
    std::vector<Tensor> copies;  // memory of our own that arguments are views of
  };

  void add(Run run);
  // The runs that have ended, which nobody has to keep any longer; waits for the oldest ones while
  // there are many, or for `all`. Throws kEngine, naming the function, if one of them failed.
  std::vector<Run> settle(const PjrtApi& api, bool all = false);

 private:
  std::mutex mutex_;
  std::deque<Run> runs_;  // in the order of starting, which is that of ending
};

}  // namespace xrt::xla
