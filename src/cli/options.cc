// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "cli/command.h"
#include "cli/option_flags.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "registry/engine_names.h"
#include "xrt/error.h"
#include "xrt/op.h"

namespace xrt::cli {
namespace {

CLI::Validator bounded(bool (*allowed)(double), const char* wanted, const char* type) {
  return CLI::Validator(
      [=](const std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && allowed(value)) return std::string();
        return fmt::format("'{}' is not {}", text, wanted);
      },
      type);
}

}  // namespace

void add_model_options(CLI::App& app, std::string& model, std::string& engine) {
  const OptionInfo& engines = find_option("engines");
  app.add_option("model", model, "an ONNX file, or a folder that OneFlow saved")
      ->required()
      ->type_name("MODEL");
  app.add_option(fmt::format("{}", fmt::join(engines.flags, ",")), engine, option_help(engines))
      ->type_name(engines.value)
      ->capture_default_str();
}

void add_placement_options(CLI::App& app, PlacementOptions& options,
                           const std::set<std::string>& without) {
  const std::string group = "Placement";
  add_option_flags(app, options.program, group, without);
  app.add_option("--op-library", options.op_libraries,
                 "A library of ops that the model uses (repeatable; XRT_OP_PATH)")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group(group);
}

void add_size_options(CLI::App& app, PlacementOptions& options) {
  add_flags_of(app, options.program, {"shapes", "ranges", "max_batch_size"}, "Sizes");
}

CLI::Validator from_zero() {
  return bounded([](double value) { return value >= 0; }, "a number from 0 on", "NONNEGATIVE");
}

CLI::Validator above_zero() {
  return bounded([](double value) { return value > 0; }, "a number above 0", "POSITIVE");
}

std::vector<std::string> split_engines(const std::string& text) {
  ProgramOptions options;
  set_option(options, "engine", text);
  return options.engines;
}

void check_engine(const std::string& name) {
  if (name == "auto") return;
  try {
    get_engine(name);
  } catch (const Error& error) {
    throw EngineUnavailable(
        fmt::format("engine '{}' is not available: {}\nxrt doctor shows every "
                    "engine and how to install it",
                    name, error.what()));
  }
}

ProgramOptions program_options(const PlacementOptions& options,
                               const std::vector<std::string>& engines) {
  for (const std::string& file : options.op_libraries) load_op_library(file);
  ProgramOptions result = options.program;
  result.engines = engines;
  return result;
}

Loaded load_program(const std::string& model, const ProgramOptions& options) {
  for (const std::string& name : options.engines) check_engine(name);
  for (const auto& [node, name] : options.node_engines) {
    if (name != kRuntimeEngine) check_engine(name);
  }
  const std::string file = std::filesystem::path(model).filename().string();
  const Progress progress(fmt::format("loading {}", file));
  const auto start = std::chrono::steady_clock::now();
  Loaded loaded;
  loaded.program = Program::load(model, options);
  loaded.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return loaded;
}

std::string placement_summary(const Explanation& explanation) {
  std::vector<std::pair<std::size_t, std::string>> counts;
  std::size_t total = 0;
  for (const auto& [engine, count] : explanation.nodes_per_engine) {
    counts.emplace_back(count, engine);
    total += count;
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [count, engine] : counts) {
    text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", engine, count,
                        plural(total, "node"));
  }
  if (text.empty()) text = "no nodes";
  return fmt::format("{}; {}", text, plural(explanation.launches.size(), "launch"));
}

}  // namespace xrt::cli
