// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "cli/text.h"

namespace xrt::cli {

using std::chrono::duration_cast;
using std::chrono::seconds;
using std::chrono::steady_clock;

Progress::Progress(std::string what)
    : what_(std::move(what)),
      observe_([this](const std::string& line) {
        const std::lock_guard lock(mutex_);
        detail_ = ": " + line;
      }),
      watcher_([this] { watch(); }) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  watcher_.join();
}

void Progress::step(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
  detail_.clear();
}

void Progress::watch() {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto start = steady_clock::now();
  bool shown = false;
  auto wait = seconds(2);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, wait, [this] { return done_; })) {
    const auto passed = duration_cast<seconds>(steady_clock::now() - start).count();
    if (terminal) {
      tell("\r\x1b[K{}{} … {} s", what_, detail_, passed);
      std::fflush(stderr);
      wait = seconds(1);
    } else {
      tell("{}{} ... {} s\n", what_, detail_, passed);
      wait = seconds(10);
    }
    shown = true;
  }
  if (shown && terminal) {
    tell("\r\x1b[K");
    std::fflush(stderr);
  }
}

}  // namespace xrt::cli
