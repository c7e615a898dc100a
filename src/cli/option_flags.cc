// SPDX-License-Identifier: Apache-2.0
#include "cli/option_flags.h"

#include <fmt/format.h>

#include <cstdint>

#include "xrt/error.h"

namespace xrt::cli {
namespace {

constexpr const char* kEngines = "engines";  // each command declares --engine as it needs it

std::string type_of(const OptionInfo& info) {
  if (!info.value.empty()) return info.value;
  switch (info.kind) {
    case OptionKind::kInteger:
      return "INT";
    case OptionKind::kNumber:
      return "NUMBER";
    default:
      return "TEXT";
  }
}

void set(ProgramOptions& options, const std::string& flag, const std::string& name,
         const std::string& text) {
  try {
    set_option(options, name, text);
  } catch (const Error& error) {
    throw CLI::ValidationError(flag, error.what());
  }
}

CLI::Option* add_flag(CLI::App& app, const OptionInfo& info, ProgramOptions& options) {
  const std::string flags = fmt::format("{}", fmt::join(info.flags, ","));
  const auto put = [&options, &info](const std::string& text) {
    set(options, info.flags.front(), info.name, text);
  };
  if (info.kind == OptionKind::kSwitch) {
    const auto put_count = [put](std::int64_t count) { put(count > 0 ? "true" : "false"); };
    return app.add_flag_function(flags, put_count, option_help(info));
  }
  if (info.kind == OptionKind::kMap) {
    const auto put_all = [put](const std::vector<std::string>& texts) {
      for (const std::string& text : texts) put(text);
    };
    return app.add_option_function<std::vector<std::string>>(flags, put_all, option_help(info))
        ->type_name(type_of(info))
        ->allow_extra_args(false);
  }
  return app.add_option_function<std::string>(flags, put, option_help(info))
      ->type_name(type_of(info))
      ->default_str(info.default_value);
}

}  // namespace

std::string option_help(const OptionInfo& info) {
  std::string help = info.help.substr(0, info.help.find(". "));
  if (help.ends_with('.')) help.pop_back();
  if (info.kind == OptionKind::kMap) help += " (repeatable)";
  if (!info.variables.empty()) help += fmt::format(" ({})", fmt::join(info.variables, ", "));
  return help;
}

void add_flags_of(CLI::App& app, ProgramOptions& program, const std::vector<std::string>& names,
                  const std::string& group) {
  for (const std::string& name : names) add_flag(app, find_option(name), program)->group(group);
}

void add_option_flags(CLI::App& app, ProgramOptions& program, const std::string& group,
                      const std::set<std::string>& without) {
  for (const OptionInfo& info : option_table()) {
    if (info.flags.empty() || info.name == kEngines || without.contains(info.name)) continue;
    add_flag(app, info, program)->group(group);
  }
  app.add_flag_callback(
         "--no-cache", [&program] { set_option(program, "cache_dir", ""); },
         "Do not read or write the compile cache")
      ->group(group);
  app.add_option_function<std::vector<std::string>>(
         "--option",
         [&program](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const std::size_t at = text.find('=');
             if (at == std::string::npos || at == 0) {
               throw CLI::ValidationError("--option", fmt::format("'{}': write NAME=VALUE", text));
             }
             const std::string name = text.substr(0, at);
             set(program, "--option", name, text.substr(at + 1));
             if (find_option(name).name == kEngines) {
               throw CLI::ValidationError("--option", "engines are named by --engine");
             }
           }
         },
         "Any option of docs/reference/options.md (repeatable)")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->group(group);
}

}  // namespace xrt::cli
