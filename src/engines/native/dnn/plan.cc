// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <unordered_map>

#include "base/at_fork.h"
#include "base/fork_mutex.h"
#include "engines/native/kernels/common/convert.h"

namespace xrt::native::dnn {

using dnnl::memory;

namespace {

// Trained weights that decayed to denormal numbers make every product with them over ten times as
// slow; what they add is below 1.2e-38 times an activation.
void flush_denormals(float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (std::fpclassify(values[i]) == FP_SUBNORMAL) values[i] = 0;
  }
}

// What tells one layout from another, as text; empty for one that only oneDNN knows.
std::string layout_of(const memory::desc& desc) {
  if (desc.get_format_kind() != memory::format_kind::blocked) return {};
  std::string text = std::to_string(static_cast<int>(desc.get_data_type()));
  for (const memory::dims& list :
       {desc.get_dims(), desc.get_padded_dims(), desc.get_padded_offsets(), desc.get_strides(),
        desc.get_inner_blks(), desc.get_inner_idxs()}) {
    text += ' ' + to_string(std::span<const std::int64_t>(list));
  }
  return text;
}

}  // namespace

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine = [] {
    // Layers of one graph share code by it. Left alone it keeps 1,024 primitives, of some hundred
    // KiB each, that nobody may ever ask for again.
    dnnl::set_primitive_cache_capacity(256);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

void rethrow(const dnnl::error& error) {
  if (error.status == dnnl_invalid_arguments) {
    throw Error(
        ErrorCode::kInvalidArgument,
        std::string("its operands' sizes do not go together (oneDNN: ") + error.what() + ")");
  }
  const ErrorCode code =
      error.status == dnnl_out_of_memory ? ErrorCode::kResource : ErrorCode::kEngine;
  throw Error(code, std::string("oneDNN: ") + error.what());
}

Support computes(DType dtype) {
  if (dtype == DType::kFloat32) return Support::yes();
  if (dtype == DType::kBFloat16) {
    constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
    static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    if ((isa & kNeeded) == kNeeded) return Support::yes();
    return Support::no("oneDNN computes bfloat16 only on CPUs with AVX-512");
  }
  return Support::no("oneDNN computes float32 and bfloat16 here, not " +
                     std::string(to_string(dtype)));
}

memory::data_type data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return memory::data_type::f32;
    case DType::kBFloat16:
      return memory::data_type::bf16;
    case DType::kFloat16:
      return memory::data_type::f16;
    case DType::kInt32:
      return memory::data_type::s32;
    case DType::kInt8:
      return memory::data_type::s8;
    case DType::kUInt8:
      return memory::data_type::u8;
    default:
      throw Error(ErrorCode::kInternal, "no oneDNN data type for " + std::string(to_string(dtype)));
  }
}

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(dims[i], 1);
  }
  return strides;
}

memory::desc plain_desc(const Dims& dims, DType dtype, bool channels_last) {
  const std::size_t rank = dims.size();
  if (rank == 0) return memory::desc({1}, data_type(dtype), {1});
  if (!channels_last || rank < 3) {
    return memory::desc(dims, data_type(dtype), row_major_strides(dims));
  }
  Dims physical{dims[0]};
  physical.insert(physical.end(), dims.begin() + 2, dims.end());
  physical.push_back(dims[1]);
  const Dims s = row_major_strides(physical);
  Dims strides{s[0], s[rank - 1]};
  strides.insert(strides.end(), s.begin() + 1, s.end() - 1);
  return memory::desc(dims, data_type(dtype), strides);
}

bool is_reference(const char* implementation) {
  return std::strncmp(implementation, "ref", 3) == 0 ||
         std::strncmp(implementation, "simple:any", 10) == 0;
}

dnnl::fpmath_mode fpmath_mode(const CompileOptions& options) {
  if (options.precision == Precision::kF32) return dnnl::fpmath_mode::strict;
  if (options.precision == Precision::kBF16) return dnnl::fpmath_mode::bf16;
  throw Error(ErrorCode::kInvalidArgument, "native: it computes in f32 or bf16, not in " +
                                               std::string(to_string(options.precision)));
}

dnnl::primitive_attr base_attributes(dnnl::fpmath_mode mode) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(mode);
  return attributes;
}

Operand Plan::input(std::size_t i, memory::desc desc) {
  return {.kind = Operand::Kind::kInput, .index = i, .desc = std::move(desc)};
}

Operand Plan::output(std::size_t i, memory::desc desc) {
  return {.kind = Operand::Kind::kOutput, .index = i, .desc = std::move(desc)};
}

Operand Plan::constant(std::shared_ptr<const PackedWeights> weights) {
  Operand operand{.kind = Operand::Kind::kConstant,
                  .data = weights->memory.get_data_handle(),
                  .desc = weights->memory.get_desc()};
  weights_.push_back(std::move(weights));
  return operand;
}

Operand Plan::temporary(memory::desc desc) {
  Operand operand{
      .kind = Operand::Kind::kTemporary, .index = temporary_bytes_, .desc = std::move(desc)};
  temporary_bytes_ += (operand.desc.get_size() + 63) / 64 * 64;
  return operand;
}

Operand Plan::reordered(const Operand& operand, const memory::desc& desc) {
  if (operand.desc == desc) return operand;
  Operand copy = temporary(desc);
  add_reorder(operand, copy);
  return copy;
}

void Plan::add_reorder(const Operand& from, const Operand& to) {
  const dnnl::reorder::primitive_desc pd(cpu_engine(), from.desc, cpu_engine(), to.desc,
                                         base_attributes());
  add(dnnl::reorder(pd), pd.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
      pd.impl_info_str());
}

void Plan::add(const dnnl::primitive& primitive, const memory::desc& scratchpad,
               std::vector<Argument> arguments, std::string implementation) {
  Step step{.primitive = primitive,
            .arguments = std::move(arguments),
            .scratchpad = scratchpad,
            .implementation = std::move(implementation)};
  step.has_scratchpad = scratchpad.get_size() > 0;
  scratchpad_bytes_ = std::max(scratchpad_bytes_, (scratchpad.get_size() + 63) / 64 * 64);
  steps_.push_back(std::move(step));
}

void Plan::set_output(std::size_t i, DType dtype, Dims dims) {
  if (outputs_.size() <= i) outputs_.resize(i + 1);
  outputs_[i] = {.dtype = dtype, .dims = std::move(dims)};
}

void Plan::check_inputs(std::span<const Dims> inputs) const {
  const auto check = [&](std::size_t i, std::int64_t wanted) {
    if (element_count(inputs[i]) >= wanted) return;
    throw Error(ErrorCode::kInvalidArgument, "input " + std::to_string(i) + " is " +
                                                 to_string(inputs[i]) + ", where " +
                                                 std::to_string(wanted) + " elements are wanted");
  };
  for (const Output& output : outputs_) {
    if (output.start < 0) continue;
    check(static_cast<std::size_t>(output.start), element_count(output.dims));
  }
  for (const Step& step : steps_) {
    for (const auto& [id, operand] : step.arguments) {
      if (operand.kind != Operand::Kind::kInput) continue;
      const std::size_t width = memory::data_type_size(operand.desc.get_data_type());
      check(operand.index, static_cast<std::int64_t>(operand.desc.get_size() / width));
    }
  }
}

std::size_t Plan::weight_bytes() const {
  std::size_t bytes = 0;
  for (const auto& w : weights_) bytes += w->bytes();
  return bytes;
}

bool Plan::reads_input(std::size_t i) const {
  for (const Output& output : outputs_) {
    if (output.start == static_cast<std::int64_t>(i)) return true;
  }
  for (const Step& step : steps_) {
    for (const Argument& argument : step.arguments) {
      if (argument.operand.kind == Operand::Kind::kInput && argument.operand.index == i) {
        return true;
      }
    }
  }
  return false;
}

std::string Plan::describe() const {
  std::string text;
  for (const Step& step : steps_) {
    if (!text.empty()) text += " + ";
    text += step.implementation;
  }
  return text;
}

std::vector<Plan::Bound> Plan::take_bound() const {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      std::vector<Bound> bound = std::move(spare_.back());
      spare_.pop_back();
      return bound;
    }
  }
  std::vector<Bound> all;
  for (const Step& step : steps_) {
    Bound& bound = all.emplace_back();
    for (const Argument& argument : step.arguments) {
      void* data =
          argument.operand.kind == Operand::Kind::kConstant ? argument.operand.data : nullptr;
      bound.memories.emplace_back(argument.operand.desc, cpu_engine(), data);
      bound.arguments.push_back({argument.id, bound.memories.back().get()});
    }
    if (step.has_scratchpad) {
      bound.memories.emplace_back(step.scratchpad, cpu_engine(), nullptr);
      bound.arguments.push_back({DNNL_ARG_SCRATCHPAD, bound.memories.back().get()});
    }
  }
  return all;
}

void Plan::give_back(std::vector<Bound> bound) const {
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(bound));
}

Plan::State::State() : stream_(cpu_engine()) {}

Plan::State::~State() {
  if (plan_ != nullptr) plan_->give_back(std::move(steps_));
}

void Plan::State::bind(std::shared_ptr<const Plan> plan, std::vector<Dims> dims) {
  if (plan_ != plan) {
    std::vector<Bound> steps = plan->take_bound();
    if (plan_ != nullptr) plan_->give_back(std::move(steps_));
    steps_ = std::move(steps);
    plan_ = std::move(plan);
  }
  dims_ = std::move(dims);
}

void Plan::run(State& state, KernelContext& context) const {
  void* outputs[4] = {};
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].dtype == DType::kUndefined) continue;
    Tensor& output = context.output(i, outputs_[i].dtype, outputs_[i].dims);
    outputs[i] = output.raw();
    if (outputs_[i].zero) std::memset(output.raw(), 0, output.bytes());
    if (outputs_[i].start >= 0) {
      const Tensor& start = context.input(static_cast<std::size_t>(outputs_[i].start));
      if (start.raw() != output.raw()) std::memcpy(output.raw(), start.raw(), output.bytes());
    }
  }
  std::byte* scratch = temporary_bytes_ + scratchpad_bytes_ == 0
                           ? nullptr
                           : context.scratch(temporary_bytes_ + scratchpad_bytes_);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    Bound& bound = state.steps_[i];
    std::size_t m = 0;
    for (const Argument& argument : step.arguments) {
      void* data = nullptr;
      switch (argument.operand.kind) {
        case Operand::Kind::kInput:
          data = const_cast<void*>(context.input(argument.operand.index).raw());
          break;
        case Operand::Kind::kOutput:
          data = outputs[argument.operand.index];
          break;
        case Operand::Kind::kTemporary:
          data = scratch + argument.operand.index;
          break;
        case Operand::Kind::kConstant:
        case Operand::Kind::kNone:
          ++m;
          continue;
      }
      dnnl_memory_set_data_handle(bound.memories[m++].get(), data);
    }
    if (step.has_scratchpad) {
      dnnl_memory_set_data_handle(bound.memories[m].get(), scratch + temporary_bytes_);
    }
    const dnnl_status_t status =
        dnnl_primitive_execute(step.primitive.get(), state.stream_.get(),
                               static_cast<int>(bound.arguments.size()), bound.arguments.data());
    if (status != dnnl_success) {
      throw Error(ErrorCode::kEngine, "oneDNN: " + step.implementation + " failed with status " +
                                          std::to_string(status));
    }
  }
}

namespace {

// Whether the inputs of this run have these shapes; what is left out has none.
bool has_dims(const KernelContext& context, const std::vector<Dims>& dims) {
  if (dims.size() != context.input_count()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (context.has_input(i) ? context.input(i).dims() != dims[i] : !dims[i].empty()) return false;
  }
  return true;
}

}  // namespace

void PlanKernel::run(KernelContext& context) const {
  auto& state = context.state<Plan::State>();
  if (fixed_) {
    if (!state.plan()) guarded([&] { state.bind(fixed_, {}); });
    fixed_->run(state, context);
    return;
  }
  guarded([&] {
    if (!state.plan() || !has_dims(context, state.dims())) {
      std::vector<Dims> dims(context.input_count());
      for (std::size_t i = 0; i < dims.size(); ++i) {
        if (context.has_input(i)) dims[i] = context.input(i).dims();
      }
      std::shared_ptr<const Plan> plan = plan_for(dims);
      state.bind(std::move(plan), std::move(dims));
    }
    state.plan()->run(state, context);
  });
}

std::unique_ptr<KernelState> PlanKernel::make_state() const {
  return guarded([&] { return std::make_unique<Plan::State>(); });
}

std::size_t PlanKernel::weight_bytes() const {
  if (fixed_) return fixed_->weight_bytes();
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const Packed& p : packed_) {
    if (const auto weights = p.weights.lock()) bytes += weights->bytes();
  }
  return bytes;
}

void PlanKernel::prepare(const KernelCreateContext& context) {
  std::vector<Dims> dims;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has_input(i)) {
      dims.emplace_back();
      continue;
    }
    const Tensor* constant = context.constant_input(i);
    const std::optional<Dims> known =
        constant != nullptr ? constant->dims() : context.input_type(i).static_dims();
    if (!known) return;
    dims.push_back(*known);
  }
  stored_ = context.stored_weights();
  context.threads()->execute([&] {
    const NoForkScope scope;  // the library's cache of primitives has a lock
    fixed_ = guarded([&] { return checked_plan(dims); });
  });
  stored_ = nullptr;
  drop_sources();
}

bool PlanKernel::reads_input(std::size_t i) const { return !fixed_ || fixed_->reads_input(i); }

void PlanKernel::save(FlatWriter& writer) const {
  if (!saves_weights()) {
    writer.number(0);
    return;
  }
  writer.number(static_cast<std::int64_t>(fixed_->weights().size()));
  for (const auto& weights : fixed_->weights()) {
    writer.text(layout_of(weights->memory.get_desc()));
    writer.bytes({static_cast<const char*>(weights->memory.get_data_handle()), weights->bytes()});
  }
}

bool PlanKernel::saves_weights() const {
  return fixed_ != nullptr &&
         std::none_of(fixed_->weights().begin(), fixed_->weights().end(), [](const auto& weights) {
           return layout_of(weights->memory.get_desc()).empty();
         });
}

std::string PlanKernel::describe() const { return fixed_ ? fixed_->describe() : std::string(); }

std::shared_ptr<const Plan> PlanKernel::checked_plan(std::span<const Dims> dims) const {
  std::shared_ptr<const Plan> plan = make_plan(dims);
  plan->check_inputs(dims);
  return plan;
}

std::shared_ptr<const Plan> PlanKernel::plan_for(const std::vector<Dims>& dims) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = plans_.find(dims);
    if (found != plans_.end()) {
      found->second.used = ++uses_;
      return found->second.plan;
    }
  }
  const NoForkScope scope;  // the library's cache of primitives has a lock
  std::shared_ptr<const Plan> plan = checked_plan(dims);
  const std::lock_guard lock(mutex_);
  plans_.insert_or_assign(dims, Cached{plan, ++uses_});
  // Plans of other sizes may want other layouts of the weights: a few of them are kept.
  constexpr std::size_t kMostLayouts = 4;
  const auto held_bytes = [&] {
    std::set<const PackedWeights*> held;
    std::size_t bytes = 0;
    for (const auto& [sizes, cached] : plans_) {
      for (const auto& weights : cached.plan->weights()) {
        if (held.insert(weights.get()).second) bytes += weights->bytes();
      }
    }
    return bytes;
  };
  while (plans_.size() > kMaximumPlans ||
         (plans_.size() > 1 && held_bytes() > kMostLayouts * plan->weight_bytes())) {
    plans_.erase(std::min_element(plans_.begin(), plans_.end(), [](const auto& a, const auto& b) {
      return a.second.used < b.second.used;
    }));
  }
  return plan;
}

namespace {

// What kernels of the process packed and still use. Plans of one model for other sizes have the
// same constants: they share what was made of them.
class PackedStore {
 public:
  static PackedStore& process() {
    static PackedStore store;
    return store;
  }

  std::shared_ptr<const PackedWeights> find(const Tensor& source, const memory::desc& from,
                                            const memory::desc& wanted) const {
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = entries_.equal_range(source.raw());
    for (auto it = begin; it != end; ++it) {
      const Entry& entry = it->second;
      // Memory that another tensor has now is none of the one that was packed.
      const bool is_source =
          !entry.source.owner_before(source.owner()) && !source.owner().owner_before(entry.source);
      if (!is_source || entry.from != from || entry.wanted != wanted) continue;
      if (auto weights = entry.weights.lock()) return weights;
    }
    return nullptr;
  }

  void add(const Tensor& source, const memory::desc& from, const memory::desc& wanted,
           const std::shared_ptr<const PackedWeights>& weights) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= sweep_at_) {
      std::erase_if(entries_, [](const auto& entry) { return entry.second.weights.expired(); });
      sweep_at_ = 2 * entries_.size() + kFirstSweep;
    }
    entries_.emplace(source.raw(), Entry{source.owner(), from, wanted, weights});
  }

 private:
  struct Entry {
    std::weak_ptr<const void> source;
    memory::desc from, wanted;
    std::weak_ptr<const PackedWeights> weights;
  };
  static constexpr std::size_t kFirstSweep = 64;

  mutable ForkMutex mutex_;
  std::unordered_multimap<const void*, Entry> entries_;  // by the address of the elements
  std::size_t sweep_at_ = kFirstSweep;
};

}  // namespace

std::shared_ptr<const PackedWeights> PlanKernel::packed(std::size_t slot, const Tensor& source,
                                                        const memory::desc& from,
                                                        const memory::desc& wanted) const {
  const std::lock_guard lock(mutex_);
  for (const Packed& p : packed_) {
    if (p.slot != slot || p.desc != wanted) continue;
    if (auto weights = p.weights.lock()) return weights;
  }
  auto weights = std::make_shared<PackedWeights>();
  if (stored_ != nullptr && !stored_->empty()) {
    weights->stored = stored_->take(layout_of(wanted), wanted.get_size());
    weights->memory = memory(wanted, cpu_engine(), weights->stored.raw());
    packed_.push_back({slot, wanted, weights});
    return weights;
  }
  if (source.bytes() < from.get_size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "input " + std::to_string(slot) + " is " + to_string(source.dims()) + ", where " +
                    std::to_string(from.get_size() / memory::data_type_size(from.get_data_type())) +
                    " elements are wanted");
  }
  std::erase_if(packed_, [](const Packed& p) { return p.weights.expired(); });
  if (auto shared = PackedStore::process().find(source, from, wanted)) {
    packed_.push_back({slot, wanted, shared});
    return shared;
  }
  weights->memory = memory(wanted, cpu_engine());
  // The library converts half precision only on processors that compute with it.
  const bool is_half = from.get_data_type() == memory::data_type::f16 ||
                       from.get_data_type() == memory::data_type::bf16;
  const Tensor numbers = is_half ? converted(source, DType::kFloat32) : source;
  const memory::desc numbers_from =
      is_half ? memory::desc(from.get_dims(), memory::data_type::f32, from.get_strides()) : from;
  memory plain(numbers_from, cpu_engine(), const_cast<void*>(numbers.raw()));
  dnnl::stream stream(cpu_engine());
  dnnl::reorder(plain, weights->memory).execute(stream, plain, weights->memory);
  stream.wait();
  // A format that only oneDNN knows has more than numbers in it.
  if (wanted.get_data_type() == memory::data_type::f32 &&
      wanted.get_format_kind() == memory::format_kind::blocked) {
    flush_denormals(static_cast<float*>(weights->memory.get_data_handle()),
                    wanted.get_size() / sizeof(float));
  }
  PackedStore::process().add(source, from, wanted, weights);
  packed_.push_back({slot, wanted, weights});
  return weights;
}

}  // namespace xrt::native::dnn
