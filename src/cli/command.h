// SPDX-License-Identifier: Apache-2.0
// The subcommands of `xrt`. Each add_* declares one: its options, its help and what it runs.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace xrt::cli {

// What scripts may rely on; listed in `xrt --help` and docs/reference/command.md.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,             // the model, the run or the machine: the message says what
  kUsage = 2,              // the command line, or an input that does not fit the model
  kEngineUnavailable = 3,  // an engine that was asked for cannot be loaded
  kMismatch = 4,           // results differ from what was expected
  kInterrupted = 130,      // Ctrl-C; nothing half-written is left
};

// A mistake on the command line that the parser cannot see: exit code kUsage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One that further flags mend.
class MissingFlags : public UsageError {
 public:
  // `flags`: what to add to the command, quoted for a shell.
  MissingFlags(const std::string& what, std::string flags)
      : UsageError(what), flags_(std::move(flags)) {}
  const std::string& flags() const { return flags_; }

 private:
  std::string flags_;
};

// An engine that was named cannot be loaded: exit code kEngineUnavailable.
class EngineUnavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs the chosen subcommand and returns its exit code.
using Command = std::function<int()>;

// Each sets `chosen` when its subcommand is on the command line.
void add_run(CLI::App& app, Command& chosen);
void add_doctor(CLI::App& app, Command& chosen);
void add_inspect(CLI::App& app, Command& chosen);
void add_engines(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);
void add_compare(CLI::App& app, Command& chosen);
void add_cache(CLI::App& app, Command& chosen);
void add_eval(CLI::App& app, Command& chosen);
void add_calibrate(CLI::App& app, Command& chosen);
void add_quantize(CLI::App& app, Command& chosen);
void add_conformance(CLI::App& app, Command& chosen);
void add_serve(CLI::App& app, Command& chosen);
void add_generate(CLI::App& app, Command& chosen);

// Parses and runs; prints errors to standard error. What main() returns.
int run_command_line(int argc, const char* const* argv);

}  // namespace xrt::cli
