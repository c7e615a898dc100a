// SPDX-License-Identifier: Apache-2.0
#include "device/host_threads.h"

namespace xrt {
namespace {
thread_local const HostThreads* lent = nullptr;
}  // namespace

LendThreads::LendThreads(const HostThreads& threads) : threads_(threads), outer_(lent) {
  lent = &threads_;
}

LendThreads::~LendThreads() { lent = outer_; }

const HostThreads* lent_threads() { return lent; }

}  // namespace xrt
