// SPDX-License-Identifier: Apache-2.0
#include "base/per_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/fork_mutex.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

// What a child that fork() makes finds; 0: all is as it should be.
template <typename Work>
int in_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // a child that waits for ever
    ::_exit(work());
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(PerProcess, IsOneObjectOfAProcess) {
  static PerProcess<int> number;
  number.get() = 7;
  EXPECT_EQ(number.get(), 7);
}

TEST(PerProcess, AChildHasOneOfItsOwnWhoseLockIsFree) {
  static PerProcess<std::mutex> mutex;
  const std::lock_guard lock(mutex.get());
  EXPECT_EQ(in_child([] {
              const std::lock_guard own(mutex.get());
              return in_child([] {
                const std::lock_guard grandchild(mutex.get());
                return 0;
              });
            }),
            0);
}

TEST(PerProcess, AMemberEndsWithItsObject) {
  struct Counted {
    Counted() { ++alive(); }
    ~Counted() { --alive(); }
    static int& alive() {
      static int count = 0;
      return count;
    }
  };
  {
    MemberPerProcess<Counted> member;
    member.get();
    EXPECT_EQ(Counted::alive(), 1);
  }
  EXPECT_EQ(Counted::alive(), 0);
}

// Beside threads that take the lock all the time, and change two numbers together with it.
template <typename Mutex>
void fork_beside_holders() {
  Mutex mutex;
  volatile int first = 0;
  volatile int second = 0;
  std::atomic<bool> ends = false;
  std::vector<std::jthread> holders;
  for (int i = 0; i < 2; ++i) {
    holders.emplace_back([&] {
      while (!ends) {
        const std::lock_guard lock(mutex);
        first = first + 1;
        for (int turn = 0; turn < 1000; ++turn) second = first;
      }
    });
  }
  for (int turn = 0; turn < 50; ++turn) {
    EXPECT_EQ(in_child([&] {
                const std::lock_guard lock(mutex);
                return first == second ? 0 : 1;
              }),
              0);
  }
  ends = true;
}

TEST(ForkMutex, AChildFindsItFree) { fork_beside_holders<ForkMutex>(); }
TEST(ForkMutex, AlsoOneThatReadersShare) { fork_beside_holders<SharedForkMutex>(); }

TEST(ForkMutex, WhoHoldsOneMayForkAndTakeAnother) {
  ForkMutex mutex;
  ForkMutex other;
  const auto start = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(in_child([&] {
                const std::lock_guard within(other);
                return 0;
              }),
              0);
  }
  EXPECT_EQ(in_child([&] {
              const std::lock_guard lock(mutex);
              return 0;
            }),
            0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
}

class ForkedLock : public testing::Test {
 protected:
  ~ForkedLock() override { fs::remove(path_); }

  const fs::path path_ =
      fs::temp_directory_path() / ("xrt_fork_lock_" + std::to_string(::getpid()));
};

TEST_F(ForkedLock, AChildDoesNotHaveItsParentsLock) {
  const FileLock lock(path_);
  EXPECT_EQ(in_child([&] { return FileLock::try_lock(path_) == nullptr ? 0 : 1; }), 0);
}

TEST_F(ForkedLock, IsFreeOnceTheParentLeavesIt) {
  int go[2] = {-1, -1};
  ASSERT_EQ(::pipe(go), 0);
  auto lock = std::make_unique<FileLock>(path_);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(go[1]);
    char byte = 0;
    ::_exit(::read(go[0], &byte, 1) == 0 ? 0 : 1);  // until the parent closes its end
  }
  lock.reset();
  EXPECT_NE(FileLock::try_lock(path_), nullptr);
  ::close(go[0]);
  ::close(go[1]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(ForkedLock, TheCopyOfAChildIsNobodysFile) {
  auto lock = std::make_unique<FileLock>(path_);
  EXPECT_EQ(in_child([&] {
              // It has the descriptor's number now.
              const fs::path other = path_.string() + "_other";
              const FileLock own(other);
              lock.reset();
              const bool is_held = FileLock::try_lock(other) == nullptr;
              fs::remove(other);
              return is_held ? 0 : 1;
            }),
            0);
  EXPECT_EQ(FileLock::try_lock(path_), nullptr);
}

}  // namespace
}  // namespace xrt
