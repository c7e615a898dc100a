// SPDX-License-Identifier: Apache-2.0
// A compiled OpenVINO model over caller's memory.
//
// Thread-safety: run() may be called at once with distinct contexts.
#pragma once

#include <memory>
#include <openvino/runtime/compiled_model.hpp>
#include <string>
#include <vector>

#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::openvino {

class OpenVinoExecutable : public Executable {
 public:
  // `function` gives names and dtypes; nothing of it is kept by reference. `blob` is the memory
  // that the model was imported from, if it was.
  OpenVinoExecutable(ov::CompiledModel model, const Function& function,
                     const CompileOptions& options, Tensor blob = {});

  ExecutableInfo info() const override;
  std::unique_ptr<RunContext> create_context() const override;
  void run(const RunArgs& args) const override;
  std::optional<std::string> serialize() const override;

 private:
  struct Port {
    std::string name;
    ov::element::Type type;
    DType dtype = DType::kUndefined;
    bool is_static = false;
    Dims dims;  // if is_static
    // Integer inputs: the absolute value up to which the CPU plugin computes exactly what is done
    // with them; 0: every value.
    std::int64_t bound = 0;
  };
  // Where an output of the function comes from: one of these is set.
  struct Source {
    int computed = -1;  // result of the model
    int input = -1;     // the input itself
    Tensor constant;    // a constant itself
  };

  void bind_inputs(RunContext& context, std::span<const Data> inputs) const;

  Tensor blob_;  // outlives the model
  mutable ov::CompiledModel model_;
  std::string name_;
  std::vector<Port> inputs_;
  std::vector<Port> results_;    // of the model
  std::vector<Source> sources_;  // by output of the function
  std::size_t weight_bytes_ = 0;
  int threads_, streams_;
  bool waits_;    // for a request that another thread runs
  bool exports_;  // what is exported computes the same
};

}  // namespace xrt::openvino
