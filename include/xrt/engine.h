// SPDX-License-Identifier: Apache-2.0
// The engine contract, version 1: the one interface between OpenXRT and everything that computes.
//
// An engine answers, node by node, what it supports, and compiles a function (a graph with entry
// and return parameters) to an executable. It lives in a shared library libxrt_engine_<name>.so:
//
//   class MyEngine final : public xrt::Engine {
//    public:
//     const xrt::EngineInfo& info() const override { return info_; }
//     xrt::Support supports(const xrt::SupportQuery& query) const override;
//     std::shared_ptr<const xrt::Executable> compile(const xrt::Function& function,
//                                                    const xrt::CompileOptions& options) const
//                                                    override;
//    private:
//     xrt::EngineInfo info_ = {.name = "mine", .version = "1"};
//   };
//   XRT_ENGINE(MyEngine)
//
// This header is all that an engine includes: it is header-only and links with nothing of OpenXRT.
// What an engine sees of graphs and tensors is in xrt/engine_graph.h.
// What crosses the border is the table of C functions in xrt/engine_c.h, so that a library built
// against version 1.0 loads in every 1.x, whatever compiler and standard library made it.
//
// Rules:
// - supports() is honest: a node that it claims compiles and runs; a no carries its reason. It
//   never speaks of speed.
// - What this header calls a view is valid during the call alone; keep copies of what you need
//   (TensorView::share() keeps a tensor).
// - Executables are immutable and shared between threads. What one run needs (arena, request,
//   stream) is a RunContext; the runtime pools them, one per concurrent run.
// - Errors are xrt::Error, or any std::exception, which counts as kEngine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xrt/device.h"
#include "xrt/dtype.h"
#include "xrt/engine_c.h"
#include "xrt/engine_graph.h"
#include "xrt/error.h"
#include "xrt/precision.h"

namespace xrt {
inline namespace XRT_ENGINE_NAMESPACE {

// --- what an engine says about itself ------------------------------------------------------------

enum class Phase : std::uint8_t { kInference, kTraining };

// A yes, or a no with its reason.
class Support {
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

struct DeviceInfo {
  std::string name;  // "cpu", "cuda:0", …
  // What it can compute float32 in. CompileOptions::precision is one of them.
  std::vector<Precision> precisions = {Precision::kF32};
  bool asynchronous = false;  // its executables follow streams, see ExecutableInfo
};

// An option of the engine's own: a row of `xrt engines NAME` and of the documentation. Programs
// refuse names that no row has, and values that do not fit the kind.
struct EngineOption {
  enum class Kind : std::uint8_t { kText, kBool, kInt, kNumber };
  std::string name;
  Kind kind = Kind::kText;
  std::string default_value;
  std::string help;  // one line
};

// The shapes that functions may have.
enum class Shapes : std::uint8_t {
  kStatic,  // every dimension is a number
  kAny,     // symbols and unknown dimensions too
};

struct EngineInfo {
  std::string name;           // letters, digits, '_', '-' and '.'; the library's file bears it
  std::string version;        // of the library behind the engine, part of every cache key
  std::string location = {};  // where that library was found
  std::vector<DeviceInfo> devices = {{"cpu"}};
  std::vector<EngineOption> options = {};
  bool checks_options = false;  // compile() judges names that are not among `options`
  Shapes shapes = Shapes::kStatic;
  // Functions may have aliases: run() writes an output into the memory of an input, and other
  // nodes that read the input still see its old value. Else the runtime copies when the run is
  // over.
  bool in_place = false;
  // load() takes all elements of constants from the blob and none from the function's graph.
  bool self_contained = false;
  // Indices out of range are errors of its executables. Else the runtime looks at those that it
  // sees.
  bool checks_indices = false;
  // Options with which compile() works for a device that this machine does not have.
  std::map<std::string, std::string> offline_options = {};
  // Files whose change makes it another engine, of an engine that is not in a library of its own.
  std::vector<std::string> files = {};
  // Set by engines that are built with OpenXRT's own C++ library (src/engine/handles.h).
  std::string core_version = {};
};

struct ExecutableInfo {
  // Scratch memory of one run; nothing: the library does not tell, and no bound can be held.
  std::optional<std::size_t> workspace_bytes = 0;
  std::size_t weight_bytes = 0;  // of weights that the executable holds for itself
  // Threads that compute during a run on the CPU, the caller's included; 0:
  // CompileOptions::num_threads.
  int threads = 0;
  // Runs that name the same pool share its threads: `runs_at_once` of them run at once (0: as
  // many as it has threads) and count together as one. Null: each run has threads of its own.
  const void* pool = nullptr;
  int runs_at_once = 0;
  // Whose memory inputs may lie in beside the host's, and results where RunArgs asks for it.
  Device device = {};
  // A run that is given a stream begins when what is queued there is done, and may return before
  // its outputs are written: what is queued there afterwards finds them so. It is given one only
  // where all outputs are to be given out on the device. Errors that come up later are thrown by
  // a later run().
  bool follows_stream = false;
  // What nodes and times do not show, for explanations: sentences without capital and full stop.
  std::vector<std::string> remarks = {};
};

// --- questions and orders ------------------------------------------------------------------------

// What the runtime wants to know about one node of one graph.
struct SupportQuery {
  GraphView graph;
  NodeId node;
  std::string device = "cpu";
  Phase phase = Phase::kInference;
  // Positions of the node's inputs whose memory one of the program's outputs is written into.
  std::vector<std::int32_t> mutable_inputs = {};
};

struct InputOutputAlias {
  std::int32_t input = 0;   // position in graph.inputs()
  std::int32_t output = 0;  // position in graph.outputs()
};

// What an engine compiles. graph.inputs() are the entry parameters, graph.outputs() the return
// parameters; constants are inside the graph and share their memory with the model.
struct Function {
  std::string name;
  GraphView graph;
  std::vector<InputOutputAlias> aliases = {};  // empty unless the engine works in place
  // The function as a serialised ONNX ModelProto at the pinned opset. Constants of more than
  // `inline_limit` bytes are external data whose location is "*/_ORT_MEM_ADDR_/*" and whose
  // offset is the address of the tensor's memory.
  std::function<std::string(std::size_t inline_limit)> to_onnx = {};
};

// The sizes that a dimension of the function's inputs is to be built for.
struct SizeRange {
  std::string symbol;  // Dim::symbol() of that dimension
  std::int64_t least = 1, usual = 1, most = 1;
};

struct CompileOptions {
  std::string device = "cpu";
  Precision precision = Precision::kF32;  // what to compute float32 in
  Phase phase = Phase::kInference;
  int num_threads = 1;  // of one run: a share of the process's one thread budget
  // Runs at once that the executable is to be good for, with num_threads each. A pool that all runs
  // share has num_threads * streams; weights are there once.
  int streams = 1;
  std::map<std::string, std::string> engine_options = {};  // by EngineInfo::options
  std::size_t max_workspace_bytes = 0;                     // of scratch memory per run; 0: no limit
  std::int64_t max_batch_size = 0;  // the largest first dimension to build for; 0: as declared
  // A folder of the user's cache for what an engine keeps beside its executables (tuning records,
  // timing caches); empty: nothing is kept.
  std::string records_dir = {};
  // To be called now and then by compilations that take seconds: what is done, and the part done
  // (0–1). Throws where the caller has given up.
  std::function<void(std::string_view what, double part)> progress = {};
  std::vector<SizeRange> ranges = {};  // of symbols that a range is known for
};

// What one run needs for itself.
class RunContext {
 public:
  virtual ~RunContext() = default;
};

// The inputs and outputs of one run. Inputs follow graph.inputs(), outputs graph.outputs().
class RunArgs {
 public:
  RunArgs(const xrt_engine_host* host, xrt_engine_run* handle, RunContext* context)
      : host_(host), handle_(handle), context_(context) {}

  RunContext* context() const { return context_; }  // of create_context()
  std::size_t input_count() const { return host_->input_count(handle_); }
  std::size_t output_count() const { return host_->output_count(handle_); }
  // Not defined() where the input is an empty optional or no tensor.
  TensorView input(std::size_t i) const { return {host_, host_->input(handle_, i)}; }
  // Whether the caller of this run has given up: an executable that runs for long asks now and
  // then, and throws kResource. Any thread of the run may ask.
  bool cancelled() const {
    constexpr std::size_t kEnd = offsetof(xrt_engine_host, cancelled) + sizeof(host_->cancelled);
    return host_->size >= kEnd && host_->cancelled(handle_) != 0;
  }
  // The memory that output i is to be written into, of the right dtype and shape. Not defined():
  // the executable gives it memory by allocate_output() or give_output().
  TensorView output(std::size_t i) const { return {host_, host_->output(handle_, i)}; }
  // Memory of the host's for output i, 64-byte aligned. Throws kResource where there is none
  // left.
  void* allocate_output(std::size_t i, DType dtype, std::span<const std::int64_t> dims) const {
    void* memory = host_->allocate_output(handle_, i, static_cast<std::int32_t>(dtype), dims.data(),
                                          dims.size());
    if (memory == nullptr) throw Error(ErrorCode::kResource, "there is no memory for an output");
    return memory;
  }
  // Memory of the engine's as output i, which lives as long as somebody needs it.
  void give_output(std::size_t i, DType dtype, std::span<const std::int64_t> dims, void* data,
                   std::shared_ptr<const void> owner, Device device = {}) const {
    auto kept = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
    host_->give_output(
        handle_, i, static_cast<std::int32_t>(dtype), dims.data(), dims.size(), data,
        static_cast<std::int32_t>(device.kind), device.ordinal, kept.release(),
        [](void* given) { delete static_cast<std::shared_ptr<const void>*>(given); });
  }
  // An element of an output of strings, which has its memory.
  void set_output_string(std::size_t i, std::size_t element, std::string_view text) const {
    host_->set_output_string(handle_, i, element, {text.data(), text.size()});
  }
  // Whether output i, which has no memory, is to be given on ExecutableInfo::device.
  bool on_device(std::size_t i) const { return host_->output_on_device(handle_, i) != 0; }
  // A CUstream; null: run() returns when all is done.
  void* stream() const { return host_->stream(handle_); }
  xrt_engine_run* handle() const { return handle_; }

 private:
  const xrt_engine_host* host_;
  xrt_engine_run* handle_;
  RunContext* context_;
};

class Executable {
 public:
  virtual ~Executable() = default;

  // Asked once, when it has been compiled or loaded.
  virtual ExecutableInfo info() const { return {}; }
  virtual std::unique_ptr<RunContext> create_context() const { return nullptr; }
  // Called by one thread per context. Throws kUnsupported, before it writes anything, for inputs
  // that the engine does not compute: on the CPU another engine runs the function with them.
  virtual void run(const RunArgs& args) const = 0;
  // A blob that load() of the same engine version on the same kind of machine takes back, or
  // nothing if the engine cannot.
  virtual std::optional<std::string> serialize() const { return std::nullopt; }
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Always the same, as long as the engine lives.
  virtual const EngineInfo& info() const = 0;
  const std::string& name() const { return info().name; }

  // Ops with a lowering, qualified names, sorted; for tables, not for decisions.
  virtual std::vector<std::string> ops() const { return {}; }

  virtual Support supports(const SupportQuery& query) const = 0;
  // Every live node at once, indexed by NodeId::index, for engines that can ask their library
  // about a whole graph: `query.node` is not valid. Entries of dead nodes are ignored.
  virtual std::vector<Support> supports_all(const SupportQuery& query) const {
    std::vector<Support> answers(query.graph.node_capacity(), Support::no("the node was removed"));
    SupportQuery one = query;
    for (const NodeId id : query.graph.nodes()) {
      one.node = id;
      answers[static_cast<std::size_t>(id.index)] = supports(one);
    }
    return answers;
  }

  virtual std::shared_ptr<const Executable> compile(const Function& function,
                                                    const CompileOptions& options) const = 0;
  // From serialize()'s bytes; `function` is what they were compiled from. `blob` is uint8,
  // aligned to 64 bytes and read-only (often a mapped file); an executable that keeps it
  // (share()) may read its weights where they lie.
  virtual std::shared_ptr<const Executable> load(const TensorView& /*blob*/,
                                                 const Function& function,
                                                 const CompileOptions& /*options*/) const {
    throw Error(ErrorCode::kUnsupported,
                "engine '" + name() + "' cannot load function '" + function.name + "' from bytes");
  }
};

}  // namespace XRT_ENGINE_NAMESPACE
}  // namespace xrt

#include "xrt/engine_border.h"
