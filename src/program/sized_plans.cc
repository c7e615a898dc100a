// SPDX-License-Identifier: Apache-2.0
#include "program/sized_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/work_scope.h"
#include "device/caller_stream.h"
#include "exec/native_evaluator.h"
#include "ops/shape_inference.h"
#include "passes/pass_manager.h"
#include "placement/estimates.h"
#include "placement/survey.h"
#include "program/input_sizes.h"
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
  passes.evaluate = native_evaluator(options.max_memory_bytes);
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
      starts_open_(is_to_start_open()),
      ranges_(named_ranges(options_)) {
  if (starts_open_) seen_ = declared_sizes();
  for (std::size_t i = 0; i < ports_.inputs.size(); ++i) {
    const Port& port = ports_.inputs[i];
    for (std::size_t d = 0; d < port.type.rank(); ++d) {
      const Dim& dim = (*port.type.shape)[d];
      if (dim.is_known()) continue;
      const std::string name = dimension_name(port.name, d, dim);
      for (std::size_t r = 0; r < ranges_.size(); ++r) {
        if (ranges_[r].name == name) ranged_.push_back({i, d, r});
      }
    }
  }
}

bool SizedPlans::is_to_start_open() const {
  if (options_.training || !declared_sizes()) return false;
  // On the host it finds engines that take any size; it judges them by the usual one.
  if (is_auto(options_)) return options_.device == "cpu" && all_have_ranges();
  std::vector<std::string> engines = options_.engines;
  for (const auto& [node, engine] : options_.node_engines) engines.push_back(engine);
  if (!std::all_of(engines.begin(), engines.end(), takes_any_size)) return false;
  // At the end of a list it gets what is left over.
  if (engines.size() > 1 && engines.back() == kFallbackEngine) engines.pop_back();
  return !options_.ranges.empty() ||
         std::none_of(engines.begin(), engines.end(), gains_from_fixed_sizes);
}

bool SizedPlans::all_have_ranges() const {
  for (const Port& port : ports_.inputs) {
    for (std::size_t d = 0; d < port.type.rank(); ++d) {
      const Dim& dim = (*port.type.shape)[d];
      if (dim.is_known()) continue;
      if (!options_.ranges.contains(dimension_name(port.name, d, dim))) return false;
    }
  }
  return true;
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

void SizedPlans::prepare() {
  if (!starts_open_) return prepare_buckets();
  // Of accelerators, sizes that have no range come with the first run.
  if (options_.device != "cpu" && !all_have_ranges()) return;
  Claim claimed = claim(*declared_sizes());
  const auto plan = build_claimed(claimed, {});
  const std::lock_guard lock(mutex_);
  last_ = plan;
}

// Ranges, and an engine that builds for one size at a time.
void SizedPlans::prepare_buckets() {
  const bool may_pad =
      !ranges_.empty() && !options_.training && options_.aliases.empty() && !is_auto(options_);
  const std::optional<Sizes> declared = declared_sizes();
  if (!may_pad || !declared) return;
  const auto open = specialised(*program_.graph(), types_of(*declared), options_);
  buckets_ = Buckets::of(*open, ranges_, why_no_buckets_);
  if (!why_no_buckets_.empty()) log_info("sizes are not padded: " + why_no_buckets_);
  if (buckets_ == nullptr || !all_have_ranges()) return;
  Sizes usual = *declared;
  for (std::size_t i = 0, at = 0; i < ports_.inputs.size(); ++i) {
    const auto rank = static_cast<std::size_t>(std::max<std::int64_t>(usual[at++], 0));
    for (const RangedDim& dim : ranged_) {
      if (dim.input == i) usual[at + dim.position] = ranges_[dim.range].usual;
    }
    at += rank;
  }
  Claim claimed = claim(usual);
  const auto plan = build_claimed(claimed, {});
  const std::lock_guard lock(mutex_);
  last_ = last_fixed_ = plan;
}

std::optional<PaddedRun> SizedPlans::padded(std::span<const Data> inputs) {
  if (buckets_ == nullptr) return std::nullopt;
  grow_ranges(inputs);
  std::vector<NamedRange> ranges;
  {
    const std::lock_guard lock(mutex_);
    ranges = ranges_;
  }
  return buckets_->pad(inputs, ranges);
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
  if (!ranged_.empty()) grow_ranges(inputs);
  const bool is_empty = std::any_of(ranged_.begin(), ranged_.end(), [&](const RangedDim& dim) {
    const Data& data = inputs[dim.input];
    return data.is_tensor() && data.tensor().dims()[dim.position] == 0;
  });
  for (;;) {
    Claim claimed = claim(sizes, is_empty);
    const auto plan = claimed.is_mine ? build_claimed(claimed, inputs) : wait_for(claimed);
    if (plan == nullptr) continue;  // dimensions cannot be left open
    auto last = plan;
    auto last_fixed = plan;
    const std::lock_guard lock(mutex_);
    last_.swap(last);  // what was there goes after the lock
    if (!is_open(claimed.sizes)) last_fixed_.swap(last_fixed);
    return plan;
  }
}

std::shared_ptr<ServedPlan> SizedPlans::wait_for(const Claim& claim) {
  constexpr std::chrono::milliseconds kTurn{50};
  while (WorkScope::time_limit() != nullptr &&
         claim.plan.wait_for(kTurn) != std::future_status::ready) {
    throw_if_interrupted();
  }
  return claim.plan.get();
}

// Null where a plan with open dimensions cannot be had; whoever waits for it is told the same.
std::shared_ptr<ServedPlan> SizedPlans::build_claimed(Claim& claim, std::span<const Data> inputs) {
  try {
    std::shared_ptr<ServedPlan> plan = build(claim.sizes, inputs);
    claim.promise.set_value(plan);
    if (!is_open(claim.sizes)) {
      const std::size_t bytes = plan->held_bytes();
      std::list<Entry> gone;
      const std::lock_guard lock(mutex_);
      for (Entry& entry : fixed_) {
        if (entry.sizes == claim.sizes) entry.bytes = bytes;
      }
      gone = make_room();
    }
    return plan;
  } catch (...) {  // handed on to whoever waits for this plan, and rethrown here
    forget(claim.sizes);
    if (WorkScope::time_limit() != nullptr && WorkScope::time_limit()->is_over()) {
      claim.promise.set_value(nullptr);  // those who wait have a limit of their own
      throw;
    }
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

bool SizedPlans::Entry::is_of_parent() const {
  return plan.wait_for(std::chrono::seconds(0)) != std::future_status::ready &&
         process != ::getpid();
}

// Finds the plan for these sizes, or enters one that the caller is to build.
SizedPlans::Claim SizedPlans::claim(const Sizes& sizes, bool stays_fixed) {
  Claim claim;
  std::list<Entry> gone;
  std::optional<Entry> gone_open;
  const std::lock_guard lock(mutex_);
  fixed_.remove_if([](const Entry& entry) { return entry.is_of_parent(); });
  if (open_ && open_->is_of_parent()) open_.reset();
  const auto found =
      std::find_if(fixed_.begin(), fixed_.end(), [&](const Entry& e) { return e.sizes == sizes; });
  if (found != fixed_.end()) {
    fixed_.splice(fixed_.begin(), fixed_, found);
    claim.sizes = found->sizes;
    claim.plan = found->plan;
    return claim;
  }
  if (!stays_fixed && open_ && covers(open_->sizes, sizes)) {
    claim.sizes = open_->sizes;
    claim.plan = open_->plan;
    return claim;
  }
  std::optional<Sizes> seen = seen_ ? common(*seen_, sizes) : sizes;
  claim.is_mine = true;
  claim.plan = claim.promise.get_future().share();
  if (!stays_fixed && seen && is_open(*seen) && may_stay_open()) {
    claim.sizes = *seen;
    gone_open = std::exchange(open_, Entry{.sizes = claim.sizes, .plan = claim.plan});
  } else {
    claim.sizes = sizes;
    fixed_.push_front({.sizes = claim.sizes, .plan = claim.plan});
    ++sets_;
    gone = make_room();
  }
  if (seen) seen_ = std::move(seen);
  return claim;
}

std::list<SizedPlans::Entry> SizedPlans::make_room() {
  // Of what executables say that they hold: a few of the largest ones, and always a little.
  constexpr std::size_t kLargePlans = 4;
  constexpr std::size_t kLittle = std::size_t{256} << 20;
  std::size_t largest = 0;
  std::size_t bytes = 0;
  for (const Entry& entry : fixed_) {
    largest = std::max(largest, entry.bytes);
    bytes += entry.bytes;
  }
  const auto most = static_cast<std::size_t>(options_.max_specializations);
  std::list<Entry> gone;
  while (fixed_.size() > 1 &&
         (fixed_.size() > most || bytes > std::max(kLittle, kLargePlans * largest))) {
    bytes -= fixed_.back().bytes;
    gone.splice(gone.end(), fixed_, --fixed_.end());
  }
  return gone;
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

// What explain() says of the plan, before its input types. With the lock held.
std::string SizedPlans::note_of(const Sizes& sizes, const std::vector<NamedRange>& ranges) const {
  if (!is_open(sizes)) {
    return buckets_ == nullptr ? "this plan serves one set of sizes:"
                               : "this plan serves sizes up to these, to which inputs are padded:";
  }
  std::string bounds;
  for (const NamedRange& range : ranges) {
    bounds += fmt::format("{}{} from {} to {}", bounds.empty() ? "" : ", ", range.name, range.least,
                          range.most);
  }
  if (bounds.empty()) return "this plan serves all sizes of its open dimensions:";
  return "this plan serves a range of sizes, " + bounds + ":";
}

std::shared_ptr<ServedPlan> SizedPlans::build(const Sizes& sizes, std::span<const Data> inputs) {
  // Measuring reads them.
  if (CallerStream* stream = CallerStream::current()) stream->wait();
  const std::vector<std::optional<Type>> types = types_of(sizes);
  PlanSource source = program_;
  source.graph = [graph = program_.graph, options = program_.options, types] {
    return specialised(*graph(), types, *options);
  };
  source.is_open = is_open(sizes);
  std::string shapes;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i]) shapes += " " + ports_.inputs[i].name + " " + to_string(*types[i]);
  }
  std::vector<NamedRange> ranges;
  {
    const std::lock_guard lock(mutex_);
    ranges = ranges_;
    source.note = note_of(sizes, ranges) + shapes;
    if (is_open(sizes) && last_fixed_ != nullptr) source.like = last_fixed_->decision();
    if (!why_fixed_.empty()) source.note += "; each set of shapes is compiled for: " + why_fixed_;
  }
  if (OptionMap texts = to_option(ranges); texts != options_.ranges) {
    ProgramOptions own = options_;
    own.ranges = std::move(texts);
    source.options = std::make_shared<const ProgramOptions>(std::move(own));
  }
  if (is_auto(options_) && is_open(sizes) && starts_open_) {
    source.like = decide_at_usual_sizes(ranges);
  }
  const Sizes key = key_of(sizes, ranges);
  if (cache_ != nullptr) {
    source.forget = [cache = cache_, key] { cache->forget_shapes(key); };
    if (std::optional<Plan> draft = cache_->find_shapes(key)) {
      return ServedPlan::of(*draft, std::move(source));
    }
  }
  log_debug("planning '" + program_.graph()->name() + "' for" + shapes);
  if (cache_ == nullptr) return ServedPlan::build(std::move(source), inputs);
  Plan draft;
  auto plan = ServedPlan::build(std::move(source), inputs, &draft);
  cache_->keep_shapes(key, std::move(draft));
  return plan;
}

void SizedPlans::grow_ranges(std::span<const Data> inputs) {
  std::optional<Entry> gone;  // ends without the lock
  const std::lock_guard lock(mutex_);
  bool grown = false;
  for (const auto& [input, position, at] : ranged_) {
    if (!inputs[input].is_tensor()) continue;
    NamedRange& range = ranges_[at];
    const std::int64_t size = inputs[input].tensor().dims()[position];
    if (size == 0 || (size >= range.least && size <= range.most)) continue;
    // By so much that sizes which grow step by step are a few builds.
    const NamedRange old = range;
    if (size < range.least) range.least = 1;
    if (size > range.most) range.most = std::max(size, 2 * range.most);
    grown = true;
    const bool is_batch = position == 0 && size > old.most;
    const std::string what =
        is_batch ? fmt::format(
                       "Rebuild engine since the maximum batch size {} is less than the "
                       "input batch size {}",
                       old.most, size)
                 : fmt::format("a size of {} came for the dimension '{}', whose range is {} to {}",
                               size, range.name, old.least, old.most);
    const std::string then = fmt::format(
        ": functions are compiled anew for it, for sizes from {} to {} where they take a range",
        range.least, range.most);
    told_of_growth_ ? log_info(what + then) : log_warning(what + then);
    told_of_growth_ = true;
  }
  if (grown) open_.swap(gone);
}

SizedPlans::Sizes SizedPlans::key_of(const Sizes& sizes,
                                     const std::vector<NamedRange>& ranges) const {
  if (!is_open(sizes)) return sizes;
  Sizes key = sizes;
  for (const NamedRange& range : ranges) {
    key.insert(key.end(), {range.least, range.usual, range.most});
  }
  return key;
}

std::optional<Decision> SizedPlans::decide_at_usual_sizes(
    const std::vector<NamedRange>& ranges) const {
  std::vector<std::optional<Type>> types;
  for (const Port& port : ports_.inputs) {
    types.emplace_back();
    if (port.type.has_rank()) types.back() = port.type;
  }
  for (const auto& [input, position, at] : ranged_) {
    (*types[input]->shape)[position] = Dim(ranges[at].usual);
  }
  const std::shared_ptr<const Graph> graph = specialised(*program_.graph(), types, options_);
  Survey survey(*graph, options_);
  Decision decision = estimate(survey);
  decision.precision = options_.precision.value_or(Precision::kF32);
  return decision;
}

}  // namespace xrt
