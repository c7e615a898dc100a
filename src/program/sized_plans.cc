// SPDX-License-Identifier: Apache-2.0
#include "program/sized_plans.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "base/log.h"
#include "device/caller_stream.h"
#include "exec/native_evaluator.h"
#include "ops/shape_inference.h"
#include "passes/pass_manager.h"
#include "placement/estimates.h"
#include "registry/engine_manifest.h"
#include "registry/engine_names.h"
#include "xrt/registry.h"

namespace xrt {

std::shared_ptr<const Graph> specialised(const Graph& general,
                                         const std::vector<std::optional<Type>>& types,
                                         const ProgramOptions& options) {
  auto graph = std::make_shared<Graph>(general);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i]) graph->set_type(graph->inputs()[i], *types[i]);
  }
  infer_shapes(*graph, /*reset=*/true);
  PassOptions passes;
  passes.evaluate = native_evaluator();
  passes.dump_dir = options.dump_dir;
  run_passes(*graph, passes);
  return graph;
}

namespace {

bool takes_any_size(const std::string& engine) {
  return engine == kRuntimeEngine || get_engine(engine)->info().shapes == Shapes::kAny;
}

bool gains_from_fixed_sizes(const std::string& engine) {
  return engine != kRuntimeEngine && engine_manifest(engine).gains_from_fixed_sizes;
}

}  // namespace

SizedPlans::SizedPlans(PlanSource program, const ProgramPorts& ports,
                       std::shared_ptr<PlanCache> cache)
    : program_(std::move(program)),
      options_(*program_.options),
      ports_(ports),
      cache_(std::move(cache)),
      starts_open_(is_to_start_open()) {
  if (starts_open_) seen_ = declared_sizes();
}

bool SizedPlans::is_to_start_open() const {
  if (is_auto(options_) || options_.training || !declared_sizes()) return false;
  std::vector<std::string> engines = options_.engines;
  for (const auto& [node, engine] : options_.node_engines) engines.push_back(engine);
  if (!std::all_of(engines.begin(), engines.end(), takes_any_size)) return false;
  // At the end of a list it gets what is left over.
  if (engines.size() > 1 && engines.back() == kFallbackEngine) engines.pop_back();
  return has_range() || std::none_of(engines.begin(), engines.end(), gains_from_fixed_sizes);
}

std::optional<SizedPlans::Sizes> SizedPlans::declared_sizes() const {
  Sizes sizes;
  for (const Port& port : ports_.inputs) {
    if (!port.type.is_tensor()) {
      sizes.push_back(kNoTensor);
      continue;
    }
    if (!port.type.has_rank()) return std::nullopt;
    sizes.push_back(static_cast<std::int64_t>(port.type.rank()));
    for (const Dim& dim : *port.type.shape) sizes.push_back(dim.is_known() ? dim.value() : kOpen);
  }
  return sizes;
}

// Engines of the host take any size; those that build for a range are of accelerators.
bool SizedPlans::has_range() const {
  return options_.max_batch_size > 0 && options_.device != "cpu";
}

void SizedPlans::prepare() {
  // The sizes that a range leaves open come with the first run.
  if (!starts_open_ || has_range()) return;
  Claim claimed = claim(*declared_sizes());
  const auto plan = build_claimed(claimed, {});
  const std::lock_guard lock(mutex_);
  last_ = plan;
}

std::shared_ptr<ServedPlan> SizedPlans::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

SizedPlans::Sizes SizedPlans::sizes_of(std::span<const Data> inputs) {
  Sizes sizes;
  for (const Data& data : inputs) {
    if (!data.is_tensor()) {
      sizes.push_back(kNoTensor);
      continue;
    }
    const Dims& dims = data.tensor().dims();
    sizes.push_back(static_cast<std::int64_t>(dims.size()));
    sizes.insert(sizes.end(), dims.begin(), dims.end());
  }
  return sizes;
}

bool SizedPlans::is_open(const Sizes& sizes) {
  return std::find(sizes.begin(), sizes.end(), kOpen) != sizes.end();
}

bool SizedPlans::covers(const Sizes& plan, const Sizes& given) {
  return std::equal(plan.begin(), plan.end(), given.begin(), given.end(),
                    [](std::int64_t p, std::int64_t g) { return p == g || p == kOpen; });
}

std::optional<SizedPlans::Sizes> SizedPlans::common(const Sizes& a, const Sizes& b) {
  if (a.size() != b.size()) return std::nullopt;
  Sizes sizes = a;
  for (std::size_t i = 0; i < a.size();) {
    if (a[i] != b[i]) return std::nullopt;  // another rank
    const std::int64_t rank = std::max<std::int64_t>(a[i++], 0);
    for (std::int64_t d = 0; d < rank; ++d, ++i) {
      if (a[i] != b[i]) sizes[i] = kOpen;
    }
  }
  return sizes;
}

std::shared_ptr<ServedPlan> SizedPlans::plan_for(std::span<const Data> inputs) {
  const Sizes sizes = sizes_of(inputs);
  for (;;) {
    Claim claimed = claim(sizes);
    const auto plan = claimed.is_mine ? build_claimed(claimed, inputs) : claimed.plan.get();
    if (plan == nullptr) continue;  // dimensions cannot be left open
    const std::lock_guard lock(mutex_);
    last_ = plan;
    if (!is_open(claimed.sizes)) last_fixed_ = plan;
    return plan;
  }
}

// Null where a plan with open dimensions cannot be had; whoever waits for it is told the same.
std::shared_ptr<ServedPlan> SizedPlans::build_claimed(Claim& claim, std::span<const Data> inputs) {
  try {
    std::shared_ptr<ServedPlan> plan = build(claim.sizes, inputs);
    claim.promise.set_value(plan);
    return plan;
  } catch (...) {  // handed on to whoever waits for this plan, and rethrown here
    forget(claim.sizes);
    if (!stays_fixed_after(claim.sizes)) {
      claim.promise.set_exception(std::current_exception());
      throw;
    }
    claim.promise.set_value(nullptr);
    return nullptr;
  }
}

// For the exception at hand: whether it is of the plan with open dimensions, so that one with fixed
// sizes may do better. Then there will be no other attempt.
bool SizedPlans::stays_fixed_after(const Sizes& sizes) {
  if (!is_open(sizes)) return false;
  try {
    throw;
  } catch (const Error& error) {
    const std::array of_sizes{ErrorCode::kUnsupported, ErrorCode::kEngine, ErrorCode::kInvalidModel,
                              ErrorCode::kNotFound};  // "auto" finds no engine
    if (std::find(of_sizes.begin(), of_sizes.end(), error.code()) == of_sizes.end()) return false;
    log_info("each set of shapes is compiled for: " + std::string(error.what()));
    const std::lock_guard lock(mutex_);
    why_fixed_ = error.what();
    return true;
  } catch (...) {  // rethrown by the caller
    return false;
  }
}

// Finds the plan for these sizes, or enters one that the caller is to build.
SizedPlans::Claim SizedPlans::claim(const Sizes& sizes) {
  Claim claim;
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(fixed_.begin(), fixed_.end(), [&](const Entry& e) { return e.sizes == sizes; });
  if (found != fixed_.end()) {
    fixed_.splice(fixed_.begin(), fixed_, found);
    claim.sizes = found->sizes;
    claim.plan = found->plan;
    return claim;
  }
  if (open_ && covers(open_->sizes, sizes)) {
    claim.sizes = open_->sizes;
    claim.plan = open_->plan;
    return claim;
  }
  std::optional<Sizes> seen = seen_ ? common(*seen_, sizes) : sizes;
  claim.is_mine = true;
  claim.plan = claim.promise.get_future().share();
  if (seen && is_open(*seen) && may_stay_open()) {
    claim.sizes = *seen;
    open_ = Entry{claim.sizes, claim.plan};
  } else {
    claim.sizes = sizes;
    fixed_.push_front({claim.sizes, claim.plan});
    ++sets_;
    if (fixed_.size() > static_cast<std::size_t>(options_.max_specializations)) fixed_.pop_back();
  }
  if (seen) seen_ = std::move(seen);
  return claim;
}

// Whether a plan with open dimensions is to serve the next set of shapes. With the lock held.
bool SizedPlans::may_stay_open() const {
  const std::size_t enough =
      std::min(kFixedSets, static_cast<std::size_t>(options_.max_specializations));
  if (!why_fixed_.empty()) return false;
  if (starts_open_) return true;
  if (options_.training || sets_ < enough || last_fixed_ == nullptr) return false;
  for (const auto& [node, engine] : options_.node_engines) {
    if (!takes_any_size(engine)) return false;
  }
  // On the host it finds an engine that does.
  if (is_auto(options_) && options_.device == "cpu") return true;
  const Explanation explanation = last_fixed_->explain();
  return std::all_of(explanation.launches.begin(), explanation.launches.end(),
                     [](const auto& launch) { return takes_any_size(launch.engine); });
}

void SizedPlans::forget(const Sizes& sizes) {
  const std::lock_guard lock(mutex_);
  fixed_.remove_if([&](const Entry& entry) { return entry.sizes == sizes; });
  if (open_ && open_->sizes == sizes) open_.reset();
}

std::vector<std::optional<Type>> SizedPlans::types_of(const Sizes& sizes) const {
  std::vector<std::optional<Type>> types(ports_.inputs.size());
  for (std::size_t i = 0, at = 0; i < types.size(); ++i) {
    const Type& declared = ports_.inputs[i].type;
    const auto rank = static_cast<std::size_t>(std::max<std::int64_t>(sizes[at++], 0));
    Shape shape;
    for (std::size_t d = 0; d < rank; ++d, ++at) {
      if (sizes[at] != kOpen) {
        shape.emplace_back(sizes[at]);
      } else if (declared.has_rank() && (*declared.shape)[d].is_symbol()) {
        shape.push_back((*declared.shape)[d]);
      } else {
        // A name lets passes and engines see which sizes are equal.
        shape.emplace_back(ports_.inputs[i].name + "[" + std::to_string(d) + "]");
      }
    }
    if (declared.is_tensor()) types[i] = Type::tensor(declared.dtype, std::move(shape));
  }
  return types;
}

std::shared_ptr<ServedPlan> SizedPlans::build(const Sizes& sizes, std::span<const Data> inputs) {
  // Measuring reads them.
  if (CallerStream* stream = CallerStream::current()) stream->wait();
  const std::vector<std::optional<Type>> types = types_of(sizes);
  PlanSource source = program_;
  source.graph = [graph = program_.graph, options = program_.options, types] {
    return specialised(*graph(), types, *options);
  };
  std::string shapes;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i]) shapes += " " + ports_.inputs[i].name + " " + to_string(*types[i]);
  }
  {
    const std::lock_guard lock(mutex_);
    if (is_open(sizes)) {
      source.note = "this plan serves all sizes of its open dimensions:" + shapes;
      if (last_fixed_ != nullptr) source.like = last_fixed_->decision();
    } else if (!why_fixed_.empty()) {
      source.note = "each set of shapes is compiled for: " + why_fixed_;
    }
  }
  if (!is_open(sizes)) warn_of_larger_batch(inputs);
  if (cache_ != nullptr) {
    source.forget = [cache = cache_, sizes] { cache->forget_shapes(sizes); };
    if (std::optional<Plan> draft = cache_->find_shapes(sizes)) {
      return ServedPlan::of(*draft, std::move(source));
    }
  }
  log_debug("planning '" + program_.graph()->name() + "' for" + shapes);
  if (cache_ == nullptr) return ServedPlan::build(std::move(source), inputs);
  Plan draft;
  auto plan = ServedPlan::build(std::move(source), inputs, &draft);
  cache_->keep_shapes(sizes, std::move(draft));
  return plan;
}

// A batch beyond max_batch_size costs a compilation: worth a word, once.
void SizedPlans::warn_of_larger_batch(std::span<const Data> inputs) {
  if (options_.max_batch_size == 0) return;
  for (const Data& data : inputs) {
    if (!data.is_tensor() || data.tensor().rank() == 0) continue;
    const std::int64_t batch = data.tensor().dims()[0];
    if (batch <= options_.max_batch_size || warned_.exchange(true)) continue;
    log_warning("a batch of " + std::to_string(batch) + " came, max_batch_size is " +
                std::to_string(options_.max_batch_size) + ": functions are compiled anew for it");
  }
}

}  // namespace xrt
