// SPDX-License-Identifier: Apache-2.0
// The flags that set options of a program, made of the table of options.
#pragma once

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

#include "xrt/options.h"

namespace xrt::cli {

// What --help says of an option: the first sentence of its help, and the variables that set it too.
std::string option_help(const OptionInfo& info);

// A flag for each option that has one, but for --engine, which each command declares as it needs
// it, and for those named in `without`; `--no-cache`, and `--option NAME=VALUE` for any option.
// They set `program`, which must outlive `app`. A value that does not fit is a CLI::ValidationError
// with the words of set_option().
void add_option_flags(CLI::App& app, ProgramOptions& program, const std::string& group,
                      const std::set<std::string>& without = {});

// The flags of these options alone.
void add_flags_of(CLI::App& app, ProgramOptions& program, const std::vector<std::string>& names,
                  const std::string& group);

}  // namespace xrt::cli
