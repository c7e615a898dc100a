// SPDX-License-Identifier: Apache-2.0
// The one interface between OpenXRT and everything that computes.
//
// An engine answers, node by node, what it supports, and compiles a function (a graph with entry
// and return parameters) to an executable. It lives in a shared library that exports
//
//   extern "C" void xrt_register_engine(xrt::EngineRegistry* registry);
//
// and hands the registry one Engine per name. Nothing registers itself before that call.
//
// Rules:
// - supports() is honest: a node it claims must compile and run; a no carries its reason. It never
//   speaks of speed: cost belongs to placement.
// - Graph and Function views are valid only during the call; keep copies of what you need (Tensors
//   may be kept: they share their memory).
// - Executables are immutable and shared between threads. What one run needs (arena, request,
//   stream) is a RunContext; the runtime pools them, one per concurrent run.
// - Vendor errors become xrt::Error inside the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/error.h"
#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

// Changes whenever a class below changes shape; a library built for another version is refused.
inline constexpr std::uint32_t kEngineAbi = 4;

enum class Phase : std::uint8_t { kInference, kTraining };

// A yes, or a no with its reason.
class XRT_API Support {
 public:
  static Support yes() { return Support(true, {}); }
  static Support no(std::string reason) { return Support(false, std::move(reason)); }
  explicit operator bool() const { return ok_; }
  const std::string& reason() const { return reason_; }

 private:
  Support(bool ok, std::string reason) : ok_(ok), reason_(std::move(reason)) {}
  bool ok_;
  std::string reason_;
};

// What the runtime wants to know about one node of one graph.
struct SupportQuery {
  const Graph& graph;
  NodeId node;
  std::string device = "cpu";  // "cpu", "cuda:0", …
  Phase phase = Phase::kInference;
  // Positions of the node's inputs whose memory one of the program's outputs is written into.
  std::vector<std::int32_t> mutable_inputs = {};
};

// An output that is to be written into the memory of an input: how state is updated in place.
struct InputOutputAlias {
  std::int32_t input = 0;   // position in graph.inputs()
  std::int32_t output = 0;  // position in graph.outputs()
};

// What an engine compiles. graph.inputs() are the entry parameters, graph.outputs() the return
// parameters; constants are inside the graph and share their memory with the model.
struct Function {
  std::string name;
  const Graph& graph;
  std::vector<InputOutputAlias> aliases;  // empty unless the engine works in_place()
  // The function as a serialised ONNX ModelProto at the pinned opset. Constants larger than
  // `inline_limit` bytes are left out as external data whose location is `kMemoryLocation` and
  // whose offset is the address of the tensor's memory (valid while the graph's tensors live).
  std::function<std::string(std::size_t inline_limit)> to_onnx;
};

struct CompileOptions {
  std::string device = "cpu";
  int num_threads = 1;  // this engine's share of the process's one thread budget
  Phase phase = Phase::kInference;
  std::map<std::string, std::string> engine_options;  // the engine documents its own keys
  std::size_t max_workspace_bytes = 0;                // of scratch memory per run; 0: no limit
  std::int64_t max_batch_size = 0;  // the largest first dimension to build for; 0: as declared
  // A folder of the user's cache for what an engine keeps beside its executables (tuning records,
  // timing caches); empty: nothing is kept.
  std::filesystem::path records_dir;
  // Called now and then by compilations that take seconds: what is done, and the part done (0–1).
  std::function<void(std::string_view what, double part)> progress;
};

struct RunOptions {
  // Of executables that follow streams (xrt/engine_stream.h). Null: run() returns when all is done.
  void* stream = nullptr;
  // Empty, or per output: an output that is none and marked here is to be a tensor in the memory of
  // Executable::device(), written when run() returns. Without the mark it is one on the host.
  std::span<const bool> on_device = {};
};

// What one run needs for itself; an engine without such a thing returns null.
class XRT_API RunContext {
 public:
  virtual ~RunContext();
};

class XRT_API Executable {
 public:
  virtual ~Executable();

  virtual std::unique_ptr<RunContext> create_context() const { return nullptr; }

  // `inputs` follow graph.inputs(). Each of `outputs` either holds a tensor of the right dtype and
  // shape, which must be written in place, or is none: then the executable sets it (a tensor it
  // allocated and gives away, never memory that its context will reuse). Where a dtype or shape is
  // not known before the run, none is what it gets. Called by one thread per context.
  virtual void run(RunContext* context, std::span<const Data> inputs, std::span<Data> outputs,
                   const RunOptions& options) const = 0;

  // A blob that load() of the same engine version on the same kind of machine takes back, or
  // nothing if the engine cannot.
  virtual std::optional<std::string> serialize() const { return std::nullopt; }

  // Bytes of scratch memory per context, and of weights this executable holds for itself.
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual std::size_t weight_bytes() const { return 0; }

  // Whose memory inputs may lie in beside the host's, and results where RunOptions asks for it.
  // Only the host's: inputs and results always lie there.
  virtual Device device() const { return {}; }
};

// What an engine says about an op as a whole.
struct OpTraits {
  bool training = true;    // may be used in Phase::kTraining
  bool optimizer = false;  // updates variables: stays in one function with the aliases it writes
  // Positions of the node's inputs that its lowering can write in place.
  std::vector<std::int32_t> mutable_inputs = {};
};

class XRT_API Engine {
 public:
  virtual ~Engine();

  virtual std::string name() const = 0;
  // Of the library behind the engine, e.g. "2026.4.1-build"; part of every cache key.
  virtual std::string version() const = 0;
  virtual std::vector<std::string> devices() const { return {"cpu"}; }
  // True: functions whose values have symbolic or unknown dimensions may be compiled.
  virtual bool dynamic_shapes() const { return false; }
  // Where the library was found, for `xrt doctor`.
  virtual std::string location() const { return {}; }

  virtual Support supports(const SupportQuery& query) const = 0;
  // Every live node at once, indexed by NodeId::index, for engines that can ask their library about
  // a whole graph. Entries of dead nodes are ignored. Default: supports() for each.
  virtual std::vector<Support> supports_all(const Graph& graph, const std::string& device,
                                            Phase phase) const;

  virtual std::shared_ptr<const Executable> compile(const Function& function,
                                                    const CompileOptions& options) const = 0;
  // From serialize()'s bytes; `function` is what they were compiled from. `blob` is uint8, aligned
  // to 64 bytes and read-only (often a mapped file); an executable that keeps the Tensor may read
  // its weights where they lie. Default: kUnsupported.
  virtual std::shared_ptr<const Executable> load(const Tensor& blob, const Function& function,
                                                 const CompileOptions& options) const;

  // An executable that differs from `executable` (made by this engine from the same function) only
  // in the values of its constants, which are those of `function` now; cheaper than compile().
  // Default: kUnsupported.
  virtual std::shared_ptr<const Executable> refit(const Executable& executable,
                                                  const Function& function,
                                                  const CompileOptions& options) const;

  // Ops with a lowering, qualified names, sorted; for tables, not for decisions.
  virtual std::vector<std::string> ops() const { return {}; }
  // What holds for every node of one op of ops().
  virtual OpTraits traits(const std::string& /*op*/) const { return {}; }

  // Every key that CompileOptions::engine_options may have, so that a misspelt one is an error that
  // suggests the nearest. Nothing: compile() judges the keys itself.
  virtual std::optional<std::vector<std::string>> option_names() const { return std::nullopt; }

  // True: run() may be handed an output that lies in the memory of an input, where
  // Function::aliases says so; also other nodes that read that input must see its old value. False:
  // functions have no aliases, every output has memory of its own, and the runtime copies it over
  // the input when the run is over.
  virtual bool in_place() const { return false; }
};

// Handed to an engine library. add() refuses a second engine of the same name.
class XRT_API EngineRegistry {
 public:
  virtual ~EngineRegistry();
  // `abi` is always kEngineAbi: it is compiled into the engine's library and checked here.
  virtual void add(std::shared_ptr<const Engine> engine, std::uint32_t abi = kEngineAbi) = 0;
};

using RegisterEngineFunction = void (*)(EngineRegistry*);
inline constexpr const char* kRegisterEngineSymbol = "xrt_register_engine";

}  // namespace xrt
