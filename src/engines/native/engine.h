// SPDX-License-Identifier: Apache-2.0
// The native engine: the built-in default. It takes any shape, static or not, and is what the
// other engines are compared with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/native/kernel.h"
#include "xrt/engine.h"

namespace xrt::native {

class NativeEngine final : public Engine {
 public:
  NativeEngine();

  const EngineInfo& info() const override { return info_; }
  std::vector<std::string> ops() const override { return registry_.ops(); }
  Support supports(const SupportQuery& query) const override;
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override;
  // Packed weights are used where they lie in the blob.
  std::shared_ptr<const Executable> load(const TensorView& blob, const Function& function,
                                         const CompileOptions& options) const override;

 private:
  KernelRegistry registry_;
  EngineInfo info_;
};

}  // namespace xrt::native
