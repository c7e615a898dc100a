// SPDX-License-Identifier: Apache-2.0
// What a function of an engine that does not look at its values is given: operands that decide
// shapes or addresses hold what they must (ops/sizes/deciding_operands.h), and sizes that only a
// run knows agree, whoever would run it. A caller who sends what does not fit gets an error that
// names the node, instead of memory that is not the tensor's.
//
//   ValueChecks checks(graph);
//   if (checks.any()) checks.run(inputs);  // before the launch
//
// Sizes are judged by type inference, once per set of sizes: the sets that were right are kept.
// Values that the function computes from sizes alone (Shape, Gather, Concat, …) are followed as far
// as inference does; indices among them are computed. Tensors on a device are not looked at.
//
// An engine whose library may end the process (`crashes_on_values` in its manifest) is to see only
// what was judged: run() says where a set of sizes leaves values without elements, by whose number
// such libraries divide, or sizes that cannot be told. The function then runs elsewhere.
//
// Thread-safety: run() may be called at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "exec/least_memory.h"
#include "exec/least_time.h"
#include "ops/sizes/deciding_operands.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

// Throws kInvalidArgument where the sizes of a node's operands are known and disagree, and
// kResource where a value is known to have more than `most` bytes.
void check_sizes(const Graph& graph, std::size_t most);

class ValueChecks {
 public:
  enum class Judge : std::uint8_t {
    kKnown,   // what is wrong before any run; the engine judges values and all other sizes
    kEngine,  // judges sizes that only a run knows by itself
    kHere,
    kBounded,  // and holds all that only a run knows to bounds of memory and time
    kAll,      // and the engine is to see none that were not judged
  };

  // Of the function's graph, which runs on so many threads. No value that operands give a size may
  // have more than `most_bytes`, whoever judges. `tells_memory`: the engine bounds what it
  // allocates by itself.
  ValueChecks(std::shared_ptr<const Graph> function, Judge judge, std::size_t most_bytes,
              int threads, bool tells_memory);

  bool any() const { return !checks_.empty() || !wrong_.empty() || is_open_; }
  // Throws kInvalidArgument naming the node and what is wrong; kResource where a value of the
  // function would take more than a run may, or its arithmetic more time than is left. With kAll it
  // says why the engine is not to have these inputs; else nothing.
  std::optional<std::string> run(std::span<const Data> inputs) const;

 private:
  using Sizes = std::vector<std::int64_t>;
  // The sizes that each check holds its elements to, of one set of sizes of the inputs.
  struct Resolved {
    std::vector<std::optional<Sizes>> sizes;
    LeastTime least_time;
    LeastMemory least_memory;
    std::optional<std::string> unfit;  // why the engine is not to have them
  };

  struct Check {
    std::size_t input = 0;  // of the function
    NodeId node;
    DecidingOperand operand;
    std::optional<Sizes> sizes;  // nothing: they come with a run
    Tensor constant{};           // defined: it is no input that is checked
  };

  void add(NodeId id, const DecidingOperand& operand);
  bool has_open_sizes() const;
  void check(const Check& check, const Tensor& tensor, const std::optional<Sizes>& sizes) const;
  std::string place(NodeId id, const DecidingOperand& operand) const;
  // Appends what the sizes within the function follow from.
  void append_key(std::span<const Data> inputs, Sizes& key) const;
  std::shared_ptr<const Resolved> resolved(std::span<const Data> inputs) const;
  std::shared_ptr<const Resolved> infer(std::span<const Data> inputs) const;
  // Throws for indices that the function computes from sizes, at those of the graph's types.
  void check_sized(const Graph& graph) const;

  std::shared_ptr<const Graph> function_;
  const Judge judge_;
  const std::size_t most_bytes_;
  const int threads_;
  const bool tells_memory_;
  std::vector<Check> checks_;
  std::vector<SizedOperand> sized_;
  std::vector<bool> decides_shapes_;  // by input: its elements do
  bool is_open_ = false;              // sizes within the function are known only in a run
  std::string wrong_;                 // what is wrong with a constant; empty: nothing

  mutable ForkMutex mutex_;
  mutable std::map<Sizes, std::shared_ptr<const Resolved>> known_;
};

}  // namespace xrt
