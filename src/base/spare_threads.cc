// SPDX-License-Identifier: Apache-2.0
#include "base/spare_threads.h"

#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "xrt/error.h"

namespace xrt {

void require_threads(int count) {
  std::latch all_are_there(1);
  std::vector<std::thread> threads;
  std::string cause;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([&] { all_are_there.wait(); });
  } catch (const std::system_error& error) {
    cause = error.what();
  }
  all_are_there.count_down();
  for (std::thread& thread : threads) thread.join();
  if (cause.empty()) return;
  throw Error(ErrorCode::kResource, "there is no room for " + std::to_string(count) +
                                        " threads: " + std::to_string(threads.size()) +
                                        " can be started: " + cause);
}

}  // namespace xrt
