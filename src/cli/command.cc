// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "base/message.h"
#include "base/nearest.h"
#include "cli/text.h"
#include "options/variables.h"
#include "xrt/error.h"
#include "xrt/options.h"
#include "xrt/version.h"

namespace xrt::cli {
namespace {

constexpr const char* kFooter = R"(Start with:
  xrt doctor                            which engines work on this machine, and why others do not
  xrt run model.onnx                    run once on random inputs
  xrt run model.onnx --input x=cat.png --engine openvino,native
  xrt inspect model.onnx --html page.html
  xrt bench model.onnx --engine native --engine openvino,native
  xrt compare model.onnx --engine native --engine openvino   the first node at which they differ

Exit codes: 0 success; 1 the model or the run failed; 2 wrong command line or input;
3 an engine that was asked for is not available; 4 results differ from what was expected;
130 xrt calibrate was ended by Ctrl-C.)";

// The environment variables that the core reads, one line each.
std::string environment() {
  std::string text = "\n\nEnvironment:\n";
  for (const OptionInfo& info : option_table()) {
    if (info.retired.empty() && !info.variables.empty()) {
      text += fmt::format("  {:<27} --option {}\n", info.variables.front(), info.name);
    }
  }
  for (const VariableInfo& variable : variable_table()) {
    text += fmt::format("  {:<27} {}\n", variable.name,
                        variable.help.substr(0, variable.help.find(". ")));
  }
  return text + "docs/reference/options.md says more, and lists those of the engines.";
}

int report(const char* kind, const std::string& message, int code) {
  tell("xrt: {}{}\n", kind, told(message));
  return code;
}

int run_chosen(const Command& chosen, int argc, const char* const* argv) {
  try {
    return chosen();
  } catch (const MissingFlags& error) {
    std::string command = "xrt";
    for (int i = 1; i < argc; ++i) command += " " + quoted(argv[i]);
    return report("", fmt::format("{}\ntry:\n  {}{}", error.what(), command, error.flags()),
                  kUsage);
  } catch (const UsageError& error) {
    return report("", error.what(), kUsage);
  } catch (const EngineUnavailable& error) {
    return report("", error.what(), kEngineUnavailable);
  } catch (const Error& error) {
    const int code = error.code() == ErrorCode::kInvalidArgument ? kUsage : kFailed;
    return report("", error.what(), code);
  } catch (const std::bad_alloc&) {
    return report("", "out of memory", kFailed);
  } catch (const std::system_error& error) {
    return report("", error.what(), kFailed);  // a folder that cannot be made, a full disk
  } catch (const std::exception& error) {
    return report("internal error, please report: ", error.what(), kFailed);
  }
}

// What was printed may still lie in a buffer: a full disk shows here.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  const std::string cause = errno == 0 ? "a write failed" : std::generic_category().message(errno);
  return report("", "cannot write to standard output: " + cause, kFailed);
}

// What to say about the first flag that the subcommand does not have; "" if there is none.
std::string unknown_flag(const CLI::App& app, int argc, const char* const* argv) {
  for (const CLI::App* sub : app.get_subcommands()) {
    std::vector<std::string> names;
    for (const CLI::Option* option : sub->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    for (int i = 1; i < argc; ++i) {
      const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
      if (!word.starts_with("--") || word == "--") continue;
      if (std::find(names.begin(), names.end(), word) != names.end()) continue;
      return fmt::format("{} has no flag {}{}", sub->get_name(), word, suggestion(word, names));
    }
  }
  return {};
}

// Standard input, output and error that are closed: the first files that are opened would get their
// numbers, and what is said the files. Input and output stay of no use, and using them an error.
void occupy_standard_files() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(file, F_GETFD) >= 0) continue;
    // It gets this number, which is the lowest one free.
    if (::open("/dev/null", file == STDOUT_FILENO ? O_RDONLY : O_WRONLY) != file) return;
  }
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  occupy_standard_files();
  // Beyond `ulimit -f` a write is an error then, and does not end the command without a word.
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app("Run one neural network on many engines.", "xrt");
  app.footer(kFooter + environment());
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("xrt {}", version()));
  app.set_help_all_flag("--help-all", "Print the help of every subcommand and exit");
  Command chosen;
  add_run(app, chosen);
  add_inspect(app, chosen);
  add_bench(app, chosen);
  add_compare(app, chosen);
  add_eval(app, chosen);
  add_calibrate(app, chosen);
  add_quantize(app, chosen);
  add_doctor(app, chosen);
  add_engines(app, chosen);
  add_cache(app, chosen);
  add_conformance(app, chosen);
  add_serve(app, chosen);
  add_generate(app, chosen);
  if (argc < 2) {
    const Command help = [&] {
      fmt::print("{}", app.help());
      return static_cast<int>(kUsage);
    };
    return flushed(run_chosen(help, argc, argv));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string first = argv[1];
    if (!first.starts_with("-") &&
        app.get_subcommands([&](CLI::App* sub) { return sub->get_name() == first; }).empty()) {
      return report("", fmt::format("there is no subcommand '{}'; xrt --help lists them", first),
                    kUsage);
    }
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
      if (const std::string text = unknown_flag(app, argc, argv); !text.empty()) {
        return report("", text, kUsage);
      }
    }
    // Help and version are "errors" of the parser that succeed.
    if (app.exit(error) != 0) return kUsage;
    std::cout.flush();
    return flushed(kOk);
  }
  return flushed(run_chosen(chosen, argc, argv));
}

}  // namespace xrt::cli
