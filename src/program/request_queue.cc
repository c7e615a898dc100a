// SPDX-License-Identifier: Apache-2.0
#include "program/request_queue.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/interrupt.h"
#include "program/given_outputs.h"
#include "xrt/error.h"

namespace xrt {
namespace {

using Clock = std::chrono::steady_clock;

// Who waits asks this often whether the user has interrupted it.
constexpr std::chrono::milliseconds kInterruptInterval{50};

}  // namespace

class Request::State : public std::enable_shared_from_this<State> {
 public:
  State(std::vector<Data> inputs, std::vector<Data> outputs, const RunOptions& options,
        std::function<void(const Request&)> done, std::weak_ptr<RequestQueue::Pool> pool)
      : inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        options_(options),
        pool_(std::move(pool)) {
    if (done) callbacks_.push_back(std::move(done));
  }

  bool running() const { return phase_ == Phase::kRunning; }
  bool done() const { return phase_ >= Phase::kDone; }
  bool cancelled() const { return phase_ == Phase::kCancelled; }

  void carry_out(const RequestQueue::Run& run) {
    phase_ = Phase::kRunning;
    const Clock::time_point begin = Clock::now();
    std::exception_ptr error;
    try {
      run(inputs_, outputs_, options_);
    } catch (...) {  // get() throws it
      error = std::current_exception();
    }
    run_time_ = Clock::now() - begin;
    end(Phase::kDone, std::move(error));
  }

  bool cancel();

  bool wait_until(Clock::time_point limit) const {
    if (done()) return true;
    if (process_ != ::getpid()) {
      throw Error(ErrorCode::kEngine,
                  "the request was submitted in the process that this one was forked from, which "
                  "carries it out");
    }
    std::unique_lock lock(mutex_);
    while (!done()) {
      const Clock::time_point now = Clock::now();
      if (now >= limit) return false;
      changed_.wait_until(lock, std::min(limit, now + kInterruptInterval));
      if (done()) break;
      lock.unlock();
      throw_if_interrupted();
      lock.lock();
    }
    return true;
  }

  std::vector<Data> outcome() const {
    if (cancelled()) {
      throw Error(ErrorCode::kInvalidArgument, "the request was cancelled: it has no outputs");
    }
    if (error_) std::rethrow_exception(error_);
    return outputs_;
  }

  void on_done(std::function<void(const Request&)> callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!done()) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback(Request(shared_from_this()));
  }

  std::chrono::nanoseconds run_time() const {
    return done() ? run_time_ : std::chrono::nanoseconds::zero();
  }

 private:
  enum class Phase : std::uint8_t { kWaiting, kRunning, kDone, kCancelled };

  void end(Phase phase, std::exception_ptr error) {
    // The caller's memory is not touched any more when others see the end.
    inputs_.clear();
    if (error || phase == Phase::kCancelled) outputs_.clear();
    std::vector<std::function<void(const Request&)>> callbacks;
    {
      const std::lock_guard lock(mutex_);
      error_ = std::move(error);
      phase_ = phase;
      callbacks.swap(callbacks_);
    }
    changed_.notify_all();
    const Request self(shared_from_this());
    for (auto& callback : callbacks) {
      callback(self);
      callback = nullptr;  // what it holds goes before the next one is called
    }
  }

  std::vector<Data> inputs_, outputs_;
  const RunOptions options_;
  const std::weak_ptr<RequestQueue::Pool> pool_;
  const pid_t process_ = ::getpid();
  std::atomic<Phase> phase_{Phase::kWaiting};
  std::chrono::nanoseconds run_time_{0};
  std::exception_ptr error_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::function<void(const Request&)>> callbacks_;
};

// The threads of one process, with what waits for them.
class RequestQueue::Pool : public std::enable_shared_from_this<Pool> {
 public:
  Pool(int streams, std::size_t most, const Run& run)
      : streams_(static_cast<std::size_t>(streams)), most_(most), run_(run) {}

  bool is_of_this_process() const { return process_ == ::getpid(); }

  void add(const std::shared_ptr<Request::State>& request, bool wait_for_room) {
    std::unique_lock lock(mutex_);
    while (waiting_.size() >= most_ && current != this) {
      if (!wait_for_room) {
        throw Error(ErrorCode::kResource, std::to_string(waiting_.size()) +
                                              " requests wait for their turn already (max_queue)");
      }
      if (room_.wait_for(lock, kInterruptInterval) == std::cv_status::no_timeout) continue;
      lock.unlock();
      throw_if_interrupted();
      lock.lock();
    }
    waiting_.push_back(request);
    if (waiting_.size() > idle_ && threads_.size() < streams_) start_thread();
    lock.unlock();
    wake_.notify_one();
  }

  bool take_back(const std::shared_ptr<Request::State>& request) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find(waiting_.begin(), waiting_.end(), request);
    if (found == waiting_.end()) return false;
    waiting_.erase(found);
    room_.notify_one();
    return true;
  }

  // When the program goes.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    if (current == this) carry_out_the_rest();
    for (std::thread& thread : threads_) {
      if (thread.get_id() == std::this_thread::get_id()) {
        thread.detach();
      } else {
        thread.join();
      }
    }
  }

 private:
  // With the lock held.
  void start_thread() {
    try {
      // It may let the program go, and this object outlives it then.
      threads_.emplace_back([self = shared_from_this()] { self->work(); });
    } catch (const std::system_error& error) {
      // With fewer threads the request waits longer; without any it would wait for ever.
      if (!threads_.empty()) return;
      waiting_.pop_back();
      throw Error(ErrorCode::kResource,
                  std::string("a thread for a run cannot be started: ") + error.what());
    }
  }

  void work() {
    current = this;
    for (;;) {
      std::unique_lock lock(mutex_);
      ++idle_;
      wake_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      --idle_;
      if (waiting_.empty()) return;
      carry_out_first(lock);
    }
  }

  void carry_out_the_rest() {
    for (;;) {
      std::unique_lock lock(mutex_);
      if (waiting_.empty()) return;
      carry_out_first(lock);
    }
  }

  void carry_out_first(std::unique_lock<std::mutex>& lock) {
    const std::shared_ptr<Request::State> request = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    room_.notify_one();
    request->carry_out(run_);
  }

  static thread_local const Pool* current;  // whose thread this is

  const std::size_t streams_, most_;
  const Run& run_;  // not used any more once end() has returned
  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable wake_, room_;
  std::deque<std::shared_ptr<Request::State>> waiting_;
  std::size_t idle_ = 0;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

thread_local const RequestQueue::Pool* RequestQueue::Pool::current = nullptr;

bool Request::State::cancel() {
  const std::shared_ptr<RequestQueue::Pool> pool = pool_.lock();
  const bool is_mine = pool != nullptr && pool->is_of_this_process();
  if (is_mine && pool->take_back(shared_from_this())) end(Phase::kCancelled, nullptr);
  return cancelled();
}

bool Request::running() const { return state_->running(); }
bool Request::done() const { return state_->done(); }
bool Request::cancelled() const { return state_->cancelled(); }
bool Request::cancel() const { return state_->cancel(); }
std::chrono::nanoseconds Request::run_time() const { return state_->run_time(); }

void Request::wait() const { state_->wait_until(Clock::time_point::max()); }

bool Request::wait_for(std::chrono::nanoseconds limit) const {
  const Clock::time_point now = Clock::now();
  // What the clock cannot count to is for ever.
  const bool is_bounded = limit < Clock::time_point::max() - now;
  return state_->wait_until(is_bounded ? now + limit : Clock::time_point::max());
}

std::vector<Data> Request::get() const {
  wait();
  return state_->outcome();
}

void Request::on_done(std::function<void(const Request&)> callback) const {
  state_->on_done(std::move(callback));
}

RequestQueue::RequestQueue(int streams, std::size_t most, Run run)
    : streams_(std::max(streams, 1)), most_(most), run_(std::move(run)) {}

RequestQueue::~RequestQueue() {
  for (std::shared_ptr<Pool>& pool : pools_) {
    if (pool->is_of_this_process()) {
      pool->end();
    } else {
      // Its threads are another process's: nothing of it can be taken down here.
      static_cast<void>(new std::shared_ptr<Pool>(std::move(pool)));
    }
  }
}

RequestQueue::Pool& RequestQueue::pool() {
  Pool* const now = now_.load(std::memory_order_acquire);
  if (now != nullptr && now->is_of_this_process()) return *now;
  const std::lock_guard lock(mutex_);
  if (pools_.empty() || !pools_.back()->is_of_this_process()) {
    pools_.push_back(std::make_shared<Pool>(streams_, most_, run_));
    now_.store(pools_.back().get(), std::memory_order_release);
  }
  return *pools_.back();
}

Request RequestQueue::add(std::vector<Data> inputs, std::vector<Data> outputs,
                          const RunOptions& options, std::function<void(const Request&)> done) {
  Pool& mine = pool();
  auto state = std::make_shared<Request::State>(std::move(inputs), std::move(outputs), options,
                                                std::move(done), mine.weak_from_this());
  mine.add(state, options.wait_for_room);
  return Request(std::move(state));
}

std::unique_ptr<RequestQueue> queue_of(Program& program, int streams,
                                       const ProgramOptions& options) {
  return std::make_unique<RequestQueue>(
      streams, static_cast<std::size_t>(options.max_queue),
      [&program](std::span<const Data> inputs, std::vector<Data>& outputs,
                 const RunOptions& run_options) {
        const std::vector<Data> given = outputs;
        program.run(inputs, outputs, run_options);
        write_given(given, outputs);
      });
}

}  // namespace xrt
