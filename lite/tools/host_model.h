// SPDX-License-Identifier: Apache-2.0
// The C runtime behind C++ types, for the tools, the tests and Python.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "xrt/program.h"
#include "xrt/tensor.h"
#include "xrt_lite.h"

namespace xrt::lite {

// Every driver that this build holds becomes known to the runtime; repeated calls do nothing.
void register_drivers();

// Throws xrt::Error with `what` and the runtime's message unless the status is XRT_LITE_OK.
void check(xrt_lite_status status, const std::string& what);

class HostModel {
 public:
  // Maps the file. `threads` of 0: the process's budget.
  HostModel(const std::filesystem::path& path, int threads, bool verify_weights = false);
  HostModel(const HostModel&) = delete;
  HostModel& operator=(const HostModel&) = delete;

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  xrt_lite_context* context() { return context_.get(); }

  // Sets the buffers that the following runs use; they must stay.
  void bind(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
  void run();
  // New tensors, one per output.
  std::vector<Tensor> allocate_outputs() const;

 private:
  struct Free {
    void operator()(xrt_lite_model* m) const { xrt_lite_unload(m); }
    void operator()(xrt_lite_context* c) const { xrt_lite_context_destroy(c); }
    void operator()(xrt_lite_threads* t) const { xrt_lite_threads_destroy(t); }
  };
  std::string name_;
  std::unique_ptr<xrt_lite_threads, Free> threads_;
  std::unique_ptr<xrt_lite_model, Free> model_;
  std::unique_ptr<xrt_lite_context, Free> context_;
  std::vector<Port> inputs_, outputs_;
};

}  // namespace xrt::lite
