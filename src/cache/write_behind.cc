// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/per_process.h"
#include "cache/cache_entry.h"
#include "registry/engine_failure.h"

namespace xrt {
namespace {

struct Job {
  std::filesystem::path dir;
  std::function<void()> write;
};

class Writer {
 public:
  // Never destroyed: finish_writing() at exit has emptied it, and engines' libraries may be gone.
  // What is to be written when a process is forked, the parent writes.
  static Writer& instance() {
    static PerProcess<Writer> writer;
    return writer.get();
  }

  void add(Job job) {
    const std::lock_guard lock(mutex_);
    if (!started_ && !start()) {
      log_trouble(job.dir, "there is no thread to write with: what was to be kept is not");
      return;
    }
    // What engines made so far is taken down after this handler, not before.
    if (jobs_.empty() && !busy_) std::atexit([] { finish_writing(); });
    jobs_.push_back(std::move(job));
    wake_.notify_all();
  }

  void wait() {
    constexpr std::chrono::milliseconds kTurn{100};
    std::unique_lock lock(mutex_);
    while (
        !done_.wait_for(lock, kTurn, [this] { return given_up_ || (jobs_.empty() && !busy_); })) {
      lock.unlock();  // the check may wait for Python, which the writer has
      const bool stop = is_interrupted();
      lock.lock();
      if (!stop) continue;
      log_warning("the compile cache: interrupted, what was still to be kept is not");
      jobs_.clear();
      given_up_ = true;
    }
  }

 private:
  // False where the system has no thread to give. The next job tries again.
  bool start() {
    try {
      std::thread([this] { work(); }).detach();
      started_ = true;
    } catch (const std::system_error& error) {
      log_debug(error.what());
    }
    return started_;
  }

  void work() {
    constexpr int kNice = 10;
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
    for (;;) {
      Job job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !jobs_.empty(); });
        job = std::move(jobs_.front());
        jobs_.pop_front();
        busy_ = true;
      }
      try {
        job.write();
      } catch (...) {  // engines' serialize() among it
        log_trouble(job.dir, exception_text() + ": what was to be kept is not");
      }
      job = {};  // with what it holds
      const std::lock_guard lock(mutex_);
      busy_ = false;
      given_up_ = false;
      done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job> jobs_;
  bool busy_ = false;
  bool started_ = false;
  bool given_up_ = false;  // nobody waits for the job at hand any longer
};

}  // namespace

void write_behind(std::filesystem::path dir, std::function<void()> write) {
  Writer::instance().add({std::move(dir), std::move(write)});
}

void finish_writing() { Writer::instance().wait(); }

}  // namespace xrt
