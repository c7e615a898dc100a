// SPDX-License-Identifier: Apache-2.0
// Objects of the whole process in the children that fork() makes.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>

namespace xrt {

// An object made when it is first asked for and never destroyed. A child that fork() made has one
// of its own: threads that hold the locks of the other one, or were to do its work, are the
// parent's.
template <typename T>
class PerProcess {
 public:
  T& get() {
    Made* before = made_.load(std::memory_order_acquire);
    if (before != nullptr && before->process == ::getpid()) return before->object;
    auto fresh = std::make_unique<Made>(before);
    if (made_.compare_exchange_strong(before, fresh.get(), std::memory_order_acq_rel)) {
      return fresh.release()->object;
    }
    return before->object;  // another thread was first
  }

 protected:
  // No thread of this process has its object; those of the parents go too.
  void destroy() {
    const Made* next = made_.exchange(nullptr);
    while (next != nullptr) next = std::unique_ptr<const Made>(next)->parents;
  }

 private:
  struct Made {
    explicit Made(const Made* parents) : parents(parents) {}

    const pid_t process = ::getpid();
    const Made* const parents;  // so that checkers of leaks find it
    T object;
  };

  std::atomic<Made*> made_ = nullptr;
};

// Likewise, as a member of an object, with which it ends: a lock that is held for long.
template <typename T>
class MemberPerProcess final : public PerProcess<T> {
 public:
  MemberPerProcess() = default;
  ~MemberPerProcess() { this->destroy(); }
  MemberPerProcess(const MemberPerProcess&) = delete;
  MemberPerProcess& operator=(const MemberPerProcess&) = delete;
};

}  // namespace xrt
