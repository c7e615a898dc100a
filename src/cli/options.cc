// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "cli/command.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "device/threads.h"
#include "registry/engine_names.h"
#include "xrt/error.h"
#include "xrt/op.h"

namespace xrt::cli {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

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
  app.add_option("model", model, "an ONNX file, or a folder that OneFlow saved")
      ->required()
      ->type_name("MODEL");
  app.add_option("-e,--engine", engine,
                 "engines in order of priority, separated by commas; auto chooses")
      ->type_name("A,B,...")
      ->capture_default_str();
}

void add_placement_options(CLI::App& app, PlacementOptions& options) {
  const std::string group = "Placement";
  app.add_flag("--strict", options.strict,
               "only the engines named may run nodes; without it, what none of them takes runs on "
               "native, and the summary says so")
      ->group(group);
  app.add_option("--device", options.device, "cpu, cuda:0, …")->capture_default_str()->group(group);
  app.add_option("--threads", options.threads, "threads of all engines together; 0: all allowed")
      ->check(CLI::Range(0, kMaxThreads))
      ->group(group);
  app.add_option("--min-nodes,--cluster-minimum-nodes", options.minimum_nodes,
                 "smaller clusters go to the next engine; -1: no limit")
      ->capture_default_str()
      ->group(group);
  app.add_option("--max-nodes,--cluster-maximum-nodes", options.maximum_nodes,
                 "larger clusters are split; -1: no limit")
      ->capture_default_str()
      ->group(group);
  app.add_option("--node-engine", options.node_engines,
                 "run this node on that engine (repeatable); a node of a body is LOOP/body/NODE")
      ->type_name("NODE=ENGINE")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--engine-option", options.engine_options, "an engine's own option (repeatable)")
      ->type_name("ENGINE.KEY=VALUE")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--auto", options.auto_mode,
                 "how --engine auto decides: fast, by estimates; full, by measuring first; "
                 "background, by measuring beside the runs (XRT_AUTO, else fast)")
      ->check(CLI::IsMember({"fast", "full", "background"}))
      ->group(group);
  app.add_option("--auto-budget", options.auto_budget, "seconds that measuring may take")
      ->check(from_zero())
      ->capture_default_str()
      ->group(group);
  app.add_option("--precision", options.precision,
                 "what engines that can do so compute float32 in: f32, bf16, f16, or auto: the "
                 "fastest whose outputs stay within --auto-tolerance")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "auto"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--auto-tolerance", options.tolerance,
                 "for --precision auto: largest difference from float32, over an output's range")
      ->check(from_zero())
      ->capture_default_str()
      ->group(group);
  app.add_option("--cache-dir", options.cache_dir, "folder of the compile cache (XRT_CACHE_DIR)")
      ->type_name("DIR")
      ->group(group);
  app.add_flag("--no-cache", options.no_cache, "do not read or write the compile cache")
      ->group(group);
  app.add_option("--dump-dir,--dump-subgraph-dir", options.dump_dir,
                 "write the graph before and after each pass, and every function, as text")
      ->type_name("DIR")
      ->group(group);
  app.add_flag("--fallback", options.fallback,
               "nodes of a function that its engine fails to compile go to the next engine")
      ->group(group);
  app.add_flag("--force-compile", options.force_compile, "compile anew whatever the caches hold")
      ->group(group);
  app.add_option("--max-batch-size", options.max_batch_size,
                 "largest first dimension to build for; 0: as declared")
      ->check(from_zero())
      ->group(group);
  app.add_option("--max-workspace-size,--max-workspace-bytes", options.max_workspace_size,
                 "bytes of scratch memory that one function may use; 0: no limit")
      ->group(group);
  app.add_flag("--verbose", options.verbose, "print every line of the log")->group(group);
  app.add_option("--op-library", options.op_libraries,
                 "a library of ops that the model uses (repeatable; XRT_OP_PATH)")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--option", options.options,
                 "any option of docs/reference/options.md (repeatable)")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->group(group);
}

CLI::Validator from_zero() {
  return bounded([](double value) { return value >= 0; }, "a number from 0 on", "NONNEGATIVE");
}

CLI::Validator above_zero() {
  return bounded([](double value) { return value > 0; }, "a number above 0", "POSITIVE");
}

std::vector<std::string> split_engines(const std::string& text) {
  std::vector<std::string> names;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    names.push_back(trimmed(text.substr(start, end - start)));
    if (names.back().empty()) {
      throw UsageError(fmt::format("--engine '{}': a name is empty", text));
    }
    start = end + 1;
  }
  return names;
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
  ProgramOptions result;
  result.engines = engines;
  result.strict = options.strict;
  result.device = options.device;
  result.num_threads = options.threads;
  result.cluster_minimum_nodes = options.minimum_nodes;
  result.cluster_maximum_nodes = options.maximum_nodes;
  result.dump_dir = options.dump_dir;
  result.auto_mode = options.auto_mode;
  result.auto_budget_s = options.auto_budget;
  result.precision = options.precision;
  result.tolerance = options.tolerance;
  result.fallback = options.fallback;
  result.force_compile = options.force_compile;
  result.max_batch_size = options.max_batch_size;
  result.max_workspace_bytes = options.max_workspace_size;
  for (const std::string& file : options.op_libraries) load_op_library(file);
  if (options.verbose) set_option(result, "verbose", "true");
  for (const std::string& text : options.options) {
    const std::size_t at = text.find('=');
    if (at == std::string::npos || at == 0) {
      throw UsageError(fmt::format("--option '{}': write NAME=VALUE", text));
    }
    set_option(result, text.substr(0, at), text.substr(at + 1));
  }
  if (options.no_cache) {
    result.cache_dir = "";
  } else if (!options.cache_dir.empty()) {
    result.cache_dir = options.cache_dir;
  }
  for (const std::string& text : options.node_engines) {
    // Node names may hold '=', engines' names do not: the last one separates.
    const std::size_t at = text.rfind('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
      throw UsageError(fmt::format("--node-engine '{}': write NODE=ENGINE", text));
    }
    result.node_engines[text.substr(0, at)] = text.substr(at + 1);
  }
  for (const std::string& text : options.engine_options) {
    const std::size_t equals = text.find('=');
    const std::size_t dot = text.find('.');
    if (equals == std::string::npos || dot == std::string::npos || dot == 0 || dot > equals) {
      throw UsageError(fmt::format("--engine-option '{}': write ENGINE.KEY=VALUE", text));
    }
    result.engine_options[text.substr(0, dot)][text.substr(dot + 1, equals - dot - 1)] =
        text.substr(equals + 1);
  }
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
