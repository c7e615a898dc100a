// SPDX-License-Identifier: Apache-2.0
// Compiling a plan's functions, each by its engine or from the cache.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "xrt/engine.h"
#include "xrt/error.h"
#include "xrt/options.h"

namespace xrt {

// An engine could not compile a function that it had claimed.
class CompileFailure : public Error {
 public:
  CompileFailure(ErrorCode code, const std::string& message, std::string failed_engine,
                 std::vector<std::string> claimed, std::string why)
      : Error(code, message),
        engine(std::move(failed_engine)),
        nodes(std::move(claimed)),
        reason(std::move(why)) {}
  std::string engine;
  std::vector<std::string> nodes;  // of the function
  std::string reason;
  bool computes_wrong = false;  // what it compiled gave wrong results (cache/distrust.h)
};

struct CompiledFunction {
  std::shared_ptr<const Executable> executable;
  ExecutableInfo info;  // with the threads of a run filled in; 0: they take none of the budget
  bool from_cache = false;
  bool is_rounded = false;  // computes in half precision by casts
};

// Compiles the function of `launch`, the plan's launch number `index`. `aliases`: inputs and
// outputs that share memory. Fills in plan.keys where they are missing. Throws CompileFailure
// naming nodes, engine and cause.
CompiledFunction compile_function(Plan& plan, NodeId launch, std::size_t index,
                                  std::vector<InputOutputAlias> aliases,
                                  const ProgramOptions& options);

// Writes a graph as text to a file of the folder; nothing where `dir` is empty.
void dump_graph(const std::filesystem::path& dir, const std::string& name, const Graph& graph);

}  // namespace xrt
