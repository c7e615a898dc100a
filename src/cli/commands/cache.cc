// SPDX-License-Identifier: Apache-2.0
// xrt cache: look into the compile cache, and empty it.
#include "xrt/cache.h"

#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/text.h"
#include "report/machine.h"

namespace xrt::cli {
namespace {

struct Options {
  std::string dir;
  bool json = false;
};

std::string folder_of(const Options& options) {
  const std::string folder = options.dir.empty() ? default_decision_dir().string() : options.dir;
  if (folder.empty())
    throw UsageError("there is no cache: XRT_CACHE_DIR is empty; set it, or say --dir DIR");
  // The folder of the variable may be one that nothing was written to yet.
  if (!options.dir.empty() && !std::filesystem::is_directory(folder)) {
    throw UsageError(fmt::format("--dir '{}': there is no such folder", folder));
  }
  return folder;
}

std::string date_text(std::int64_t unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &parts);
  return {text, size};
}

int list(const Options& options) {
  const std::string folder = folder_of(options);
  if (options.json) {
    fmt::print("{}\n", report::cache_json(folder, 2));
    return kOk;
  }
  const std::vector<CacheEntry> entries = list_cache(folder);
  std::vector<std::vector<std::string>> rows = {{"function", "engine", "size", "last used", "key"}};
  std::size_t total = 0;
  for (const CacheEntry& entry : entries) {
    total += entry.bytes;
    rows.push_back({entry.valid ? entry.function : "(damaged)", entry.engine,
                    bytes_text(static_cast<double>(entry.bytes)), date_text(entry.last_used_unix),
                    entry.key.substr(0, 16)});
  }
  if (!entries.empty()) fmt::print("{}\n", table(rows, {2}));
  fmt::print("{}, {} in {}\n",
             entries.size() == 1 ? "1 entry" : fmt::format("{} entries", entries.size()),
             bytes_text(static_cast<double>(total)), folder);
  return kOk;
}

int clear(const Options& options) {
  const std::string folder = folder_of(options);
  const std::size_t removed = clear_cache(folder);
  fmt::print("removed {} from {}\n", removed == 1 ? "1 entry" : fmt::format("{} entries", removed),
             folder);
  return kOk;
}

}  // namespace

void add_cache(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("cache", "List or clear the compile cache");
  sub->footer(
      "The cache holds what engines compiled, by content, and what engine \"auto\" measured. "
      "Without\n"
      "XRT_CACHE_DIR it is what \"auto\" measured, in the user's own cache folder. It is safe to "
      "clear\n"
      "at any time.\n\n"
      "Examples:\n  XRT_CACHE_DIR=~/.cache/xrt xrt cache list\n  xrt cache clear --dir /tmp/cache");
  sub->require_subcommand(1);
  CLI::App* list_command = sub->add_subcommand("list", "List the entries");
  CLI::App* clear_command = sub->add_subcommand("clear", "Remove every entry");
  for (CLI::App* command : {list_command, clear_command}) {
    command
        ->add_option("--dir", options->dir,
                     "folder of the cache (default: $XRT_CACHE_DIR, else the user's)")
        ->type_name("DIR");
  }
  list_command->add_flag("--json", options->json, "print JSON instead");
  list_command->callback([options, &chosen] { chosen = [options] { return list(*options); }; });
  clear_command->callback([options, &chosen] { chosen = [options] { return clear(*options); }; });
}

}  // namespace xrt::cli
