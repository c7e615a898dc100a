// SPDX-License-Identifier: Apache-2.0
// A body of an If, Loop or Scan as a program of its own: what it captures are inputs like those
// that it declares, and it is partitioned and compiled like any graph, with the engines, overrides,
// threads and cache of the program around it.
//
// It is planned anew for each set of input shapes. Where carried values change their shapes again
// and again, compiling at every step would cost more than it gains: from the fifth set on, the
// dimensions that were seen to change are left open.
//
// Thread-safety: a Body is shared by all runs of its program; a BodyRun belongs to one run.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "base/per_process.h"
#include "exec/executor.h"
#include "exec/profiler.h"
#include "exec/run_record.h"
#include "xrt/explanation.h"
#include "xrt/graph.h"
#include "xrt/options.h"

namespace xrt {

class Body {
 public:
  // `graph` is detached (ir/extract.h). Its inputs' types say what is known before the first
  // run; where that is all, the body is compiled at once. `name` ("loop/body") precedes the names
  // of its nodes and functions in explanations, `scope` (with the names of the bodies around it) in
  // traces.
  Body(Graph graph, std::string name, const std::string& scope, ProgramOptions options);

  std::size_t input_count() const { return graph_.inputs().size(); }
  std::size_t output_count() const { return graph_.outputs().size(); }
  const Type& input_type(std::size_t i) const { return graph_.type(graph_.inputs()[i]); }
  const Type& output_type(std::size_t i) const { return graph_.type(graph_.outputs()[i]); }

  // Appends rows of the plan last used. Input i is called `input_names[i]` where that is not empty.
  void explain(const std::vector<std::string>& input_names, Explanation& to) const;
  std::size_t workspace_bytes() const;
  // Whether engines other than the fallback run something, or may where nothing is planned yet.
  bool has_checked_functions() const;

 private:
  friend class BodyRun;
  static constexpr std::int64_t kAny = -1;

  struct InputKind {
    DType dtype = DType::kUndefined;  // kUndefined: no tensor
    Dims dims;                        // kAny: any size
  };
  using Signature = std::vector<InputKind>;  // one per input

  struct Variant {
    Signature signature;
    std::shared_ptr<Executor> plan;
    bool fits(std::span<const Data> inputs) const;
  };

  void check_inputs(std::span<const Data> inputs) const;
  std::shared_ptr<const Variant> find_variant(std::span<const Data> inputs);
  std::shared_ptr<const Variant> variant_for(std::span<const Data> inputs);
  static Signature signature_of(std::span<const Data> inputs);
  // What all variants and these inputs have in common.
  Signature common_signature(std::span<const Data> inputs) const;
  std::shared_ptr<const Variant> build(Signature signature) const;
  std::shared_ptr<Executor> plan_for(const Signature& signature) const;

  Graph graph_;
  std::string name_, scope_;
  ProgramOptions options_;
  MemberPerProcess<std::mutex> turn_;  // of who builds one
  mutable ForkMutex mutex_;
  std::list<std::shared_ptr<const Variant>> variants_;  // most recently used first
};

// The iterations of one run: remembers the plan between them.
class BodyRun {
 public:
  // `record`, if given, gets what functions of engines other than the fallback read and wrote.
  BodyRun(Body& body, Profiler& profiler, RunRecord* record)
      : body_(body), profiler_(profiler), record_(record) {}
  // A tensor in `outputs` is an offer of memory, taken where dtype and shape are right.
  void operator()(std::span<const Data> inputs, std::span<Data> outputs);

 private:
  Body& body_;
  Profiler& profiler_;
  RunRecord* record_;
  std::shared_ptr<const Body::Variant> variant_;
};

}  // namespace xrt
