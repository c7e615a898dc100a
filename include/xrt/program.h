// SPDX-License-Identifier: Apache-2.0
// A program: a graph, placed on engines, compiled and ready to run.
//
//   auto program = xrt::Program::load("model.onnx", {.engines = {"openvino", "native"}});
//   std::vector<xrt::Data> outputs = program->run({{"x", tensor}});
//
// run() is thread-safe. Inputs are read from the caller's memory; an output tensor that the caller
// supplies is written in place where its shape is right.
//
// Inputs of a program on a GPU may lie on the host or on that GPU, in memory that is written
// already (Tensor::wrap with a Device), and so may the memory given for outputs. Where the caller
// gives none, Results says where an output goes:
//
//   program->run(inputs, outputs, xrt::Results::kDevice);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/engine.h"
#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

struct ProgramOptions {
  // In order of priority; {"auto"} lets the runtime choose. What no listed engine takes runs on
  // "native" unless `strict`.
  std::vector<std::string> engines = {"auto"};
  bool strict = false;  // only the listed engines may run nodes; a refusal is an error
  std::string device = "cpu";
  int num_threads =
      0;  // 0: the process's budget, thread_budget(), which is also the most it can be
  std::int64_t cluster_minimum_nodes = 1;   // smaller clusters go to the next engine; -1: no limit
  std::int64_t cluster_maximum_nodes = -1;  // -1: no limit
  std::map<std::string, std::string> node_engines = {};  // node name → engine: overrides placement
  // Input name and output name that share memory: the output is written into the input's buffer.
  std::vector<std::pair<std::string, std::string>> aliases = {};
  // Nothing: $XRT_CACHE_DIR, else no disk cache. "" likewise turns it off.
  std::optional<std::filesystem::path> cache_dir = std::nullopt;
  std::map<std::string, std::map<std::string, std::string>> engine_options = {};  // per engine
  std::filesystem::path dump_dir = {};  // not empty: graph before/after each pass and each function
  int max_specializations = 16;         // compiled plans kept for distinct input shapes
  // How {"auto"} decides; {"auto", "a", "b"} decides among engines a and b (and "native" for what
  // they refuse). "fast": by estimates, at once. "full": by measuring, before the program is
  // ready (where input shapes are symbolic, before the first run of new shapes returns).
  // "background": as fast, then measured beside the runs; a better plan is swapped in. Empty:
  // $XRT_AUTO, else "fast".
  std::string auto_mode = {};
  // Measuring starts nothing new after so many seconds, summed over all input shapes.
  double auto_budget_s = 10;
  // What engines that can do so compute float32 in: "f32", "bf16", "f16"; or "auto": measured, the
  // fastest whose outputs stay within `tolerance` of float32 (over the range of each output).
  std::string precision = "f32";
  double tolerance = 0.01;
  // Where an engine fails to compile what it claimed: an error that names nodes, engine and cause;
  // true: those nodes go to the next engine that takes them, and explain() says so.
  bool fallback = false;
  bool training = false;       // engines are asked and compile for Phase::kTraining
  bool force_compile = false;  // compile anew whatever the caches hold; results are cached
  // The largest first dimension of inputs to build for, for engines that build for a range of
  // sizes; a larger batch is built for when it comes, and says so once. 0: as declared.
  std::int64_t max_batch_size = 0;
  // Scratch memory that one run of a function may use, in bytes; an engine that needs more has
  // failed to compile. 0: no limit.
  std::size_t max_workspace_bytes = 0;
};

// Every name that set_option() knows, sorted; docs/options.md describes them.
XRT_API std::vector<std::string> option_names();
// Sets an option by its name, as Python and the XRT_<NAME> variables of the environment spell it.
// Names that OneFlow-XRT knew and that have no meaning here are accepted with a line in the log
// that says what replaces them. kInvalidArgument for an unknown name (with the nearest known one)
// or a value that does not fit.
XRT_API void set_option(ProgramOptions& options, std::string_view name, std::string_view value);
// `options` with what XRT_<NAME> variables say about those that have their default. Programs do
// this when they are loaded.
XRT_API ProgramOptions with_environment(ProgramOptions options);

// Where outputs lie that the caller supplies no tensor for.
enum class Results : std::uint8_t {
  kLikeInputs,  // on the program's device if any input lies on it, else on the host
  kHost,
  kDevice,  // on ProgramOptions::device; strings, sequences and types narrower than a byte: the
            // host
};

struct Port {
  std::string name;
  Type type;
  bool has_default = false;  // an input with an initializer may be left out
};

// Why each node runs where it runs.
struct Explanation {
  struct NodeRow {
    std::string name, op, engine, function;  // function: the launch it is part of
    std::vector<std::string> input_types, output_types;
    std::map<std::string, std::string> refusals;  // engine → reason
    // Names of the values it reads and writes, in order; "" where an optional one is left out.
    std::vector<std::string> inputs, outputs;
  };
  struct LaunchRow {
    std::string function, engine;
    std::size_t nodes = 0;
    std::size_t input_bytes = 0, output_bytes = 0;  // 0 where shapes are not static
    std::size_t workspace_bytes = 0;
    double compile_ms = 0;
    bool from_cache = false;
    double mean_us = 0;  // over the runs since loading
    std::int64_t runs = 0;
    std::vector<std::string> reads, writes;  // names of values
  };
  std::vector<NodeRow> nodes;
  std::vector<LaunchRow> launches;
  std::map<std::string, std::size_t> nodes_per_engine;
  std::size_t arena_bytes = 0;
  std::vector<std::string> notes;  // e.g. "fell back …" with its reason
  // What placement had to choose from, best first; empty where the user named the engines.
  struct CandidateRow {
    std::string plan;               // "native", "openvino,native", "native | openvino from 'conv5'"
    std::string precision = "f32";  // see ProgramOptions::precision
    double estimated_us = 0;        // 0: there is no estimate
    double measured_us = 0;         // median of whole runs; 0: it was not measured
    double error = -1;              // against float32, over the output's range; -1: not compared
    bool chosen = false;
    std::string note;  // why it was not measured, or not chosen
  };
  std::vector<CandidateRow> candidates;
  // "named", "estimated", "measured", "measured earlier", "estimated, measuring in the background"
  std::string placement = "named";
  std::string precision = "f32";
  std::string to_json() const;  // documented in docs/architecture.md
};

// One launch of one run, for traces; times in microseconds since the program was loaded.
struct LaunchEvent {
  std::string function, engine;
  double start_us = 0, duration_us = 0;
  std::uint64_t thread = 0, run = 0;
};

class XRT_API Program {
 public:
  virtual ~Program();

  // Throw xrt::Error: kInvalidModel, kUnsupported, kNotFound (engine or file), kEngine.
  static std::shared_ptr<Program> load(const std::filesystem::path& path,
                                       const ProgramOptions& options = {});
  static std::shared_ptr<Program> load_bytes(std::string_view onnx_bytes,
                                             const ProgramOptions& options = {});
  static std::shared_ptr<Program> compile(Graph graph, const ProgramOptions& options = {});

  virtual const std::vector<Port>& inputs() const = 0;
  virtual const std::vector<Port>& outputs() const = 0;

  // Positional: `inputs` follow inputs(). An input with a default may be none. `outputs` is empty,
  // or has one entry per output: a tensor to be written in place, or none.
  // Wrong count, dtype, rank, dimension, device or two values of one symbol: kInvalidArgument,
  // naming it. When it returns the outputs are written, wherever they lie.
  virtual void run(std::span<const Data> inputs, std::vector<Data>& outputs, Results results) = 0;
  void run(std::span<const Data> inputs, std::vector<Data>& outputs) {
    run(inputs, outputs, Results::kLikeInputs);
  }
  // By name.
  std::vector<Data> run(const std::map<std::string, Data>& inputs);

  // Of the plan last run, or of the one for the declared shapes where none was.
  virtual Explanation explain() = 0;
  // Launch events are kept while enabled (the newest 100,000).
  virtual void enable_profile(bool on) = 0;
  virtual std::vector<LaunchEvent> profile() const = 0;
  // Chrome/Perfetto trace of profile().
  std::string trace_json() const;
  // The graph after passes, before partition, as text.
  virtual std::string graph_text() const = 0;
};

// --- engines and cache, for tools ---------------------------------------------------------------

struct EngineReport {
  std::string name;
  bool available = false;  // loaded, and really ran one op
  // Not available, but it compiled one op for a device that this machine does not have.
  bool builds = false;
  std::string version, location, error, install_hint;
  std::vector<std::string> devices;
  std::size_t op_count = 0;
};
// Every engine known by name or found on XRT_ENGINE_PATH, each probed by running one op.
XRT_API std::vector<EngineReport> probe_engines();
// The engine of that name, loaded on first use; kNotFound or kEngine with the cause otherwise.
XRT_API std::shared_ptr<const Engine> get_engine(std::string_view name);
// Names that get_engine may know: built in ones first, then those found on XRT_ENGINE_PATH.
XRT_API std::vector<std::string> engine_names();
// Adds an engine made in this process (an engine of Python, a test). A duplicate throws.
XRT_API void register_engine(std::shared_ptr<const Engine> engine);

struct CacheEntry {
  std::string key, engine, function;
  std::size_t bytes = 0;
  std::int64_t last_used_unix = 0;  // seconds
  bool valid = false;               // header and checksum hold
};
XRT_API std::vector<CacheEntry> list_cache(const std::filesystem::path& dir);
XRT_API std::size_t clear_cache(const std::filesystem::path& dir);  // entries removed
// $XRT_CACHE_DIR, else empty (no disk cache).
XRT_API std::filesystem::path default_cache_dir();

// The process's one thread budget: what was set, else XRT_NUM_THREADS, else the least of affinity
// and cgroup quota. Launches of all programs and engines begin only while the CPU threads of all
// that run stay within it; the others wait asleep, in the order of their arrival.
XRT_API int thread_budget();
// Holds for launches that begin from now on. Programs that are there keep the threads that they
// were compiled for, as far as the budget allows: a launch that wants more of them than there are
// runs alone. kInvalidArgument for less than 1 or more than 4096.
XRT_API void set_thread_budget(int threads);

}  // namespace xrt
