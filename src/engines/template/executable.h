// SPDX-License-Identifier: Apache-2.0
// A compiled function: a list of steps over numbered slots. Immutable; what a run needs is in its
// Context, made by the runtime once per concurrent run.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lowering.h"
#include "xrt/engine.h"

namespace xrt::template_engine {

class TemplateExecutable final : public Executable {
 public:
  explicit TemplateExecutable(const Function& function);

  // Kernels run in the caller's thread alone. An engine that uses CompileOptions::num_threads per
  // run leaves `threads` as it is; one whose runs share a pool names it.
  ExecutableInfo info() const override {
    return {.workspace_bytes = scratch_bytes(), .threads = 1};
  }
  std::unique_ptr<RunContext> create_context() const override;
  void run(const RunArgs& args) const override;
  // The steps are made again from the graph when it is loaded: there is nothing but a mark to keep.
  std::optional<std::string> serialize() const override { return std::string(kMark); }

  static constexpr std::string_view kMark = "template engine, format 2";

 private:
  // Of every value.
  struct Slot {
    DType dtype = DType::kUndefined;
    Dims dims;
    std::size_t bytes() const;
  };
  struct Step {
    Kernel kernel;
    std::vector<std::size_t> from, to;  // slots
  };
  class Context;

  // Whether the output may be computed right into the memory of the input that it is aliased to.
  static bool can_write_over(const GraphView& graph, ValueId input, ValueId output);
  std::size_t scratch_bytes() const;

  std::vector<Slot> slots_;
  std::vector<std::size_t> inputs_, outputs_;
  std::vector<std::pair<std::size_t, std::shared_ptr<const TensorView>>> constants_;
  std::vector<Step> steps_;
  std::vector<std::size_t> temporaries_;  // slots that live in the context
  // Outputs that lie in an input's memory and must not be written before all steps have run.
  std::vector<bool> aside_;
  std::size_t workspace_ = 0;  // bytes, the most that one step wants
};

}  // namespace xrt::template_engine
