// SPDX-License-Identifier: Apache-2.0
#include "engines/tvm/compiler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "engines/tvm/compiler_script.h"
#include "xrt/error.h"

namespace xrt::tvm_engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kEngine, "tvm: " + what); }

[[noreturn]] void fail_errno(const std::string& what) {
  const int code = errno;
  fail(what + ": " + std::strerror(code));
}

// A file descriptor that is closed.
class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset();
    descriptor_ = std::exchange(other.descriptor_, -1);
    return *this;
  }
  int get() const { return descriptor_; }
  void reset() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
};

}  // namespace

class Compiler::Process {
 public:
  Process() {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0) fail_errno("cannot make a pipe");
    Descriptor child_in(in[0]);
    to_ = Descriptor(in[1]);
    if (::pipe2(out, O_CLOEXEC) != 0) fail_errno("cannot make a pipe");
    from_ = Descriptor(out[0]);
    Descriptor child_out(out[1]);
    messages_ = folder_.path() / "messages";
    Descriptor child_error(
        ::open(messages_.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
    if (child_error.get() < 0) fail_errno("cannot write " + messages_.string());

    // Everything the child needs is made before the fork: other threads may hold locks.
    const std::string python = Compiler::python();
    // From a folder of its own, which Python searches first: no file of the working folder gets in.
    std::string script = folder_.path() / "compiler.py";
    write_file_atomic(script, kCompilerScript);
    write_file_atomic(folder_.path() / "gpu.py", kGpuScript);
    write_file_atomic(folder_.path() / "schedules.py", kSchedulesScript);
    write_file_atomic(folder_.path() / "tuning.py", kTuningScript);
    write_file_atomic(folder_.path() / "user_code.py", kUserCodeScript);
    std::string unbuffered = "-u";
    std::string isolated = "-s";
    std::string program = python;
    std::vector<char*> arguments = {program.data(), unbuffered.data(), isolated.data(),
                                    script.data(), nullptr};
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) fail_errno("cannot start " + python);
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);
      ::dup2(child_in.get(), STDIN_FILENO);
      ::dup2(child_out.get(), STDOUT_FILENO);
      ::dup2(child_error.get(), STDERR_FILENO);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::setpgid(pid_, pid_);  // also here: whoever is first
  }

  ~Process() {
    to_.reset();
    if (is_reaped_) return;
    // Its children (linkers, measuring runs of the tuner) are of its group.
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // True where the process took the line.
  bool send(const std::string& line) {
    std::string_view rest = line;
    while (!rest.empty()) {
      const ssize_t n = write_quietly(rest);
      if (n <= 0) return false;
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  enum class Outcome { kLine, kEnd, kTimeout };
  Outcome receive(std::string& line, int timeout_seconds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_seconds);
    for (;;) {
      const std::size_t end = buffer_.find('\n');
      if (end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return Outcome::kLine;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return Outcome::kTimeout;
      throw_if_interrupted();
      constexpr std::chrono::milliseconds kTurn{100};  // for Ctrl-C to be noticed
      pollfd waiting{from_.get(), POLLIN, 0};
      const int ready = ::poll(&waiting, 1, static_cast<int>(std::min(left, kTurn).count()));
      if (ready < 0 && errno != EINTR) fail_errno("cannot wait for the compiler");
      if (ready <= 0) continue;
      char chunk[4096];
      const ssize_t n = ::read(from_.get(), chunk, sizeof(chunk));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return Outcome::kEnd;
      buffer_.append(chunk, static_cast<std::size_t>(n));
    }
  }

  // How the process ended, and the end of what it wrote; it has closed its output.
  std::string epitaph() {
    int status = 0;
    std::string how = "it closed its output";
    // Pipes close a moment before the process can be waited for.
    for (int i = 0; i < 100 && !is_reaped_; ++i) {
      is_reaped_ = ::waitpid(pid_, &status, WNOHANG) == pid_;
      if (!is_reaped_) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (is_reaped_) {
      if (WIFSIGNALED(status)) how = fmt::format("it was killed by signal {}", WTERMSIG(status));
      if (WIFEXITED(status)) how = fmt::format("it exited with status {}", WEXITSTATUS(status));
      if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        how = fmt::format("'{}' could not be run (set XRT_PYTHON)", Compiler::python());
      }
    }
    return how + last_messages();
  }

  std::string last_messages() const {
    constexpr std::size_t kKept = 1500;
    const std::string all = read_file(messages_);
    if (all.empty()) return {};
    return "; the end of its messages:\n" +
           (all.size() > kKept ? "… " + all.substr(all.size() - kKept) : all);
  }

  const fs::path& folder() const { return folder_.path(); }

 private:
  // write() without SIGPIPE where the process has gone.
  ssize_t write_quietly(std::string_view text) {
    sigset_t pipe_signal;
    sigset_t before;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    const ssize_t n = ::write(to_.get(), text.data(), text.size());
    if (n < 0 && errno == EPIPE) {
      const timespec at_once{};
      ::sigtimedwait(&pipe_signal, nullptr, &at_once);
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return n;
  }

  TemporaryFolder folder_{"tvm"};
  fs::path messages_;
  Descriptor to_, from_;
  std::string buffer_;
  pid_t pid_ = -1;
  bool is_reaped_ = false;
};

Compiler::Compiler() = default;
Compiler::~Compiler() = default;

std::string Compiler::python() {
  if (const char* named = std::getenv("XRT_PYTHON"); named != nullptr && *named != '\0') {
    return named;
  }
#ifdef XRT_TVM_DEFAULT_PYTHON
  return XRT_TVM_DEFAULT_PYTHON;
#else
  return "python3";
#endif
}

std::string Compiler::compile(const CompileRequest& request) {
  const std::lock_guard lock(mutex_);
  const std::string where = "function '" + request.function + "'";
  bool fresh = false;
  for (;;) {
    if (process_ == nullptr) {
      process_ = std::make_unique<Process>();
      fresh = true;
    }
    const fs::path model = process_->folder() / "model.onnx";
    const fs::path library = process_->folder() / "function.so";
    write_file_atomic(model, request.model);
    const Json json = {
        {"model", model.string()},
        {"library", library.string()},
        {"target", request.target},
        {"threads", request.threads},
        {"opt_level", request.opt_level},
        {"trials", request.trials},
        {"time_budget", request.time_budget_seconds},
        {"records", request.records},
        {"code", Json::parse(request.code)},
    };
    std::string line;
    Process::Outcome outcome = Process::Outcome::kEnd;
    if (process_->send(json.dump() + "\n")) {
      for (;;) {
        try {
          outcome = process_->receive(line, request.timeout_seconds);
        } catch (const Error&) {
          process_.reset();  // it would go on, and answer the next request with this one's result
          throw;
        }
        if (outcome != Process::Outcome::kLine) break;
        const Json reply = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (reply.is_discarded()) fail(where + ": the compiler answered '" + line + "'");
        if (reply.contains("progress")) {
          if (request.progress) {
            request.progress(reply["progress"].get<std::string>(), reply.value("part", 0.0));
          }
          continue;
        }
        if (reply.contains("error")) {
          fail(where + ": " + reply["error"].get<std::string>());
        }
        std::string bytes = read_file(library);
        std::error_code ignored;
        fs::remove(library, ignored);
        return bytes;
      }
    }
    if (outcome == Process::Outcome::kTimeout) {
      process_.reset();
      fail(fmt::format("{}: the compiler made no progress for {} s and was stopped", where,
                       request.timeout_seconds));
    }
    const std::string end = process_->epitaph();
    process_.reset();
    if (fresh) fail(where + ": the compiler is gone: " + end);
    // It had been idle and ended by itself: another one.
    log_debug("tvm: the idle compiler had ended; starting another");
  }
}

}  // namespace xrt::tvm_engine
