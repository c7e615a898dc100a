// SPDX-License-Identifier: Apache-2.0
// Measuring beside the runs: one thread for all programs of the process, so that measurements do
// not disturb each other, and so that no program waits for one when it goes.
//
// The thread keeps the priority of the process: engines make threads while they compile, which
// inherit it and would keep a lower one while they serve.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "placement/decision.h"
#include "xrt/export.h"
#include "xrt/tensor.h"

namespace xrt {

class XRT_API Refiner {
 public:
  // Asked by a job now and then: true once it is to end.
  using Stop = std::function<bool()>;
  using Job = std::function<void(const Stop&)>;

  static Refiner& process();

  // Does the job behind those added before. Not after end(), and not in a child that fork() made:
  // it has no such thread.
  void add(Job job);
  // Drops what waits, tells the job at hand to stop and returns when it has. For the end of the
  // process: what engines made is taken down after it.
  void end();

 private:
  Refiner() = default;
  void work();

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job> jobs_;
  bool started_ = false, busy_ = false;
  std::atomic<bool> ended_{false};
  std::atomic<int> process_{0};  // whose thread it is
};

// What the plans of one program share about measuring beside the runs and about what was said, with
// the jobs that may outlive it.
class Refining {
 public:
  // How long a program runs before it is worth measuring, from its first run.
  static constexpr std::chrono::seconds kPatience{1};

  // Whether the program has been running for a while.
  bool is_ripe();
  // Whether nothing of the program waits to be measured. True claims the turn until release().
  bool claim() { return !claimed_.exchange(true); }
  void release() { claimed_ = false; }

  // The program has gone. Returns when no check of it runs any more: a check takes moments, and the
  // process may end next, whose libraries are taken down under it. Measuring is not waited for.
  void stop();
  bool stopped() const { return stopped_; }
  // Around a check of results; false where the program has gone: then there is none to be.
  bool enter_check();
  void leave_check();

  // The latest outcome, once `budget_s` is spent: what other shapes of the program get. A program
  // with symbolic shapes would else measure for every new shape as long as it lives.
  std::optional<Decision> settled(double budget_s) const;
  // Logs a warning, unless the program has logged it before.
  void warn_once(const std::string& warning);
  void book(double seconds, const Decision& outcome);

  // Inputs that plans of fixed sizes were measured with, for the plan with open dimensions that
  // follows: the latest few.
  void keep_inputs(std::vector<Data> inputs);
  std::vector<std::vector<Data>> kept_inputs() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::atomic<Clock::rep> first_run_{0};
  std::atomic<bool> claimed_{false}, stopped_{false};
  mutable std::mutex mutex_;
  std::condition_variable left_;
  std::optional<std::thread::id> checking_;  // the thread that checks
  double spent_s_ = 0;
  std::optional<Decision> last_;
  std::vector<std::vector<Data>> inputs_;
  std::set<std::string> warnings_;  // that were logged
};

}  // namespace xrt
