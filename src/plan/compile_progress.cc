// SPDX-License-Identifier: Apache-2.0
#include "plan/compile_progress.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/work_scope.h"
#include "xrt/error.h"

namespace xrt {
namespace {

struct Observers {
  std::mutex mutex;
  std::vector<std::pair<const ObserveCompiling*, CompileObserver>> list;
};

Observers& observers() {
  static Observers instance;
  return instance;
}

}  // namespace

ObserveCompiling::ObserveCompiling(CompileObserver observer) {
  const std::lock_guard lock(observers().mutex);
  observers().list.emplace_back(this, std::move(observer));
}

ObserveCompiling::~ObserveCompiling() {
  const std::lock_guard lock(observers().mutex);
  std::erase_if(observers().list, [this](const auto& entry) { return entry.first == this; });
}

std::function<void(std::string_view, double)> compile_progress(std::string function) {
  return [function = std::move(function), limit = WorkScope::time_limit()](std::string_view what,
                                                                           double part) {
    // Whichever thread of the engine's tells: an engine that is stopped has failed to compile.
    if (limit != nullptr && limit->is_over()) {
      throw Error(ErrorCode::kResource, "the time for compiling is over");
    }
    const auto percent = std::lround(100 * std::clamp(part, 0.0, 1.0));
    const std::string line =
        function + ": " + std::string(what) + ", " + std::to_string(percent) + " %";
    const std::lock_guard lock(observers().mutex);
    if (observers().list.empty()) {
      log_info(line);
    } else {
      observers().list.back().second(line);
    }
  };
}

}  // namespace xrt
