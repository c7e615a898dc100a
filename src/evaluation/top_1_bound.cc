// SPDX-License-Identifier: Apache-2.0
#include "evaluation/top_1_bound.h"

#include <fmt/format.h>

#include "xrt/error.h"
#include "xrt/model.h"
#include "xrt/program.h"

namespace xrt {

Top1Bound bound_top_1(const std::filesystem::path& model, const LabelledSet& set,
                      const BatchOptions& batches, double most_loss,
                      const ProgramOptions& program) {
  if (!(most_loss >= 0 && most_loss <= 100)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a loss of {} percentage points: it must be from 0 to 100", most_loss));
  }
  EvaluationOptions options;
  options.batches = batches;
  Top1Bound bound;
  bound.judge = [&set, options, program](const Graph& graph) {
    return evaluate(*Program::compile(Graph(graph), program), set, options).top_1;
  };
  bound.plain = bound.judge(import_model(model));
  bound.wanted = bound.plain - most_loss / 100;
  return bound;
}

}  // namespace xrt
