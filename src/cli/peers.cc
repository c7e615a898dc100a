// SPDX-License-Identifier: Apache-2.0
#include "cli/peers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "cli/python.h"
#include "xrt/error.h"

extern char** environ;

namespace xrt::cli {
namespace {

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error(ErrorCode::kIo, fmt::format("pipe: {}", std::strerror(errno)));
    }
    read = ends[0];
    write = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    if (read >= 0) close(read);
    if (write >= 0) close(write);
  }
  static int take(int& end) {
    const int descriptor = end;
    end = -1;
    return descriptor;
  }
};

}  // namespace

Peer::Peer(std::string name, const std::string& model, const std::filesystem::path& inputs,
           int threads)
    : name_(std::move(name)) {
  Pipe requests;
  Pipe answers;
  const std::string python = python_program();
  // As a file: a peer is measured without openxrt in its process.
  const std::string script = (package_folder("a peer") / "bench_peers.py").string();
  std::vector<std::string> words = {python, script,          name_,
                                    model,  inputs.string(), std::to_string(threads)};
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, requests.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answers.write, STDOUT_FILENO);
  const int error =
      posix_spawnp(&process_, python.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    process_ = -1;
    throw Error(ErrorCode::kEngine,
                fmt::format("{}: {} (XRT_PYTHON names the Python that has the peers' packages)",
                            python, std::strerror(error)));
  }
  // A peer that dies is an error message, not the end of this process.
  std::signal(SIGPIPE, SIG_IGN);
  to_ = fdopen(Pipe::take(requests.write), "w");
  from_ = fdopen(Pipe::take(answers.read), "r");
  try {
    const auto ready = nlohmann::json::parse(read_line());
    if (ready.contains("error")) throw Error(ErrorCode::kEngine, ready["error"].get<std::string>());
    version_ = ready.at("version").get<std::string>();
    load_seconds_ = ready.at("load_s").get<double>();
  } catch (const nlohmann::json::exception& problem) {
    finish();
    throw Error(ErrorCode::kEngine, fmt::format("the peer answered nonsense: {}", problem.what()));
  } catch (...) {
    finish();
    throw;
  }
}

Peer::~Peer() { finish(); }

void Peer::finish() {
  if (to_ != nullptr) std::fclose(to_);  // the end of its input ends the peer
  if (from_ != nullptr) std::fclose(from_);
  to_ = nullptr;
  from_ = nullptr;
  if (process_ > 0) {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
  }
}

std::string Peer::read_line() {
  std::string line;
  for (int c = std::fgetc(from_); c != EOF; c = std::fgetc(from_)) {
    if (c == '\n') return line;
    line += static_cast<char>(c);
  }
  throw Error(ErrorCode::kEngine, fmt::format("{} ended without an answer", name_));
}

std::string Peer::ask(const std::string& request) {
  if (std::fputs((request + "\n").c_str(), to_) < 0 || std::fflush(to_) != 0) {
    throw Error(ErrorCode::kEngine, fmt::format("{} has ended", name_));
  }
  return read_line();
}

double Peer::run() {
  const auto answer = nlohmann::json::parse(ask("run"), nullptr, false);
  if (answer.is_object() && answer.contains("run_s")) return answer["run_s"].get<double>();
  throw Error(ErrorCode::kEngine, fmt::format("{}: {}", name_, answer.dump()));
}

void Peer::write_outputs(const std::filesystem::path& path) {
  const auto answer = nlohmann::json::parse(ask("save " + path.string()), nullptr, false);
  if (answer.is_object() && answer.contains("saved")) return;
  throw Error(ErrorCode::kEngine, fmt::format("{}: {}", name_, answer.dump()));
}

}  // namespace xrt::cli
