// SPDX-License-Identifier: Apache-2.0
// A compiled function: a list of steps over numbered slots. Immutable; what a run needs is in its
// Context, made by the runtime once per concurrent run.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/template/lowering.h"
#include "xrt/engine.h"

namespace xrt::template_engine {

class TemplateExecutable final : public Executable {
 public:
  explicit TemplateExecutable(const Function& function);

  std::unique_ptr<RunContext> create_context() const override;
  void run(RunContext* context, std::span<const Data> inputs, std::span<Data> outputs,
           const RunOptions& options) const override;
  // The steps are made again from the graph when it is loaded: there is nothing but a mark to keep.
  std::optional<std::string> serialize() const override { return std::string(kMark); }
  std::size_t workspace_bytes() const override;

  static constexpr std::string_view kMark = "template engine, format 1";

 private:
  struct Step {
    Kernel kernel;
    std::vector<std::size_t> from;  // slots
    std::size_t to = 0;
  };
  class Context;

  std::vector<Dims> slots_;  // of every value
  std::vector<std::size_t> inputs_, outputs_;
  std::vector<std::pair<std::size_t, Tensor>> constants_;
  std::vector<Step> steps_;
  std::vector<std::size_t> temporaries_;  // slots that live in the context
  std::size_t scratch_ = 0;               // floats, the most that one step wants
};

}  // namespace xrt::template_engine
