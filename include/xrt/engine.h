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
// This header is all that an engine needs: it is header-only and links with nothing of OpenXRT.
// What crosses the border is the table of C functions in xrt/engine_c.h, so that a library built
// against version 1.0 loads in every 1.x, whatever compiler and standard library made it.
//
// Rules:
// - supports() is honest: a node that it claims compiles and runs; a no carries its reason. It
// never
//   speaks of speed.
// - What this header calls a view is valid during the call alone; keep copies of what you need
//   (TensorView::share() keeps a tensor).
// - Executables are immutable and shared between threads. What one run needs (arena, request,
//   stream) is a RunContext; the runtime pools them, one per concurrent run.
// - Errors are xrt::Error, or any std::exception, which counts as kEngine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xrt/device.h"
#include "xrt/dtype.h"
#include "xrt/engine_c.h"
#include "xrt/error.h"
#include "xrt/ids.h"
#include "xrt/precision.h"

// The classes below lie in a namespace that names this version of the header and the standard
// library, so that those of two libraries in one process are never taken for each other's.
#if defined(_LIBCPP_VERSION)
#define XRT_ENGINE_NAMESPACE engine_1_0_libcpp
#elif defined(_GLIBCXX_DEBUG)
#define XRT_ENGINE_NAMESPACE engine_1_0_gnu_debug
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define XRT_ENGINE_NAMESPACE engine_1_0_gnu_old
#else
#define XRT_ENGINE_NAMESPACE engine_1_0_gnu
#endif

namespace xrt {
inline namespace XRT_ENGINE_NAMESPACE {

// --- what an engine sees of a graph
// -------------------------------------------------------------

// A dense, row-major tensor of the host's: a constant, an input, or memory to be written.
class TensorView {
 public:
  TensorView() = default;  // defined() is false
  TensorView(const xrt_engine_host* host, const xrt_engine_tensor* handle)
      : host_(host), handle_(handle) {
    info_.size = sizeof(info_);
    if (handle != nullptr) host->read_tensor(handle, &info_);
  }
  bool defined() const { return handle_ != nullptr; }
  DType dtype() const { return static_cast<DType>(info_.dtype); }
  std::span<const std::int64_t> dims() const { return {info_.dims, info_.rank}; }
  std::size_t rank() const { return info_.rank; }
  std::int64_t count() const { return info_.count; }
  std::size_t bytes() const { return info_.bytes; }
  Device device() const {
    return {static_cast<DeviceKind>(info_.device_kind), info_.device_ordinal};
  }
  // An address on device(); null for strings. Inputs and constants are not to be written.
  void* raw() const { return info_.data; }
  template <typename T>
  T* data() const {
    return static_cast<T*>(info_.data);
  }
  // An element of a tensor of strings; valid as long as the tensor.
  std::string_view string(std::size_t i) const {
    const xrt_engine_text text = host_->tensor_string(handle_, i);
    return {text.data, text.size};
  }
  // Owns a handle to the same memory: what it gives may be kept.
  std::shared_ptr<const TensorView> share() const {
    xrt_engine_tensor* own = host_->retain_tensor(handle_);
    const xrt_engine_host* host = host_;
    return {new TensorView(host, own), [host, own](const TensorView* view) {
              delete view;
              host->release_tensor(own);
            }};
  }
  const xrt_engine_tensor* handle() const { return handle_; }

 private:
  const xrt_engine_host* host_ = nullptr;
  const xrt_engine_tensor* handle_ = nullptr;
  xrt_engine_tensor_info info_ = {};
};

class TypeView {
 public:
  enum class Kind : std::uint8_t { kTensor, kSequence, kOptional, kMap, kSparseTensor };
  static constexpr std::int64_t kUnknown = -1;

  TypeView(const xrt_engine_host* host, const xrt_engine_type* handle)
      : host_(host), handle_(handle) {
    info_.size = sizeof(info_);
    host->read_type(handle, &info_);
  }
  Kind kind() const { return static_cast<Kind>(info_.kind); }
  bool is_tensor() const { return kind() == Kind::kTensor; }
  DType dtype() const { return static_cast<DType>(info_.dtype); }  // of a tensor's elements
  bool has_rank() const { return info_.has_rank != 0; }
  std::size_t rank() const { return info_.rank; }
  // A dimension's number, or kUnknown; its symbol, which may be empty.
  std::int64_t dim(std::size_t axis) const { return host_->type_dim(handle_, axis, nullptr); }
  std::string_view symbol(std::size_t axis) const {
    xrt_engine_text text = {};
    host_->type_dim(handle_, axis, &text);
    return {text.data, text.size};
  }
  // Of a sequence, an optional or a map: the type of what it holds.
  TypeView element() const { return {host_, info_.element}; }
  // A tensor of which every dimension is a number.
  bool is_static() const {
    if (!is_tensor() || !has_rank()) return false;
    for (std::size_t axis = 0; axis < rank(); ++axis) {
      if (dim(axis) == kUnknown) return false;
    }
    return true;
  }
  // The dimensions, kUnknown where one is not a number.
  std::vector<std::int64_t> dims() const {
    std::vector<std::int64_t> all(rank());
    for (std::size_t axis = 0; axis < all.size(); ++axis) all[axis] = dim(axis);
    return all;
  }
  const xrt_engine_type* handle() const { return handle_; }

 private:
  const xrt_engine_host* host_;
  const xrt_engine_type* handle_;
  xrt_engine_type_info info_ = {};
};

// "float32[1,3,H,?]", "float32[*]" (unknown rank), "seq(float32[*])"
inline std::string to_string(const TypeView& type) {
  if (!type.is_tensor()) {
    static constexpr const char* kNames[] = {"", "seq", "optional", "map", "sparse"};
    const auto kind = static_cast<std::size_t>(type.kind());
    if (type.kind() == TypeView::Kind::kSparseTensor) return kNames[kind];
    return std::string(kNames[kind]) + "(" + to_string(type.element()) + ")";
  }
  std::string text(to_string(type.dtype()));
  if (!type.has_rank()) return text + "[*]";
  text += "[";
  for (std::size_t axis = 0; axis < type.rank(); ++axis) {
    if (axis > 0) text += ",";
    const std::int64_t dim = type.dim(axis);
    const std::string_view symbol = type.symbol(axis);
    if (dim != TypeView::kUnknown) {
      text += std::to_string(dim);
    } else {
      text += symbol.empty() ? std::string_view("?") : symbol;
    }
  }
  return text + "]";
}

class GraphView;

class NodeView {
 public:
  NodeView(const xrt_engine_host* host, const xrt_engine_graph* graph, NodeId id)
      : host_(host), graph_(graph), id_(id) {
    info_.size = sizeof(info_);
    host->read_node(graph, id.index, &info_);
  }
  NodeId id() const { return id_; }
  std::string_view name() const { return text(info_.name); }      // unique within the graph
  std::string_view domain() const { return text(info_.domain); }  // "" is the ONNX standard
  std::string_view op() const { return text(info_.op); }
  // "ai.onnx.ml.Scaler", or just "Relu" for the standard domain.
  std::string qualified_op() const {
    return domain().empty() ? std::string(op()) : std::string(domain()) + "." + std::string(op());
  }
  // An id that is not valid() is an optional input or output that is left out.
  std::vector<ValueId> inputs() const { return ids(info_.inputs, info_.input_count); }
  std::vector<ValueId> outputs() const { return ids(info_.outputs, info_.output_count); }
  // The i-th, or an invalid id if the node has fewer.
  ValueId input(std::size_t i) const { return {i < info_.input_count ? info_.inputs[i] : -1}; }
  ValueId output(std::size_t i) const { return {i < info_.output_count ? info_.outputs[i] : -1}; }

  bool has(std::string_view attribute) const { return find(attribute).has_value(); }
  // Typed access: `fallback` where the attribute is absent. A value of another type throws
  // kInvalidModel naming node and attribute.
  std::int64_t attr_int(std::string_view name, std::int64_t fallback) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_INT);
    return found ? found->i : fallback;
  }
  float attr_float(std::string_view name, float fallback) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_FLOAT);
    return found ? found->f : fallback;
  }
  std::string attr_string(std::string_view name, std::string_view fallback) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_STRING);
    return std::string(found ? text(found->text) : fallback);
  }
  std::vector<std::int64_t> attr_ints(std::string_view name,
                                      std::vector<std::int64_t> fallback = {}) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_INTS);
    if (!found) return fallback;
    return {found->ints, found->ints + found->count};
  }
  std::vector<float> attr_floats(std::string_view name, std::vector<float> fallback = {}) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_FLOATS);
    if (!found) return fallback;
    return {found->floats, found->floats + found->count};
  }
  std::vector<std::string> attr_strings(std::string_view name) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_STRINGS);
    std::vector<std::string> all;
    for (std::size_t i = 0; found && i < found->count; ++i) {
      xrt_engine_attribute item = {};
      item.size = sizeof(item);
      host_->read_attribute_item(graph_, id_.index, {name.data(), name.size()}, i, &item);
      all.emplace_back(text(item.text));
    }
    return all;
  }
  TensorView attr_tensor(std::string_view name) const {  // not defined() where it is absent
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_TENSOR);
    return found ? TensorView(host_, found->tensor) : TensorView();
  }
  std::optional<GraphView> attr_graph(std::string_view name) const;

 private:
  static std::string_view text(xrt_engine_text t) { return {t.data, t.size}; }
  static std::vector<ValueId> ids(const std::int32_t* first, std::size_t count) {
    std::vector<ValueId> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i].index = first[i];
    return all;
  }
  std::optional<xrt_engine_attribute> find(std::string_view name, std::int32_t kind = -1) const {
    xrt_engine_attribute found = {};
    found.size = sizeof(found);
    if (host_->find_attribute(graph_, id_.index, {name.data(), name.size()}, &found) == 0)
      return {};
    if (kind != -1 && found.kind != kind) {
      throw Error(ErrorCode::kInvalidModel, "node '" + std::string(this->name()) +
                                                "': attribute '" + std::string(name) +
                                                "' is of another type");
    }
    return found;
  }

  const xrt_engine_host* host_;
  const xrt_engine_graph* graph_;
  NodeId id_;
  xrt_engine_node info_ = {};
};

class GraphView {
 public:
  GraphView(const xrt_engine_host* host, const xrt_engine_graph* handle)
      : host_(host), handle_(handle) {}

  std::string_view name() const {
    const xrt_engine_text text = host_->graph_name(handle_);
    return {text.data, text.size};
  }
  // In a topological order, the same on every run.
  std::vector<NodeId> nodes() const { return list<NodeId>(host_->graph_nodes); }
  std::vector<ValueId> constants() const { return list<ValueId>(host_->graph_constants); }
  // Entry and return parameters, in order.
  std::vector<ValueId> inputs() const { return ports(host_->graph_inputs); }
  std::vector<ValueId> outputs() const { return ports(host_->graph_outputs); }
  NodeView node(NodeId id) const { return {host_, handle_, id}; }
  TypeView type(ValueId id) const { return {host_, read(id).type}; }
  // Unique within the graph.
  std::string_view value_name(ValueId id) const {
    const xrt_engine_text text = read(id).name;
    return {text.data, text.size};
  }
  Origin origin(ValueId id) const { return static_cast<Origin>(read(id).origin); }
  NodeId producer(ValueId id) const { return {read(id).producer}; }
  // The constant that a value is; not defined() where it is none.
  TensorView constant(ValueId id) const {
    const xrt_engine_tensor* tensor = read(id).constant;
    return tensor == nullptr ? TensorView() : TensorView(host_, tensor);
  }
  // Who reads a value (graph outputs are no uses), in order.
  std::vector<Use> uses(ValueId id) const {
    std::vector<xrt_engine_use> raw(host_->value_uses(handle_, id.index, nullptr, 0));
    host_->value_uses(handle_, id.index, raw.data(), raw.size());
    std::vector<Use> all;
    for (const xrt_engine_use& use : raw) all.push_back({{use.node}, use.index});
    return all;
  }
  bool is_output(ValueId id) const { return host_->value_is_output(handle_, id.index) != 0; }
  // One past the highest id ever given: sizes of side tables.
  std::size_t node_capacity() const { return host_->node_capacity(handle_); }
  std::size_t value_capacity() const { return host_->value_capacity(handle_); }

  const xrt_engine_host* host() const { return host_; }
  const xrt_engine_graph* handle() const { return handle_; }

 private:
  xrt_engine_value read(ValueId id) const {
    xrt_engine_value value = {};
    value.size = sizeof(value);
    host_->read_value(handle_, id.index, &value);
    return value;
  }
  template <typename Id>
  std::vector<Id> list(std::size_t (*get)(const xrt_engine_graph*, std::int32_t*,
                                          std::size_t)) const {
    std::vector<std::int32_t> raw(get(handle_, nullptr, 0));
    get(handle_, raw.data(), raw.size());
    std::vector<Id> all(raw.size());
    for (std::size_t i = 0; i < raw.size(); ++i) all[i].index = raw[i];
    return all;
  }
  std::vector<ValueId> ports(const std::int32_t* (*get)(const xrt_engine_graph*,
                                                        std::size_t*)) const {
    std::size_t count = 0;
    const std::int32_t* first = get(handle_, &count);
    std::vector<ValueId> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i].index = first[i];
    return all;
  }

  const xrt_engine_host* host_;
  const xrt_engine_graph* handle_;
};

inline std::optional<GraphView> NodeView::attr_graph(std::string_view name) const {
  const auto found = find(name, XRT_ENGINE_ATTRIBUTE_GRAPH);
  if (!found) return std::nullopt;
  return GraphView(host_, found->graph);
}

// --- what an engine says about itself
// -----------------------------------------------------------

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
  // Set by engines that are built with OpenXRT's own C++ library (src/engines/common/core.h).
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

// --- questions and orders
// -----------------------------------------------------------------------

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

struct CompileOptions {
  std::string device = "cpu";
  Precision precision = Precision::kF32;  // what to compute float32 in
  Phase phase = Phase::kInference;
  int num_threads = 1;  // this engine's share of the process's one thread budget
  std::map<std::string, std::string> engine_options = {};  // by EngineInfo::options
  std::size_t max_workspace_bytes = 0;                     // of scratch memory per run; 0: no limit
  std::int64_t max_batch_size = 0;  // the largest first dimension to build for; 0: as declared
  // A folder of the user's cache for what an engine keeps beside its executables (tuning records,
  // timing caches); empty: nothing is kept.
  std::string records_dir = {};
  // To be called now and then by compilations that take seconds: what is done, and the part done
  // (0–1). Throws where the caller has given up.
  std::function<void(std::string_view what, double part)> progress = {};
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
  // Called by one thread per context.
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

// --- the border -------------------------------------------------------------------------------
//
// From here on: how the classes above become the tables of xrt/engine_c.h.

namespace border {

inline xrt_engine_text text(std::string_view from) { return {from.data(), from.size()}; }
inline std::string string(xrt_engine_text from) { return {from.data, from.size}; }

// The table that the library was given.
inline const xrt_engine_host*& host() {
  static const xrt_engine_host* table = nullptr;
  return table;
}

// Runs `body`; what it throws becomes a status and a text.
template <typename Body>
xrt_engine_status guard(xrt_engine_error* error, Body&& body) {
  const auto fail = [error](ErrorCode code, std::string_view what) {
    return host()->fail(error, static_cast<xrt_engine_status>(code) + 1, text(what));
  };
  try {
    body();
    return 0;
  } catch (const Error& failure) {
    return fail(failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kResource, "out of memory");
  } catch (const std::exception& failure) {
    return fail(ErrorCode::kEngine, failure.what());
  } catch (...) {
    return fail(ErrorCode::kEngine, "it threw something that is no std::exception");
  }
}

// An EngineInfo as C structs, which point into it.
class InfoTable {
 public:
  explicit InfoTable(const EngineInfo& info) {
    precisions_.reserve(info.devices.size());
    for (const DeviceInfo& device : info.devices) {
      std::vector<std::int32_t>& list = precisions_.emplace_back();
      for (const Precision p : device.precisions) list.push_back(static_cast<std::int32_t>(p));
      devices_.push_back({sizeof(xrt_engine_device_info), text(device.name), list.data(),
                          list.size(), device.asynchronous ? 1 : 0});
    }
    for (const EngineOption& option : info.options) {
      options_.push_back({sizeof(xrt_engine_option), text(option.name),
                          static_cast<std::int32_t>(option.kind), text(option.default_value),
                          text(option.help)});
    }
    for (const auto& device : devices_) device_pointers_.push_back(&device);
    for (const auto& option : options_) option_pointers_.push_back(&option);
    for (const auto& [name, value] : info.offline_options) pairs_.push_back(name + "=" + value);
    for (const std::string& pair : pairs_) offline_.push_back(text(pair));
    for (const std::string& file : info.files) files_.push_back(text(file));
    table_.size = sizeof(table_);
    table_.name = text(info.name);
    table_.version = text(info.version);
    table_.location = text(info.location);
    table_.devices = device_pointers_.data();
    table_.device_count = device_pointers_.size();
    table_.options = option_pointers_.data();
    table_.option_count = option_pointers_.size();
    table_.checks_options = info.checks_options ? 1 : 0;
    table_.shapes = static_cast<std::int32_t>(info.shapes);
    table_.in_place = info.in_place ? 1 : 0;
    table_.self_contained = info.self_contained ? 1 : 0;
    table_.checks_indices = info.checks_indices ? 1 : 0;
    table_.offline_options = offline_.data();
    table_.offline_option_count = offline_.size();
    table_.files = files_.data();
    table_.file_count = files_.size();
    table_.core_version = text(info.core_version);
  }
  InfoTable(const InfoTable&) = delete;
  InfoTable& operator=(const InfoTable&) = delete;
  const xrt_engine_info* get() const { return &table_; }

 private:
  std::vector<std::vector<std::int32_t>> precisions_;
  std::vector<xrt_engine_device_info> devices_;
  std::vector<const xrt_engine_device_info*> device_pointers_;
  std::vector<xrt_engine_option> options_;
  std::vector<const xrt_engine_option*> option_pointers_;
  std::vector<std::string> pairs_;
  std::vector<xrt_engine_text> offline_, files_;
  xrt_engine_info table_ = {};
};

// An executable behind the table.
class ExecutableTable {
 public:
  static void give(std::shared_ptr<const Executable> executable, xrt_engine_executable* to) {
    if (executable == nullptr) {
      *to = {nullptr, nullptr};
      return;
    }
    to->self = new ExecutableTable(std::move(executable));
    to->functions = functions();
  }

 private:
  explicit ExecutableTable(std::shared_ptr<const Executable> executable)
      : executable_(std::move(executable)), info_(executable_->info()) {
    for (const std::string& remark : info_.remarks) remarks_.push_back(text(remark));
    table_.size = sizeof(table_);
    table_.workspace_known = info_.workspace_bytes ? 1 : 0;
    table_.workspace_bytes = info_.workspace_bytes.value_or(0);
    table_.weight_bytes = info_.weight_bytes;
    table_.threads = info_.threads;
    table_.pool = info_.pool;
    table_.runs_at_once = info_.runs_at_once;
    table_.device_kind = static_cast<std::int32_t>(info_.device.kind);
    table_.device_ordinal = info_.device.ordinal;
    table_.follows_stream = info_.follows_stream ? 1 : 0;
    table_.remarks = remarks_.data();
    table_.remark_count = remarks_.size();
  }
  static const ExecutableTable& of(const void* self) {
    return *static_cast<const ExecutableTable*>(self);
  }

  static const xrt_engine_executable_functions* functions() {
    static constexpr xrt_engine_executable_functions kTable = {
        .size = sizeof(xrt_engine_executable_functions),
        .info = [](const void* self) { return &of(self).table_; },
        .create_context =
            [](const void* self, void** context, xrt_engine_error* error) {
              return guard(error,
                           [&] { *context = of(self).executable_->create_context().release(); });
            },
        .destroy_context = [](void* context) { delete static_cast<RunContext*>(context); },
        .run =
            [](const void* self, void* context, xrt_engine_run* run, xrt_engine_error* error) {
              return guard(error, [&] {
                of(self).executable_->run(RunArgs(host(), run, static_cast<RunContext*>(context)));
              });
            },
        .serialize =
            [](const void* self, xrt_engine_writer to, std::int32_t* can, xrt_engine_error* error) {
              return guard(error, [&] {
                const std::optional<std::string> blob = of(self).executable_->serialize();
                *can = blob ? 1 : 0;
                if (blob) to.write(to.self, blob->data(), blob->size());
              });
            },
        .destroy = [](const void* self) { delete static_cast<const ExecutableTable*>(self); },
    };
    return &kTable;
  }

  std::shared_ptr<const Executable> executable_;
  ExecutableInfo info_;
  std::vector<xrt_engine_text> remarks_;
  xrt_engine_executable_info table_ = {};
};

// An engine behind the table.
class EngineTable {
 public:
  static void give(std::shared_ptr<const Engine> engine, xrt_engine_library* to) {
    to->major = XRT_ENGINE_VERSION_MAJOR;
    to->minor = XRT_ENGINE_VERSION_MINOR;
    to->self = new EngineTable(std::move(engine));
    to->functions = functions();
  }

 private:
  explicit EngineTable(std::shared_ptr<const Engine> engine)
      : engine_(std::move(engine)), info_(engine_->info()) {}
  static const EngineTable& of(const void* self) { return *static_cast<const EngineTable*>(self); }

  static Function function_of(const xrt_engine_function* from) {
    Function to{string(from->name), GraphView(host(), from->graph)};
    for (std::size_t i = 0; i < from->alias_count; ++i) {
      to.aliases.push_back({from->aliases[i].input, from->aliases[i].output});
    }
    to.to_onnx = [from](std::size_t inline_limit) {
      std::string bytes;
      const xrt_engine_writer writer = {&bytes, [](void* self, const void* data, std::size_t size) {
                                          static_cast<std::string*>(self)->append(
                                              static_cast<const char*>(data), size);
                                        }};
      const xrt_engine_status status = host()->function_onnx(from->onnx, inline_limit, writer);
      if (status != 0) throw Error(static_cast<ErrorCode>(status - 1), bytes);
      return bytes;
    };
    return to;
  }
  static CompileOptions options_of(const xrt_engine_compile_options* from) {
    CompileOptions to;
    to.device = string(from->device);
    to.precision = static_cast<Precision>(from->precision);
    to.phase = static_cast<Phase>(from->phase);
    to.num_threads = from->num_threads;
    for (std::size_t i = 0; i < from->option_count; ++i) {
      to.engine_options.emplace(string(from->option_names[i]), string(from->option_values[i]));
    }
    to.max_workspace_bytes = from->max_workspace_bytes;
    to.max_batch_size = from->max_batch_size;
    to.records_dir = string(from->records_dir);
    to.progress = [given = from->progress](std::string_view what, double part) {
      if (host()->progress(given, text(what), part) != 0) {
        throw Error(ErrorCode::kEngine, "the compilation was cancelled");
      }
    };
    return to;
  }

  void answer(const xrt_engine_query* query, xrt_engine_answers* answers) const {
    SupportQuery question{
        GraphView(host(), query->graph),
        {query->node},
        string(query->device),
        static_cast<Phase>(query->phase),
        {query->mutable_inputs, query->mutable_inputs + query->mutable_input_count}};
    const auto give = [&](std::int32_t node, const Support& support) {
      host()->answer(answers, node, support ? 1 : 0, text(support.reason()));
    };
    if (query->node >= 0) {
      give(query->node, engine_->supports(question));
      return;
    }
    const std::vector<Support> all = engine_->supports_all(question);
    for (std::size_t i = 0; i < all.size(); ++i) give(static_cast<std::int32_t>(i), all[i]);
  }

  static const xrt_engine_functions* functions() {
    static constexpr xrt_engine_functions kTable = {
        .size = sizeof(xrt_engine_functions),
        .info = [](const void* self) { return of(self).info_.get(); },
        .supports =
            [](const void* self, const xrt_engine_query* query, xrt_engine_answers* answers,
               xrt_engine_error* error) {
              return guard(error, [&] { of(self).answer(query, answers); });
            },
        .compile =
            [](const void* self, const xrt_engine_function* function,
               const xrt_engine_compile_options* options, xrt_engine_executable* executable,
               xrt_engine_error* error) {
              return guard(error, [&] {
                ExecutableTable::give(
                    of(self).engine_->compile(function_of(function), options_of(options)),
                    executable);
              });
            },
        .load =
            [](const void* self, const xrt_engine_tensor* blob, const xrt_engine_function* function,
               const xrt_engine_compile_options* options, xrt_engine_executable* executable,
               xrt_engine_error* error) {
              return guard(error, [&] {
                ExecutableTable::give(
                    of(self).engine_->load(TensorView(host(), blob), function_of(function),
                                           options_of(options)),
                    executable);
              });
            },
        .ops =
            [](const void* self, void* to, void (*add)(void* to, xrt_engine_text op),
               xrt_engine_error* error) {
              return guard(error, [&] {
                for (const std::string& op : of(self).engine_->ops()) add(to, text(op));
              });
            },
        .destroy = [](const void* self) { delete static_cast<const EngineTable*>(self); },
    };
    return &kTable;
  }

  std::shared_ptr<const Engine> engine_;
  InfoTable info_;
};

// What a library's entry does.
template <typename Make>
xrt_engine_status enter(const xrt_engine_host* table, xrt_engine_library* library,
                        xrt_engine_error* error, Make&& make) {
  host() = table;
  return guard(error, [&] { EngineTable::give(make(), library); });
}

}  // namespace border
}  // namespace XRT_ENGINE_NAMESPACE
}  // namespace xrt

// Makes a library of the engine: `...` is its class, whose constructor takes nothing.
#define XRT_ENGINE(...)                                                                    \
  extern "C" __attribute__((visibility("default"))) xrt_engine_status xrt_engine_entry(    \
      const xrt_engine_host* host, xrt_engine_library* library, xrt_engine_error* error) { \
    return ::xrt::border::enter(host, library, error,                                      \
                                [] { return std::make_shared<const __VA_ARGS__>(); });     \
  }
