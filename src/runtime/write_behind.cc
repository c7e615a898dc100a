// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "runtime/cache_entry.h"
#include "xrt/error.h"

namespace xrt {
namespace {

class Writer {
 public:
  // Never destroyed: finish_writing() at exit has emptied it, and engines' libraries may be gone.
  static Writer& instance() {
    static auto* writer = new Writer;
    return *writer;
  }

  void add(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    // What engines made so far is taken down after this handler, not before.
    if (jobs_.empty() && !busy_) std::atexit([] { finish_writing(); });
    jobs_.push_back(std::move(job));
    if (!started_) {
      std::thread([this] { work(); }).detach();
      started_ = true;
    }
    wake_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return jobs_.empty() && !busy_; });
  }

 private:
  void work() {
    constexpr int kNice = 10;
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !jobs_.empty(); });
        job = std::move(jobs_.front());
        jobs_.pop_front();
        busy_ = true;
      }
      try {
        job();
      } catch (const std::exception& error) {
        log_warning("cache: " + std::string(error.what()) + ": the entry was not kept");
      }
      job = {};  // with what it holds
      const std::lock_guard lock(mutex_);
      busy_ = false;
      done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false;
  bool started_ = false;
};

}  // namespace

void write_behind(std::function<void()> write) { Writer::instance().add(std::move(write)); }

void finish_writing() { Writer::instance().wait(); }

}  // namespace xrt
