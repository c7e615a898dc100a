// SPDX-License-Identifier: Apache-2.0
// From a function to a plan: nodes are grouped (groups.h), each group becomes steps.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/plan.h"
#include "xrt/engine.h"

namespace xrt::cuda {

// Of the one that is number `index` in its plan.
inline std::string kernel_name(std::size_t index) { return "k" + std::to_string(index); }

// Addresses that a kernel can take.
inline constexpr std::size_t kMostPointers = 24;
// Threads of a block, where nothing else speaks.
inline constexpr unsigned kThreads = 256;

struct PlanOptions {
  bool has_cublas = true, has_cudnn = true;
  int capability = 0;  // 90 for 9.0
  // Nodes that are computed by generated kernels although there is a library for them.
  std::set<std::string> generated = {};
  // Convolutions and products behind which the library computes nothing.
  std::set<std::string> unfused = {};
};

class Planner {
 public:
  Planner(const Function& function, PlanOptions options);
  // Throws kUnsupported for what supports() would have refused.
  Plan run();

  const GraphView& graph() const { return graph_; }
  const PlanOptions& options() const { return options_; }

  // --- what lowerings work with ---
  View view(ValueId value) const;  // as it lies
  bool has(ValueId value) const { return views_.contains(value); }
  View dense(ValueId value);  // row-major, copied where it lies otherwise
  View dense(const View& view);
  // One element at a time where the value is packed: a copy of its numbers.
  View plain(ValueId value);
  // Memory of a packed value from such a copy.
  View packed(const View& plain, DType dtype);
  // Memory for a value: row-major, or with axes in the given order, the last one running fastest.
  View temporary(DType dtype, const Dims& dims, const std::vector<std::size_t>& order = {});
  View temporary_for(ValueId value);
  void define(ValueId value, View view);
  // Whether a view is of a constant that the graph holds.
  bool is_constant(const View& view) const {
    return plan_.buffers[static_cast<std::size_t>(view.buffer)].constant != nullptr;
  }
  // The number that a value is, where it is a constant of one element.
  std::optional<std::string> scalar(ValueId value) const;

  // A kernel whose `body` finds its operands in p0, p1, … and its results in q0, q1, …: pointers to
  // their first elements. Equal kernels are written once.
  void kernel(const std::string& what, const Grid& grid, std::vector<View> reads,
              std::vector<View> writes, const std::string& body);
  // Of several that compute the same, as the grids and bodies go; those first that are held for the
  // fastest.
  struct KernelWay {
    Grid grid;
    std::string body;
  };
  // `library`: another way, which writes the same.
  void kernel(const std::string& what, const std::vector<KernelWay>& ways, std::vector<View> reads,
              std::vector<View> writes, std::optional<IntegerConvolution> library = {});
  // Code that kernels from now on call, written once.
  void define_code(const std::string& code);
  // One thread per element of `to`. `body` gets the names of its logical coordinates and gives the
  // statements that end in "q0[at] = …;".
  using Elementwise = std::function<std::string(const std::vector<std::string>& coordinates)>;
  void elementwise(const std::string& what, std::vector<View> reads, const View& to,
                   const Elementwise& body);
  // Of several results, which lie alike.
  void elementwise(const std::string& what, std::vector<View> reads, std::vector<View> results,
                   const Elementwise& body);
  void copy(const std::string& what, const View& from, const View& to);
  void step(Step step);

  // The node whose steps are being made, as errors name it.
  std::string what() const { return what_; }

 private:
  void bind_inputs();
  void bind_constant(ValueId value);
  void bind_outputs();

  const Function& function_;
  GraphView graph_;
  PlanOptions options_;
  Plan plan_;
  std::map<ValueId, View> views_;
  std::map<std::string, std::string> kernels_;  // body → name
  std::set<std::string> code_;                  // of define_code()
  std::string what_;
};

// The view with axes permuted.
View transposed(const View& view, const std::vector<std::size_t>& permutation);
// The same elements under other dimensions without moving any, where that can be.
std::optional<View> reshaped(const View& view, const Dims& dims);
// The view as an operand of a result of `dims`: missing and single axes repeat. Its axes are those
// of the result from `first` on, or the last ones.
View broadcast(const View& view, const Dims& dims, std::optional<std::size_t> first = {});

}  // namespace xrt::cuda
