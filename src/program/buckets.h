// SPDX-License-Identifier: Apache-2.0
// Few sizes for engines that compile for one size each: what comes is padded to the next larger one
// of a range, and the results are cut back. Only along dimensions of which passes/row_wise.h shows
// that no row of the results changes by it. Rows that are added repeat the last one, so that they
// hold nothing that the model could not meet.
//
// Thread-safety: constant once made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "options/sizes.h"
#include "program/plan_cache.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

// A run with padded inputs.
class PaddedRun {
 public:
  struct Cut {
    int axis = -1;  // of an output; -1: it is whole
    std::int64_t size = 0;
  };
  PaddedRun(std::vector<Data> inputs, std::vector<Cut> cuts)
      : inputs_(std::move(inputs)), cuts_(std::move(cuts)) {}

  std::span<const Data> inputs() const { return inputs_; }
  // Puts what the run gave into the caller's outputs: into their memory, where they have some.
  // kInvalidArgument where that is of another shape, by the names of `ports`.
  void deliver(std::span<const Data> results, std::span<Data> outputs,
               const std::vector<Port>& ports) const;

 private:
  std::vector<Data> inputs_;
  std::vector<Cut> cuts_;  // by output
};

class Buckets {
 public:
  // `graph`: the program's with open dimensions that have names; `ranges`: those to be padded in.
  // Null where the graph is not row-wise in any of them; `why_not` says why.
  static std::unique_ptr<Buckets> of(const Graph& graph, const std::vector<NamedRange>& ranges,
                                     std::string& why_not);
  // Nothing where these inputs are to run as they are.
  std::optional<PaddedRun> pad(std::span<const Data> inputs,
                               const std::vector<NamedRange>& ranges) const;
  // The size that `size` is padded to: a power of two times the least one, the usual or the most.
  static std::int64_t bucket_of(std::int64_t size, const NamedRange& range);

 private:
  struct Rows {
    std::string dimension;
    std::vector<int> inputs, outputs;  // axes; -1: none
  };
  std::vector<Rows> rows_;
};

}  // namespace xrt
