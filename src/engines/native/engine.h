// SPDX-License-Identifier: Apache-2.0
// The native engine: the built-in default. It takes any shape, static or not, and is what the
// other engines are compared with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/native/kernel.h"
#include "xrt/engine.h"
#include "xrt/engine_blobs.h"

namespace xrt::native {

class NativeEngine final : public Engine, public SelfContainedBlobs {
 public:
  NativeEngine();

  std::string name() const override { return "native"; }
  std::string version() const override;
  bool dynamic_shapes() const override { return true; }
  Support supports(const SupportQuery& query) const override;
  // Engine option "precision": "f32" (default) or "bf16", see dnn/plan.h.
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override;
  // Packed weights are used where they lie in the blob.
  std::shared_ptr<const Executable> load(const Tensor& blob, const Function& function,
                                         const CompileOptions& options) const override;
  std::vector<std::string> ops() const override { return registry_.ops(); }
  std::optional<std::vector<std::string>> option_names() const override {
    return std::vector<std::string>{"precision"};
  }
  // An aliased output is written over its input by the step that makes it, where no later one reads
  // the input; else it is computed aside and copied when all nodes have run.
  bool in_place() const override { return true; }

 private:
  KernelRegistry registry_;
};

}  // namespace xrt::native
