// SPDX-License-Identifier: Apache-2.0
// What main() of every tool does with errors: exit codes as `xrt` has them (cli/command.h).
#pragma once

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>

#include "base/message.h"
#include "cli/command.h"

namespace xrt::lite {

inline int run_tool(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  // Beyond `ulimit -f` a write is an error then, and does not end the tool without a word.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? cli::kOk : cli::kUsage;
  }
  try {
    return body();
  } catch (const cli::UsageError& e) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), told(e.what()).c_str());
    return cli::kUsage;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), told(e.what()).c_str());
    return cli::kFailed;
  }
}

}  // namespace xrt::lite
