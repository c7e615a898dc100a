// SPDX-License-Identifier: Apache-2.0
// The plans of a program whose inputs have dimensions that only a run knows.
//
// The first sets of input shapes get a plan each in which every size is fixed: that is the fastest
// code, and shape sub-graphs fold away. Where further sets come, compiling for each would cost more
// than it gains: one plan that leaves those dimensions open that were seen to change serves all
// that follow. If another dimension changes later, a plan with that one open too takes its place.
//
// An open plan needs engines that take any size. Where one with static shapes has work, each set
// has a plan of its own; where a range is given, and rows do not mix (program/buckets.h), each of a
// few sizes has one, which inputs are padded to. Plans of fixed sizes are kept as long as they are
// among the newest max_specializations, and together hold few bytes. Where all engines that the
// user named gain nothing from fixed sizes (registry/engine_manifest.h), or ranges are given, there
// is one open plan from the start. Its engines are told the ranges; a size outside of one makes the
// range larger, once for many sizes, and the plan is built anew.
//
// Thread-safety: all functions may be called at once.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "options/sizes.h"
#include "program/buckets.h"
#include "program/plan_cache.h"
#include "program/served_plan.h"
#include "xrt/graph.h"
#include "xrt/options.h"

namespace xrt {

// The graph for one set of input types, simplified; an input without one keeps its own.
std::shared_ptr<const Graph> specialised(const Graph& general,
                                         const std::vector<std::optional<Type>>& types,
                                         const ProgramOptions& options);

class SizedPlans {
 public:
  // Sets of shapes that get a plan each before dimensions are left open.
  static constexpr std::size_t kFixedSets = 2;

  // `program`: where the graph is the program's after passes; its other members are those of all
  // plans. `ports` outlive the object; `cache` may be null.
  SizedPlans(PlanSource program, const ProgramPorts& ports, std::shared_ptr<PlanCache> cache);

  // Makes the open plan where there is to be one from the start: what is wrong with it is told when
  // the program is loaded, and no run waits for it.
  void prepare();
  // Inputs that are to be padded; their plan is plan_for() those of the result.
  std::optional<PaddedRun> padded(std::span<const Data> inputs);
  // The plan that serves inputs of these shapes, which are complete and checked. Several threads
  // that want the same plan build it once.
  std::shared_ptr<ServedPlan> plan_for(std::span<const Data> inputs);
  // The plan used last; null before the first run.
  std::shared_ptr<ServedPlan> last() const;

 private:
  // The shapes of all inputs of one run: the rank and the sizes of each tensor, kNoTensor for what
  // is none. Of a plan: kOpen for a size that it leaves open.
  using Sizes = std::vector<std::int64_t>;
  using Future = std::shared_future<std::shared_ptr<ServedPlan>>;
  static constexpr std::int64_t kNoTensor = -1;
  static constexpr std::int64_t kOpen = -3;

  struct Entry {
    Sizes sizes;
    Future plan;            // null: such a plan cannot be built
    std::size_t bytes = 0;  // that it holds; 0 before it is built
    pid_t process = ::getpid();

    // Whose thread builds the plan is the parent of this process, which fork() made: it never
    // comes.
    bool is_of_parent() const;
  };
  struct Claim {
    Sizes sizes;
    Future plan;
    std::promise<std::shared_ptr<ServedPlan>> promise;
    bool is_mine = false;  // to be built by who got the claim
  };

  static Sizes sizes_of(std::span<const Data> inputs);
  // All that are declared; nothing where the rank of an input is not.
  std::optional<Sizes> declared_sizes() const;
  bool is_to_start_open() const;
  // Whether each size that is no number has a range.
  bool all_have_ranges() const;
  // Sizes outside of a range: it grows, with one warning, and the open plan is to be built anew.
  void grow_ranges(std::span<const Data> inputs);
  // What is built, for the disk cache: the sizes, and the ranges of those that are open.
  Sizes key_of(const Sizes& sizes, const std::vector<NamedRange>& ranges) const;
  // For "auto": who would run the program at the usual sizes.
  std::optional<Decision> decide_at_usual_sizes(const std::vector<NamedRange>& ranges) const;
  static bool is_open(const Sizes& sizes);
  static bool covers(const Sizes& plan, const Sizes& given);
  // What the two have in common, kOpen where sizes differ; nothing where ranks do.
  static std::optional<Sizes> common(const Sizes& a, const Sizes& b);

  void prepare_buckets();
  // `stays_fixed`: for these sizes alone. No range has a size of 0, which engines are not bound to
  // take where they take a range.
  Claim claim(const Sizes& sizes, bool stays_fixed = false);
  // Lets plans of fixed sizes go that are too many, or too large together. With the lock held.
  // They are the caller's, to end without it: what an engine does then takes long.
  [[nodiscard]] std::list<Entry> make_room();
  // What another thread builds, within the time of this one.
  static std::shared_ptr<ServedPlan> wait_for(const Claim& claim);
  std::shared_ptr<ServedPlan> build_claimed(Claim& claim, std::span<const Data> inputs);
  bool stays_fixed_after(const Sizes& sizes);
  bool may_stay_open() const;
  void forget(const Sizes& sizes);
  std::shared_ptr<ServedPlan> build(const Sizes& sizes, std::span<const Data> inputs);
  std::string note_of(const Sizes& sizes, const std::vector<NamedRange>& ranges) const;
  std::vector<std::optional<Type>> types_of(const Sizes& sizes) const;

  PlanSource program_;
  const ProgramOptions& options_;
  const ProgramPorts& ports_;
  std::shared_ptr<PlanCache> cache_;
  // Dimensions of inputs that have a range: which input, which dimension, which of ranges_.
  struct RangedDim {
    std::size_t input, position, range;
  };
  std::vector<RangedDim> ranged_;
  const bool starts_open_;
  std::unique_ptr<const Buckets> buckets_;  // null: nothing is padded
  std::string why_no_buckets_;

  mutable ForkMutex mutex_;
  std::vector<NamedRange> ranges_;
  bool told_of_growth_ = false;
  std::list<Entry> fixed_;     // most recently used first
  std::optional<Entry> open_;  // the newest
  std::optional<Sizes> seen_;  // what all sets so far have in common
  std::size_t sets_ = 0;       // that were given a fixed plan
  std::string why_fixed_;      // why an open plan could not be built; empty if it could
  std::shared_ptr<ServedPlan> last_, last_fixed_;
};

}  // namespace xrt
