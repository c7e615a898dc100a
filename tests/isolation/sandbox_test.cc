// SPDX-License-Identifier: Apache-2.0
// What a process can do in the sandbox, by what the kernel has of Landlock.
#include "isolation/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "base/file.h"
#include "isolation/landlock.h"
#include "tests/isolation/landlock_of_kernel.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

constexpr int kVersionWithMoves = 2;
constexpr int kNewest = 7;

// How a child of this process ends that is in the sandbox and does `act`.
int status_in_sandbox(int landlock, const std::function<int()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    enter_sandbox(landlock);
    ::_exit(act());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// Whether `act` holds there.
bool in_sandbox(int landlock, const std::function<bool()>& act) {
  const int status = status_in_sandbox(landlock, [&] { return act() ? 10 : 11; });
  EXPECT_TRUE(WIFEXITED(status)) << "status " << status;
  return WEXITSTATUS(status) == 10;
}

bool opens(const std::string& path, int how) { return ::open(path.c_str(), how) >= 0; }

// The parameter is the newest version of Landlock that is used.
class Sandbox : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() > landlock_of_kernel()) {
      GTEST_SKIP() << "this kernel has version " << landlock_of_kernel() << " of Landlock";
    }
  }
};

TEST_P(Sandbox, NoMemoryOfTheParent) {
  if (GetParam() == 0 && ::geteuid() != 0) {
    GTEST_SKIP() << "without Landlock a user's processes may open each other's memory";
  }
  const std::string folder = "/proc/" + std::to_string(::getpid());
  EXPECT_FALSE(in_sandbox(GetParam(), [&] { return opens(folder + "/mem", O_RDWR); }));
  EXPECT_FALSE(in_sandbox(GetParam(), [&] { return opens(folder + "/maps", O_RDONLY); }));
  EXPECT_FALSE(in_sandbox(GetParam(), [&] { return opens(folder + "/fd/0", O_RDONLY); }));
  EXPECT_TRUE(in_sandbox(GetParam(), [] { return opens("/proc/self/mem", O_RDWR); }));
}

TEST_P(Sandbox, NoDescriptorsOfTheParent) {
  const pid_t parent = ::getpid();
  EXPECT_FALSE(in_sandbox(GetParam(), [&] { return ::syscall(SYS_pidfd_open, parent, 0) >= 0; }));
  // One that was made before.
  const auto handle = static_cast<int>(::syscall(SYS_pidfd_open, parent, 0));
  EXPECT_FALSE(in_sandbox(
      GetParam(), [&] { return ::syscall(SYS_pidfd_getfd, handle, STDERR_FILENO, 0) >= 0; }));
  ::close(handle);
}

TEST_P(Sandbox, NoSignalsToTheParent) {
  const pid_t parent = ::getpid();
  const auto handle = static_cast<int>(::syscall(SYS_pidfd_open, parent, 0));
  const auto refused = [&](const std::function<bool()>& act) {
    return !in_sandbox(GetParam(), act);
  };
  EXPECT_TRUE(refused([&] { return ::kill(parent, 0) == 0; }));
  EXPECT_TRUE(refused([&] { return ::syscall(SYS_tgkill, parent, parent, 0) == 0; }));
  EXPECT_TRUE(refused([&] { return ::syscall(SYS_tkill, parent, 0) == 0; }));
  EXPECT_TRUE(refused([&] { return ::sigqueue(parent, 0, {}) == 0; }));
  EXPECT_TRUE(refused([&] { return ::syscall(SYS_pidfd_send_signal, handle, 0, 0, 0) == 0; }));
  ::close(handle);
}

std::atomic<int> seen{0};

// Whoever owns a descriptor gets a signal when something can be read from it.
TEST_P(Sandbox, NoSignalsToTheOwnerOfADescriptor) {
  seen = 0;
  const auto before = ::signal(SIGUSR1, [](int) { ++seen; });
  const pid_t parent = ::getpid();
  for (const bool by_control : {false, true}) {
    in_sandbox(GetParam(), [&] {
      int pair[2] = {-1, -1};
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return false;
      pid_t owner = parent;
      by_control ? ::ioctl(pair[0], FIOSETOWN, &owner) : ::fcntl(pair[0], F_SETOWN, owner);
      ::fcntl(pair[0], F_SETSIG, SIGUSR1);
      ::fcntl(pair[0], F_SETFL, O_ASYNC);
      return ::write(pair[1], "", 1) == 1;
    });
  }
  EXPECT_EQ(seen, 0);
  ::signal(SIGUSR1, before);
}

TEST_P(Sandbox, NoLimitsOfTheParent) {
  const pid_t parent = ::getpid();
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_CPU, &limit), 0);
  EXPECT_FALSE(
      in_sandbox(GetParam(), [&] { return ::prlimit(parent, RLIMIT_CPU, &limit, nullptr) == 0; }));
  EXPECT_TRUE(in_sandbox(GetParam(), [&] { return ::setrlimit(RLIMIT_CPU, &limit) == 0; }));
}

TEST_P(Sandbox, NoRightsOfRootButThoseToFiles) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root has them";
  // The system call itself: setuid() is for all threads, of which a sanitizer has one outside.
  EXPECT_FALSE(in_sandbox(GetParam(), [] { return ::syscall(SYS_setuid, 1) == 0; }));
  EXPECT_FALSE(in_sandbox(GetParam(), [] {  // nor in a program that it starts
    return std::system("grep -Eq 'CapEff:.0*[1-9a-f].{4,}$' /proc/self/status") == 0;
  }));
  const TemporaryFolder folder("sandbox");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0), 0);
  EXPECT_TRUE(in_sandbox(GetParam(), [&] {
    return ::open((folder.path() / "file").c_str(), O_CREAT | O_WRONLY, 0600) >= 0;
  }));
}

TEST_P(Sandbox, NoNameSpaces) {
  EXPECT_FALSE(in_sandbox(GetParam(), [] { return ::unshare(CLONE_NEWUSER) == 0; }));
  EXPECT_FALSE(in_sandbox(GetParam(), [] {
    const auto child = ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) ::_exit(0);
    return child > 0;
  }));
}

TEST_P(Sandbox, NoNetwork) {
  EXPECT_FALSE(in_sandbox(GetParam(), [] { return ::socket(AF_INET, SOCK_STREAM, 0) >= 0; }));
  EXPECT_FALSE(in_sandbox(GetParam(), [] { return ::socket(AF_INET6, SOCK_DGRAM, 0) >= 0; }));
  EXPECT_TRUE(in_sandbox(GetParam(), [] { return ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }));
}

// What engines do.
TEST_P(Sandbox, ThreadsProcessesAndFilesAreAllowed) {
  EXPECT_TRUE(in_sandbox(GetParam(), [] {
    bool started = false;
    std::thread([&] { started = true; }).join();
    return started;
  }));
  EXPECT_TRUE(in_sandbox(GetParam(), [] {
    const pid_t child = ::fork();
    if (child == 0) ::execl("/bin/true", "true", nullptr);
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }));
  const TemporaryFolder folder("sandbox");
  fs::create_directory(folder.path() / "one");
  fs::create_directory(folder.path() / "two");
  EXPECT_TRUE(in_sandbox(GetParam(), [&] {
    const fs::path file = folder.path() / "one" / "file";
    std::ofstream(file) << "text";
    std::error_code error;
    fs::rename(file, folder.path() / "one" / "other", error);
    return !error;
  }));
  const bool moves = in_sandbox(GetParam(), [&] {
    std::error_code error;
    fs::rename(folder.path() / "one" / "other", folder.path() / "two" / "other", error);
    return !error;
  });
  EXPECT_EQ(moves, GetParam() == 0 || GetParam() >= kVersionWithMoves);
}

TEST_P(Sandbox, AProcessCanEndItself) {
  const auto signal_of = [&](const std::function<int()>& act) {
    const int status = status_in_sandbox(GetParam(), act);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
  };
  EXPECT_EQ(signal_of([]() -> int { std::abort(); }), SIGABRT);
  EXPECT_EQ(signal_of([] { return ::raise(SIGTERM); }), SIGTERM);
  EXPECT_EQ(signal_of([] { return ::kill(::getpid(), SIGKILL); }), SIGKILL);
  EXPECT_EQ(signal_of([] {
              std::thread([] { std::abort(); }).join();
              return 0;
            }),
            SIGABRT);
}

// With Landlock's help; the filter knows no process but the one that it was made for.
TEST_P(Sandbox, AProcessCanEndWhatItStarted) {
  const bool can = in_sandbox(GetParam(), [] {
    int pipe[2] = {-1, -1};
    if (::pipe(pipe) != 0) return false;
    const pid_t child = ::fork();
    if (child == 0) {
      char none = 0;
      ::close(pipe[1]);
      ::_exit(static_cast<int>(::read(pipe[0], &none, 1)));
    }
    ::kill(child, SIGKILL);
    ::close(pipe[1]);
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFSIGNALED(status);
  });
  EXPECT_EQ(can, GetParam() >= kLandlockWithSignals);
}

INSTANTIATE_TEST_SUITE_P(Landlock, Sandbox, ::testing::Range(0, kNewest + 1));

}  // namespace
}  // namespace xrt
