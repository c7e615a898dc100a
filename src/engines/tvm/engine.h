// SPDX-License-Identifier: Apache-2.0
// TVM as an engine, for inference: a function goes as ONNX through TVM's Relax frontend and
// compiler (a process of its own, compiler.h) and comes back as a shared library, which runs
// without Python.
//
// Engine options:
//   tvm_target           a target kind or a JSON object; default: llvm for this CPU, cuda on CUDA
//   tvm_trials           trials of MetaSchedule tuning for each function; 0 (default): none
//   tvm_time_budget      seconds that the tuning of one function may take; default 600
//   tvm_compile_timeout  seconds without progress until a compilation is given up; default 900
//   tvm_opt_level        TVM's optimisation level, 0–3; default 3
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/tvm/compiler.h"
#include "xrt/engine.h"
#include "xrt/engine_blobs.h"

namespace xrt::tvm_engine {

class TvmEngine : public Engine, public SelfContainedBlobs {
 public:
  TvmEngine();

  std::string name() const override { return "tvm"; }
  std::string version() const override { return version_; }
  std::vector<std::string> devices() const override;
  std::string location() const override { return location_; }

  Support supports(const SupportQuery& query) const override;
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override;
  std::shared_ptr<const Executable> load(const Tensor& blob, const Function& function,
                                         const CompileOptions& options) const override;
  std::vector<std::string> ops() const override;
  OpTraits traits(const std::string& op) const override;
  std::optional<std::vector<std::string>> option_names() const override;

 private:
  std::string version_, location_;
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace xrt::tvm_engine
