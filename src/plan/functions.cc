// SPDX-License-Identifier: Apache-2.0
#include "plan/functions.h"

#include <algorithm>
#include <functional>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "base/log.h"
#include "base/message.h"
#include "cache/compile_cache.h"
#include "cache/distrust.h"
#include "device/threads.h"
#include "engine/host.h"
#include "ir/printer.h"
#include "ops/sizes/size_rules.h"
#include "options/sizes.h"
#include "placement/estimates.h"
#include "placement/precision.h"
#include "placement/survey.h"
#include "plan/compile_progress.h"
#include "registry/engine_failure.h"
#include "registry/engine_names.h"
#include "registry/engine_options.h"
#include "registry/op_lowering.h"
#include "xrt/cache.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

// The batch that engines are told to build for: the option, or what the inputs have if that is
// more.
std::int64_t batch_to_build_for(const Graph& graph, const ProgramOptions& options) {
  if (options.max_batch_size == 0) return 0;
  std::int64_t batch = options.max_batch_size;
  for (const ValueId v : graph.inputs()) {
    const Type& type = graph.type(v);
    if (!type.is_tensor() || !type.shape || type.shape->empty()) continue;
    const Dim& first = type.shape->front();
    if (first.is_known()) batch = std::max(batch, first.value());
  }
  return batch;
}

// The ranges of the dimensions that the function's inputs have.
std::vector<SizeRange> ranges_to_build_for(const Graph& function, const ProgramOptions& options) {
  std::vector<SizeRange> ranges;
  for (const NamedRange& range : named_ranges(options)) {
    const auto has_dim = [&](ValueId v) {
      const Type& type = function.type(v);
      return type.has_rank() && std::find(type.shape->begin(), type.shape->end(),
                                          Dim(range.name)) != type.shape->end();
    };
    if (std::any_of(function.inputs().begin(), function.inputs().end(), has_dim)) {
      ranges.push_back({range.name, range.least, range.usual, range.most});
    }
  }
  return ranges;
}

// Throws CompileFailure where the engine computed this function wrong earlier.
void refuse_wrong_results(const Engine& engine, const Graph& claimed, const std::string& function,
                          const std::string& key, const std::filesystem::path& cache) {
  const std::optional<std::string> why = find_distrust(key, engine.name(), cache);
  if (!why) return;
  std::vector<std::string> nodes;
  for (const NodeId id : claimed.topological_order()) nodes.push_back(claimed.node(id).name);
  CompileFailure failure(
      ErrorCode::kEngine,
      "engine '" + engine.name() + "' computes function '" + function + "' wrong: " + *why,
      engine.name(), std::move(nodes), "engine '" + engine.name() + "' computed it wrong: " + *why);
  failure.computes_wrong = true;
  throw CompileFailure(std::move(failure));
}

// What explain() says of a function that was brought to half precision.
void tell_of_half_precision(const NarrowedGraph& narrowed, const Graph& body, Precision precision,
                            std::vector<std::string>& remarks) {
  const std::string word(to_string(precision));
  remarks.push_back("computes " + std::to_string(narrowed.nodes) + " of " +
                    std::to_string(body.node_count()) + " nodes in " + word);
  constexpr std::size_t kShown = 3;
  for (std::size_t i = 0; i < std::min(kShown, narrowed.overflows.size()); ++i) {
    remarks.push_back(narrowed.overflows[i] + ", which " + word + " has not: float32 there");
  }
}

// Products whose constants are outside the range of the precision: kUnsupported in a strict
// program, else a warning. Where the precision is the runtime's choice they are its concern.
void judge_overflows(const std::vector<std::string>& overflows, bool stay_in_float32,
                     const std::string& function, Precision precision,
                     const ProgramOptions& options, Plan& plan) {
  if (overflows.empty()) return;
  const std::string what =
      "function '" + function + "': the constants of " + std::to_string(overflows.size()) +
      (overflows.size() == 1 ? " product are" : " products are") + " outside the range of " +
      std::string(to_string(precision)) + ": " + overflows.front();
  if (options.strict && !is_precision_auto(options)) throw Error(ErrorCode::kUnsupported, what);
  plan.warnings.push_back(what +
                          (stay_in_float32 ? "; they stay in float32" : "; they become infinite"));
}

// Operands of a run whose sizes disagree are a better reason than what an engine's library says.
void refuse_sizes(const Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (const auto wrong = sizes_refusal(graph, node)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "node '" + node.name + "' (" + node.qualified_op() + "): " + *wrong);
    }
  }
}

// Compiles what the engine claimed, the nodes of `claimed`; a failure names them, the engine and
// the cause.
CompileResult compile_claimed(const Engine& engine, const Graph& claimed, const Function& function,
                              const CompileOptions& options, const std::filesystem::path& cache,
                              const std::string& key, bool anew,
                              const std::function<void()>& check_constants) {
  bool wrong_constants = false;
  std::function<void()> check;
  if (check_constants) {
    check = [&] {
      wrong_constants = true;
      check_constants();
      wrong_constants = false;
    };
  }
  const auto fail = [&](ErrorCode code, const std::string& cause) {
    std::vector<std::string> nodes, ops;
    for (const NodeId id : claimed.topological_order()) {
      nodes.push_back(claimed.node(id).name);
      ops.push_back(claimed.node(id).qualified_op());
    }
    std::vector<std::pair<std::string_view, std::string_view>> rows;
    for (std::size_t i = 0; i < nodes.size(); ++i) rows.emplace_back(nodes[i], ops[i]);
    const std::string what = "engine '" + engine.name() + "' claimed " + list_nodes(rows) +
                             " and failed to compile function '" + function.name + "': ";
    throw CompileFailure(code, what + cause, engine.name(), std::move(nodes),
                         "engine '" + engine.name() + "' failed to compile it: " + cause);
  };
  CompileResult result;
  try {
    result = compile_cached(engine, function, options, cache, key, anew, check);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error& error) {
    // A wrong option or a bound is the caller's to change, whoever runs the nodes.
    if (error.code() == ErrorCode::kInvalidArgument || wrong_constants) throw;
    refuse_sizes(claimed);
    fail(error.code(), shortened(error.what(), kMostOfCause));
  } catch (...) {
    fail(ErrorCode::kEngine, exception_text());
  }
  const std::size_t needed = result.info.workspace_bytes.value_or(0);
  if (options.max_workspace_bytes > 0 && needed > options.max_workspace_bytes) {
    fail(ErrorCode::kResource, "it needs " + std::to_string(needed) +
                                   " bytes of scratch memory, max_workspace_size is " +
                                   std::to_string(options.max_workspace_bytes));
  }
  return result;
}

}  // namespace

void dump_graph(const std::filesystem::path& dir, const std::string& name, const Graph& graph) {
  if (dir.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(dir, failed);
  if (failed) {
    throw Error(ErrorCode::kIo,
                "cannot make the folder for dumps, '" + dir.string() + "': " + failed.message());
  }
  write_output_file(dir / (name + ".txt"), print(graph));
}

CompiledFunction compile_function(Plan& plan, NodeId launch, std::size_t index,
                                  std::vector<InputOutputAlias> aliases,
                                  const ProgramOptions& options) {
  const Node& node = plan.folded.node(launch);
  const std::string name = node.attr_string("name", node.name);
  const std::shared_ptr<const Engine> engine = get_engine(node.attr_string("engine", ""));
  const std::shared_ptr<const Graph> body = node.attr_graph("function");
  const std::filesystem::path cache = options.cache_dir ? *options.cache_dir : default_cache_dir();
  CompileOptions own;
  own.device = device_for(*engine, options);
  const Precision wanted = wanted_precision(*engine, options, plan.precision);
  own.precision = precision_for(*engine, own.device, wanted);
  own.phase = options.training ? Phase::kTraining : Phase::kInference;
  const ThreadShare share = thread_share(options.num_threads, options.streams);
  own.num_threads = share.threads;
  own.streams = share.divided;
  const auto given = options.engine_options.find(engine->name());
  if (given != options.engine_options.end()) own.engine_options = given->second;
  check_engine_options(*engine, own.engine_options);
  if (own_precision(*engine, own.engine_options)) own.engine_options.erase(kPrecisionOption);
  own.max_workspace_bytes = options.max_workspace_bytes;
  own.max_batch_size = batch_to_build_for(plan.folded, options);
  own.ranges = ranges_to_build_for(*body, options);
  if (!cache.empty()) own.records_dir = (cache / "records" / engine->name()).string();
  own.progress = compile_progress(name);

  std::optional<Graph> lowered;
  if (has_registered_ops(*body)) lowered = lower_ops(*engine, *body, own.device, own.phase);
  std::optional<NarrowedGraph> narrowed;
  const Graph& full = lowered ? *lowered : *body;
  const bool has_option = has_precision(*engine, own.device, wanted);
  if (!has_option) {
    narrowed = narrowed_for(*engine, full, own.device, own.phase, wanted,
                            {plan.float32_nodes.begin(), plan.float32_nodes.end()});
  }
  if (narrowed) {
    judge_overflows(narrowed->overflows, /*stay_in_float32=*/true, name, wanted, options, plan);
  } else if (has_option) {
    judge_overflows(constants_outside(full, wanted), /*stay_in_float32=*/false, name, wanted,
                    options, plan);
  }
  const Graph& compiled = narrowed ? narrowed->graph : full;
  dump_graph(options.dump_dir, name, compiled);
  const Function function = function_of(name, compiled, std::move(aliases));
  if (plan.keys.size() <= index) plan.keys.push_back(compile_key(*engine, function, own));
  // A strict program has no other engine to go to: the warning of the check is all.
  if (options.check_results && !options.strict && engine->name() != kFallbackEngine) {
    refuse_wrong_results(*engine, *body, name, plan.keys.at(index), cache);
  }

  CompileResult result = compile_claimed(*engine, *body, function, own, cache, plan.keys.at(index),
                                         options.force_compile, plan.check_constants);
  CompiledFunction made;
  made.executable = std::move(result.executable);
  made.from_cache = result.from_cache;
  made.info = std::move(result.info);
  made.is_rounded = narrowed && narrowed->nodes > 0;
  if (!has_option) {
    tell_of_half_precision(narrowed ? *narrowed : NarrowedGraph(), *body, wanted,
                           made.info.remarks);
  }
  if (!own.device.starts_with("cpu")) {
    made.info.threads = 0;
  } else if (made.info.threads == 0) {
    made.info.threads = own.num_threads;
  }
  return made;
}

}  // namespace xrt
