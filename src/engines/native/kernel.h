// SPDX-License-Identifier: Apache-2.0
// Kernels of the native engine: what computes one node.
//
// A kernel is made once, when a function is compiled: it reads the node's attributes and prepares
// what constant inputs allow (packed weights, axes). run() is const and may be called by several
// threads at once; what one run needs for itself is in the KernelContext.
//
//   registry.add({.op = "Relu",
//                 .supports = [](const NodeView& n) { return n.check_input(0, kFloatTypes); },
//                 .create = [](const KernelCreateContext&) {
//                   return make_kernel([](KernelContext& k) {
//                     const Tensor& x = k.input(0);
//                     Tensor& y = k.output(0, x.dtype(), x.dims());
//                     …
//                   }, {.in_place = {0}});
//                 }});
//
// Errors thrown by a kernel need not name the node: the executable adds name and op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engines/native/dtype_set.h"
#include "engines/native/stored_weights.h"
#include "engines/native/threads.h"
#include "xrt/engine.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt::native {

class NativeContext;
class KernelRegistry;

// One node and the types around it, for supports() and create(). Valid during the call only.
class NodeView {
 public:
  NodeView(const Graph& graph, NodeId id) : graph_(graph), node_(graph.node(id)), id_(id) {}

  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  NodeId id() const { return id_; }

  std::size_t input_count() const { return node_.inputs.size(); }
  std::size_t output_count() const { return node_.outputs.size(); }
  bool has_input(std::size_t i) const { return node_.input(i).valid(); }
  bool has_output(std::size_t i) const { return node_.output(i).valid(); }
  // An undefined tensor type where the input or output is left out.
  const Type& input_type(std::size_t i) const;
  const Type& output_type(std::size_t i) const;
  DType input_dtype(std::size_t i) const { return input_type(i).dtype; }
  DType output_dtype(std::size_t i) const { return output_type(i).dtype; }
  // The input's value if it is known before the run, else null.
  const Tensor* constant_input(std::size_t i) const;

  // A no if the input is given and its dtype is known and not in `set`, or if it is no tensor.
  Support check_input(std::size_t i, DTypeSet set) const;
  Support check_output(std::size_t i, DTypeSet set) const;

 private:
  const Graph& graph_;
  const Node& node_;
  NodeId id_;
};

// What one context keeps for one kernel between runs (scratchpads, contexts of loop bodies).
class KernelState {
 public:
  virtual ~KernelState() = default;
};

// What run() reads and writes. Made by the executable, one per context; never kept by a kernel.
class KernelContext {
 public:
  std::size_t input_count() const { return input_count_; }
  // False where an optional input is left out.
  bool has_input(std::size_t i) const { return i < input_count_ && input_slots_[i] >= 0; }
  // Throws kInvalidArgument if the input is left out or is no tensor.
  const Tensor& input(std::size_t i) const;
  const Data& input_data(std::size_t i) const;
  // Null where the input is left out.
  const Tensor* optional_input(std::size_t i) const { return has_input(i) ? &input(i) : nullptr; }

  // A handle that may outlive the run: copied if its memory is the caller's.
  Data owned_input(std::size_t i) const;
  // The same, and the value itself where nothing else reads it in this run: once, and after all
  // else that the kernel reads.
  Data taken_input(std::size_t i) const;
  // Whether its memory is the caller's.
  bool is_borrowed(std::size_t i) const;

  std::size_t output_count() const { return output_count_; }
  bool wants_output(std::size_t i) const { return i < output_count_ && output_slots_[i] >= 0; }
  // Memory for the i-th output: the caller's tensor, the planned place in the arena, or new
  // memory. It is uninitialised (strings are empty). For an output that is left out: memory
  // that is thrown away. A size beyond the machine's memory is kResource.
  Tensor& output(std::size_t i, DType dtype, const Dims& dims);
  // The i-th output has the elements of an input under another shape. It shares that input's
  // memory where the plan allows, else it is copied. Needs KernelTraits::view_of.
  void output_view(std::size_t i, std::size_t input, const Dims& dims);
  // Hands over a value of any kind. Needs KernelTraits::allocates = false.
  void set_output(std::size_t i, Data data);

  // fn(begin, end) over parts of [0, n), at least `grain` each (but the last), on this engine's
  // threads; inline where one part is all.
  template <typename F>
  void parallel_for(std::int64_t n, std::int64_t grain, F&& fn) const {
    threads_->parallel_for(n, grain, std::forward<F>(fn));
  }
  int num_threads() const { return threads_->count(); }
  const Threads& threads() const { return *threads_; }

  // 64-byte aligned memory for the duration of this kernel's run; a second call within one run
  // invalidates the first.
  std::byte* scratch(std::size_t bytes);

  // What Kernel::make_state() made for this context.
  template <typename T>
  T& state() const {
    return static_cast<T&>(*state_);
  }

 private:
  friend class NativeContext;
  friend class NativeExecutable;

  NativeContext* owner_ = nullptr;
  const Threads* threads_ = nullptr;
  const std::int32_t* input_slots_ = nullptr;
  const std::int32_t* output_slots_ = nullptr;
  const std::uint8_t* last_uses_ = nullptr;  // by input
  std::size_t input_count_ = 0;
  std::size_t output_count_ = 0;
  KernelState* state_ = nullptr;
};

// What the plan needs to know about a kernel.
struct KernelTraits {
  // Output 0 may overwrite any one of these inputs if dtype, size and lifetime allow: the kernel
  // reads element i of it before it writes element i, and the shapes are equal.
  std::vector<int> in_place = {};
  // Output 0 is output_view() of this input.
  int view_of = -1;
  // False: the kernel calls set_output(); its outputs get no planned memory.
  bool allocates = true;
  // True: handles of the inputs may live on in the outputs (sequences, optionals, loops).
  bool retains_inputs = false;
  // True: run() calls a library that uses the threads of the arena it is called in (oneDNN).
  bool uses_arena = false;
  // True: any output may lie in the memory of any input of its shape: element i of all inputs is
  // read before element i of any output is written.
  bool overwrites = false;
};

class Kernel {
 public:
  explicit Kernel(KernelTraits traits = {}) : traits_(std::move(traits)) {}
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  virtual void run(KernelContext& context) const = 0;
  virtual std::unique_ptr<KernelState> make_state() const { return nullptr; }
  // Bytes of weights that the kernel holds for itself.
  virtual std::size_t weight_bytes() const { return 0; }
  // False: run() never reads the i-th input (it was packed), so its constant need not be kept.
  virtual bool reads_input(std::size_t /*i*/) const { return true; }
  // True: constants that run() does not read are not wanted again, save() writes what was made of
  // them and a later KernelCreateContext::stored_weights() gives it back.
  virtual bool saves_weights() const { return false; }
  virtual void save(FlatWriter& writer) const { writer.number(0); }
  // What computes, for profiles: the name of a library's implementation, or nothing.
  virtual std::string describe() const { return {}; }
  const KernelTraits& traits() const { return traits_; }

 private:
  KernelTraits traits_;
};

template <typename F>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(F function, KernelTraits traits)
      : Kernel(std::move(traits)), function_(std::move(function)) {}
  void run(KernelContext& context) const override { function_(context); }

 private:
  F function_;
};

// A kernel from a callable `void(KernelContext&) const`.
template <typename F>
std::unique_ptr<Kernel> make_kernel(F function, KernelTraits traits = {}) {
  return std::make_unique<FunctionKernel<F>>(std::move(function), std::move(traits));
}

class KernelCreateContext : public NodeView {
 public:
  KernelCreateContext(const Graph& graph, NodeId id, const KernelRegistry& registry,
                      const CompileOptions& options, std::shared_ptr<const Threads> threads,
                      StoredWeights* stored_weights = nullptr)
      : NodeView(graph, id),
        registry_(registry),
        options_(options),
        threads_(std::move(threads)),
        stored_weights_(stored_weights) {}

  const CompileOptions& options() const { return options_; }
  const std::shared_ptr<const Threads>& threads() const { return threads_; }
  // What save() of the same kernel wrote, where the function comes from a blob; else null. Then the
  // constants that it replaces have shapes but no elements.
  StoredWeights* stored_weights() const { return stored_weights_; }
  // Compiles a body. Its inputs are graph.inputs() followed by the inner values of captures().
  // KernelContext has what the bodies capture as further inputs after the node's own, body by body
  // in the order of Graph::subgraphs().
  std::shared_ptr<const Executable> compile_body(const Graph& body) const;

 private:
  const KernelRegistry& registry_;
  const CompileOptions& options_;
  std::shared_ptr<const Threads> threads_;
  StoredWeights* stored_weights_;
};

// One way to compute an op. Of the definitions of one op the first that supports a node is used.
struct KernelDef {
  std::string domain = {};
  std::string op;
  // Higher is asked first; among equals the one registered first.
  int priority = 0;
  // Absent: yes to every node.
  std::function<Support(const NodeView&)> supports = {};
  std::function<std::unique_ptr<Kernel>(const KernelCreateContext&)> create;
};

class KernelRegistry {
 public:
  void add(KernelDef def);
  // Null, with the reasons in `*reason` if given, where no definition takes the node.
  const KernelDef* find(const NodeView& node, std::string* reason = nullptr) const;
  // Qualified names, sorted.
  std::vector<std::string> ops() const;

 private:
  std::map<std::pair<std::string, std::string>, std::vector<KernelDef>, std::less<>> defs_;
};

}  // namespace xrt::native
