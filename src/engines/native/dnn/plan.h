// SPDX-License-Identifier: Apache-2.0
// Plans: oneDNN primitives bound to the inputs and outputs of one kernel.
//
// A Plan is made for concrete shapes and never changes. It is a list of primitives; each argument
// is an input or output of the kernel, a constant (packed weights) or a temporary in the kernel's
// scratch memory. What one run needs (memory handles) is a Plan::State, one per context.
//
// Every call of oneDNN happens inside guarded(), which turns its exceptions into xrt::Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fork_mutex.h"
#include "engines/native/kernel.h"
#include "xrt/error.h"
#include "xrt/tensor.h"

namespace xrt::native::dnn {

// The process's CPU engine of oneDNN.
const dnnl::engine& cpu_engine();

[[noreturn]] void rethrow(const dnnl::error& error);

template <typename F>
decltype(auto) guarded(F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const dnnl::error& error) {
    rethrow(error);
  }
}

// Of float32, bfloat16, float16, int32, int8 and uint8.
dnnl::memory::data_type data_type(DType dtype);

// Whether this machine's oneDNN computes convolutions and products of `dtype`: float32 always,
// bfloat16 from AVX-512 on.
Support computes(DType dtype);

// Dense memory of `dims` = (batch, channels, spatial …), row-major in that order, or with the
// channels last: (batch, spatial …, channels).
dnnl::memory::desc plain_desc(const Dims& dims, DType dtype, bool channels_last = false);
// Row-major strides of `dims`, in elements.
Dims row_major_strides(const Dims& dims);

// True where an implementation is oneDNN's plain reference loop.
bool is_reference(const char* implementation);

// kBF16: factors of convolutions and products are rounded to bfloat16 where the CPU multiplies
// those, sums stay in float32. Throws kInvalidArgument for a precision but this and kF32.
dnnl::fpmath_mode fpmath_mode(const CompileOptions& options);

// Attributes that every primitive is made with: scratchpad from the caller, strict arithmetic
// unless `mode` allows less.
dnnl::primitive_attr base_attributes(dnnl::fpmath_mode mode = dnnl::fpmath_mode::strict);

struct Operand {
  enum class Kind : std::uint8_t { kNone, kInput, kOutput, kConstant, kTemporary };
  Kind kind = Kind::kNone;
  std::size_t index = 0;  // input or output; offset in scratch for a temporary
  void* data = nullptr;   // constant
  dnnl::memory::desc desc;
};

// Weights in the layout that a primitive wants, with the memory they own.
struct PackedWeights {
  dnnl::memory memory;
  Tensor stored;  // where they lie in a blob: its memory
  std::size_t bytes() const { return memory.get_desc().get_size(); }
};

class Plan {
 public:
  struct Argument {
    int id;
    Operand operand;
  };

  // --- building -------------------------------------------------------------------------------
  static Operand input(std::size_t i, dnnl::memory::desc desc);
  static Operand output(std::size_t i, dnnl::memory::desc desc);
  Operand constant(std::shared_ptr<const PackedWeights> weights);
  Operand temporary(dnnl::memory::desc desc);
  // `operand` in the layout `desc`: itself, or a temporary filled by a reorder.
  Operand reordered(const Operand& operand, const dnnl::memory::desc& desc);
  void add_reorder(const Operand& from, const Operand& to);
  void add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
           std::vector<Argument> arguments, std::string implementation);
  void set_output(std::size_t i, DType dtype, Dims dims);
  // The output is zero before the first primitive.
  void zero_output(std::size_t i) { outputs_.at(i).zero = true; }

  // The output holds the i-th input's elements before the first primitive: it lies in that input's
  // memory, or they are copied.
  void start_from(std::size_t output, std::size_t input) {
    outputs_.at(output).start = static_cast<std::int64_t>(input);
  }

  // Throws kInvalidArgument where a primitive would read more of an input than it has elements at
  // these sizes. The library has only the descriptors of its memory to go by.
  void check_inputs(std::span<const Dims> inputs) const;

  // --- running --------------------------------------------------------------------------------
  class State;
  void run(State& state, KernelContext& context) const;
  std::size_t weight_bytes() const;
  bool reads_input(std::size_t i) const;
  const std::vector<std::shared_ptr<const PackedWeights>>& weights() const { return weights_; }
  // Names of the implementations, for the profile.
  std::string describe() const;

 private:
  struct Step {
    dnnl::primitive primitive;
    std::vector<Argument> arguments;
    bool has_scratchpad = false;
    dnnl::memory::desc scratchpad;
    std::string implementation;
  };
  struct Output {
    DType dtype = DType::kUndefined;
    Dims dims;
    bool zero = false;
    std::int64_t start = -1;
  };
  // Memory objects of one step, for one run at a time.
  struct Bound {
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
  };

  std::vector<Bound> take_bound() const;
  void give_back(std::vector<Bound> bound) const;

  std::vector<Step> steps_;
  std::vector<Output> outputs_;
  std::vector<std::shared_ptr<const PackedWeights>> weights_;
  std::size_t temporary_bytes_ = 0;
  std::size_t scratchpad_bytes_ = 0;
  mutable ForkMutex mutex_;
  mutable std::vector<std::vector<Bound>> spare_;  // by step; of contexts that run another plan now
};

// Memory objects of one context for the plan it ran last.
class Plan::State final : public KernelState {
 public:
  State();
  ~State() override;
  // `dims`: the shapes of the kernel's inputs that the plan was made for.
  void bind(std::shared_ptr<const Plan> plan, std::vector<Dims> dims);
  const std::shared_ptr<const Plan>& plan() const { return plan_; }
  const std::vector<Dims>& dims() const { return dims_; }

 private:
  friend class Plan;
  std::shared_ptr<const Plan> plan_;
  std::vector<Dims> dims_;
  std::vector<Bound> steps_;
  dnnl::stream stream_;
};

// A kernel whose plan depends on nothing but the shapes of its inputs. Where they are known when
// the kernel is made, so is the plan; else plans are made when shapes are met and kMaximumPlans are
// kept, those used last. Plans share their weights, which are packed once for each layout.
class PlanKernel : public Kernel {
 public:
  static constexpr std::size_t kMaximumPlans = 64;

  explicit PlanKernel(KernelTraits traits) : Kernel(std::move(traits)) {}

  void run(KernelContext& context) const final;
  std::unique_ptr<KernelState> make_state() const final;
  std::size_t weight_bytes() const final;
  bool reads_input(std::size_t i) const final;
  bool saves_weights() const final;
  void save(FlatWriter& writer) const final;
  std::string describe() const final;

  // Called once after construction; makes the plan if every input's shape is static.
  void prepare(const KernelCreateContext& context);

 protected:
  // `inputs`: concrete dimensions per input; empty for one that is left out.
  virtual std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const = 0;

  // The plan is made and there will be no other: sources of packed weights can go.
  virtual void drop_sources() {}

  // The weights in the layout `wanted`, packed on first demand and shared by plans. Throws
  // kInvalidArgument where `source` has fewer elements than `from` describes.
  std::shared_ptr<const PackedWeights> packed(std::size_t slot, const Tensor& source,
                                              const dnnl::memory::desc& from,
                                              const dnnl::memory::desc& wanted) const;
  // A vector as it is.
  Operand packed_vector(Plan& plan, std::size_t slot, const Tensor& values) const {
    const dnnl::memory::desc desc = plain_desc(values.dims(), values.dtype());
    return plan.constant(packed(slot, values, desc, desc));
  }

 private:
  std::shared_ptr<const Plan> plan_for(const std::vector<Dims>& dims) const;
  std::shared_ptr<const Plan> checked_plan(std::span<const Dims> dims) const;

  struct Cached {
    std::shared_ptr<const Plan> plan;
    std::uint64_t used = 0;
  };
  struct Packed {
    std::size_t slot;
    dnnl::memory::desc desc;
    std::weak_ptr<const PackedWeights> weights;
  };
  std::shared_ptr<const Plan> fixed_;
  StoredWeights* stored_ = nullptr;  // during prepare() only
  mutable ForkMutex mutex_;
  mutable std::map<std::vector<Dims>, Cached> plans_;  // by the shapes of the inputs
  mutable std::uint64_t uses_ = 0;
  mutable std::vector<Packed> packed_;
};

// Makes a kernel of type K from `context` and prepares it.
template <typename K, typename... Args>
std::unique_ptr<Kernel> make_plan_kernel(const KernelCreateContext& context, Args&&... args) {
  return guarded([&]() -> std::unique_ptr<Kernel> {
    auto kernel = std::make_unique<K>(std::forward<Args>(args)...);
    kernel->prepare(context);
    return kernel;
  });
}

}  // namespace xrt::native::dnn
