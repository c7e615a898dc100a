// SPDX-License-Identifier: Apache-2.0
// One compiled function: a shared library of TVM's, run by the Relax virtual machine.
//
// Each concurrent run has a virtual machine of its own; the library's code and constants are
// shared. Inputs are read in place where they are aligned to 64 bytes, as TVM's code demands. A
// result is copied once into the caller's memory, or TVM's own tensor becomes the result.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::tvm_engine {

class TvmExecutable : public Executable {
 public:
  // `library` holds the bytes of the shared library, `label` what stands before them when they are
  // kept. kEngine where it cannot be loaded.
  TvmExecutable(std::string label, std::string library, const Function& function,
                const CompileOptions& options);
  ~TvmExecutable() override;

  std::unique_ptr<RunContext> create_context() const override;
  ExecutableInfo info() const override {
    ExecutableInfo info;
    info.workspace_bytes.reset();  // the virtual machine does not tell
    info.weight_bytes = library_.size();
    return info;
  }
  void run(const RunArgs& args) const override;
  std::optional<std::string> serialize() const override { return label_ + library_; }

 private:
  struct Context;
  struct Loaded;
  struct Port {
    std::string name;
    DType dtype;
    Dims dims;
  };

  std::string name_;
  std::string label_, library_;
  int num_threads_;
  int device_type_ = 0, device_index_ = 0;
  std::vector<Port> inputs_, outputs_;
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace xrt::tvm_engine
