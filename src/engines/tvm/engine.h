// SPDX-License-Identifier: Apache-2.0
// TVM as an engine, for inference: a function goes as ONNX through TVM's Relax frontend and
// compiler (a process of its own, compiler.h) and comes back as a shared library, which runs
// without Python.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/tvm/compiler.h"
#include "xrt/engine.h"

namespace xrt::tvm_engine {

class TvmEngine : public Engine {
 public:
  TvmEngine();

  const EngineInfo& info() const override { return info_; }
  std::vector<std::string> ops() const override;
  Support supports(const SupportQuery& query) const override;
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override;
  std::shared_ptr<const Executable> load(const TensorView& blob, const Function& function,
                                         const CompileOptions& options) const override;

 private:
  EngineInfo info_;
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace xrt::tvm_engine
