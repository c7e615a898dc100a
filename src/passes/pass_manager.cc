// SPDX-License-Identifier: Apache-2.0
#include "passes/pass_manager.h"

#include <fmt/format.h>

#include "base/at_fork.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "ops/canonical.h"
#include "ops/shape_inference.h"
#include "passes/passes.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Each round lets one pass profit from another. Real models settle in two or three.
constexpr int kMaxRounds = 8;

#ifdef NDEBUG
constexpr bool kVerifyAfterEachPass = false;
#else
constexpr bool kVerifyAfterEachPass = true;
#endif

class Dump {
 public:
  explicit Dump(const std::filesystem::path& dir) : dir_(dir) {
    if (dir_.empty()) return;
    std::error_code failed;
    std::filesystem::create_directories(dir_, failed);
    if (failed) {
      throw Error(ErrorCode::kIo,
                  "cannot make the folder for dumps, '" + dir_.string() + "': " + failed.message());
    }
  }
  void write(const Graph& graph, const std::string& step) {
    if (dir_.empty()) return;
    write_output_file(dir_ / fmt::format("{:03}_{}.txt", count_++, step), print(graph));
  }

 private:
  const std::filesystem::path& dir_;
  int count_ = 0;
};

Pass simple(const char* name, bool (*run)(Graph&)) {
  return {name, [run](Graph& graph, const PassOptions&) { return run(graph); }};
}

void verify_after(const Graph& graph, const std::string& pass) {
  try {
    verify(graph);
  } catch (const Error& e) {
    throw Error(ErrorCode::kInternal, fmt::format("after pass '{}': {}", pass, e.what()));
  }
}

}  // namespace

const std::vector<Pass>& standard_passes() {
  const NoForkScope scope;  // a child would wait for who makes them
  static const std::vector<Pass> passes = {
      simple("canonicalize", canonicalize),
      simple("capture_loop_invariants", capture_loop_invariants),
      simple("sink_constants", sink_constants),
      simple("inline_constant_ifs", inline_constant_ifs),
      simple("fix_loop_shapes", fix_loop_shapes),
      simple("fold_shape_subgraphs", fold_shape_subgraphs),
      {"fold_constants",
       [](Graph& graph, const PassOptions& options) {
         return options.evaluate != nullptr &&
                fold_constants(graph, options.evaluate, *options.fold_budget);
       }},
      simple("remove_identities", remove_identities),
      simple("remove_dead_code", remove_dead_code),
      simple("share_common_subexpressions", share_common_subexpressions),
      simple("fold_conv_batch_norm", fold_conv_batch_norm),
      simple("fold_pads", fold_pads),
      simple("split_row_scales", split_row_scales),
      simple("remove_dead_code", remove_dead_code),
  };
  return passes;
}

void run_passes(Graph& graph, const PassOptions& given, const std::vector<Pass>& passes) {
  PassOptions options = given;
  if (options.fold_budget == nullptr) options.fold_budget = std::make_shared<FoldBudget>(graph);
  Dump dump(options.dump_dir);
  dump.write(graph, "before");
  infer_shapes(graph);
  for (int round = 0; round < kMaxRounds; ++round) {
    bool any = false;
    for (const Pass& pass : passes) {
      throw_if_interrupted();
      if (!pass.run(graph, options)) continue;
      any = true;
      infer_shapes(graph);
      if (kVerifyAfterEachPass) verify_after(graph, pass.name);
      dump.write(graph, pass.name);
    }
    if (!any) break;
  }
  graph.compact();
}

void run_passes(Graph& graph, const PassOptions& options) {
  run_passes(graph, options, standard_passes());
}

}  // namespace xrt
