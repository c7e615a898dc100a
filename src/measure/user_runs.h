// SPDX-License-Identifier: Apache-2.0
// Runs of the process's programs, as a measurement beside them sees them: it makes way.
//
//   const UserRun run;  // in Program::run()
//
//   const WatchUserRuns watch;  // in the measurement
//   if (watch.quiet_for(std::chrono::milliseconds(10))) ...
//
// Nothing is counted while nobody watches, so that a run costs no shared memory.
#pragma once

#include <chrono>

#include "xrt/export.h"

namespace xrt {

// One run of a program, as long as the object lives.
class XRT_API UserRun {
 public:
  UserRun();
  ~UserRun();
  UserRun(const UserRun&) = delete;
  UserRun& operator=(const UserRun&) = delete;

 private:
  bool counted_;  // somebody watched when it began
};

class XRT_API WatchUserRuns {
 public:
  WatchUserRuns();
  ~WatchUserRuns();
  WatchUserRuns(const WatchUserRuns&) = delete;
  WatchUserRuns& operator=(const WatchUserRuns&) = delete;

  // No run is under way, and none was for so long. Runs that began before the first watcher came
  // are not seen.
  static bool quiet_for(std::chrono::nanoseconds time);
};

}  // namespace xrt
