// SPDX-License-Identifier: Apache-2.0
#include "gil.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "xrt/error.h"

namespace xrt::python {
namespace {

// Of runs that a caller left in a daemon thread; nobody waits for longer ones at the end of a
// program.
constexpr std::chrono::seconds kPatience{10};

std::atomic<bool> ending{false};
std::atomic<int> inside{0};      // threads with an Entry
thread_local int depth = 0;      // of the thread's entries
thread_local bool ends = false;  // it is the one that ends the interpreter

// A child of fork() has none of its parent's other threads.
[[maybe_unused]] const int kAtFork =
    ::pthread_atfork(nullptr, nullptr, [] { inside = depth > 0 ? 1 : 0; });

}  // namespace

bool is_up() {
#ifdef Py_LIMITED_API
  // The stable ABI of Python 3.12 has no such function; Python itself has one, of either name.
  using Function = int (*)();
  static const auto is_finalizing = [] {
    void* found = ::dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    if (found == nullptr) found = ::dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
    return reinterpret_cast<Function>(found);
  }();
  return Py_IsInitialized() != 0 && (is_finalizing == nullptr || is_finalizing() == 0);
#elif PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() != 0 && Py_IsFinalizing() == 0;
#else
  return Py_IsInitialized() != 0 && _Py_IsFinalizing() == 0;
#endif
}

Entry::Entry() : entered_(is_up()) {
  if (!entered_) return;
  if (depth == 0) {
    ++inside;  // before the look: who ends sees it, or it sees the end
    if (ending && !ends) {
      --inside;
      entered_ = false;
      return;
    }
  }
  ++depth;
}

Entry::~Entry() {
  if (entered_ && --depth == 0) --inside;
}

Gil::Checked Gil::checked(const Entry& entry) {
  if (!entry) throw Error(ErrorCode::kEngine, "Python is shutting down");
  return {};
}

ReleasedGil::~ReleasedGil() {
  const Entry entry;
  // Whoever ends the interpreter has no entry in its last moments, and owns the lock all the same.
  while (!entry && !ends) ::pause();
  PyEval_RestoreThread(state_);
}

void end_entries() {
  ends = true;
  ending = true;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  const int own = depth > 0 ? 1 : 0;
  while (inside > own && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace xrt::python
