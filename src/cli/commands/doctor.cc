// SPDX-License-Identifier: Apache-2.0
// xrt doctor: what works on this machine, and what to do about what does not.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "report/machine.h"
#include "xrt/version.h"

namespace xrt::cli {
namespace {

struct Options {
  std::vector<std::string> engines;
  bool json = false;
};

constexpr const char* kFooter =
    R"(Every engine is loaded and really runs one op. Exit code 3 if one of them cannot; one that only
lacks its device, and compiles for it elsewhere, counts where it was named.

Examples:
  xrt doctor
  xrt doctor xla                       only this engine)";

void print_report(const EngineReport& report) {
  constexpr std::size_t kWidth = 100;
  constexpr std::size_t kIndent = 14;
  if (report.available) {
    fmt::print("ok  {:<9} {}\n", report.name, report.version);
    fmt::print("    {:<9} ran one op; {}; devices {}\n", "", plural(report.op_count, "op"),
               fmt::join(report.devices, ", "));
  } else {
    if (report.builds) {
      fmt::print("~~  {:<9} {}\n", report.name, report.version);
      fmt::print("    {:<9} compiled one op for a device that is not here; {}\n", "",
                 plural(report.op_count, "op"));
    } else {
      fmt::print("--  {:<9} not available\n", report.name);
    }
    if (!report.error.empty()) {
      fmt::print("    {:<9} {}\n", "why", wrap(report.error, kWidth, kIndent));
    }
    if (!report.install_hint.empty()) {
      fmt::print("    {:<9} {}\n", "to do", wrap(report.install_hint, kWidth, kIndent));
    }
  }
  if (!report.location.empty()) fmt::print("    {:<9} {}\n", "found", report.location);
}

int execute(const Options& options) {
  const std::vector<std::string> known = engine_names();
  for (const std::string& name : options.engines) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw UsageError(
          fmt::format("no engine is called '{}'; there are {}", name, fmt::join(known, ", ")));
    }
  }
  report::Machine machine;
  {
    const Progress progress("probing engines");
    machine = report::probe_machine(options.engines);
  }
  const std::vector<EngineReport>& reports = machine.engines;
  const bool all = std::all_of(reports.begin(), reports.end(), [&](const EngineReport& report) {
    return report.available || (report.builds && options.engines.empty());
  });
  if (options.json) {
    fmt::print("{}\n", to_json(machine, 2));
  } else {
    fmt::print("xrt {}\n", version());
    fmt::print("processor   {} ({})\n", machine.processor, machine.features);
    fmt::print("threads     {}\n", machine.threads);
    fmt::print("disk cache  {}\n\n",
               machine.cache_dir.empty()
                   ? "only what \"auto\" measured; set XRT_CACHE_DIR to a folder"
                   : machine.cache_dir.string());
    for (const EngineReport& report : reports) print_report(report);
  }
  return all ? kOk : kEngineUnavailable;
}

}  // namespace

void add_doctor(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("doctor", "Check every engine by running one op on it");
  sub->footer(kFooter);
  sub->add_option("engines", options->engines, "only these engines")->type_name("ENGINE");
  sub->add_flag("--json", options->json, "print JSON instead");
  sub->callback([options, &chosen] { chosen = [options] { return execute(*options); }; });
}

}  // namespace xrt::cli
