// SPDX-License-Identifier: Apache-2.0
// A function on one GPU: which plan runs it, and how its tensors get there and back.
//
// - Inputs and outputs in ordinary memory pass through page-locked staging buffers of the run
//   context; page-locked memory is copied from and to directly; device memory is bound as it is.
// - A run whose shapes the plan was not built for makes it be built again, for the old ranges and
//   the new shape, and says so once; runs in flight keep the plan they began with.
// - A run context holds a stream, an execution and buffers that only grow.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engines/tensorrt/driver.h"
#include "engines/tensorrt/plan.h"
#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::tensorrt {

class TrtExecutable : public Executable {
 public:
  struct Border {
    std::string name;
    Type type;
  };
  // `plan` may be null if `ranges` are not complete: then the first run builds it. `driver` may be
  // null, `no_gpu` saying why: such an executable is kept and not run.
  TrtExecutable(const Graph& graph, std::string name, std::shared_ptr<const Driver> driver,
                int device, std::shared_ptr<const Planner> planner, Ranges ranges,
                std::shared_ptr<const EnginePlan> plan, std::string no_gpu = {});

  std::unique_ptr<RunContext> create_context() const override;
  ExecutableInfo info() const override;
  void run(const RunArgs& args) const override;
  std::optional<std::string> serialize() const override;

  Ranges ranges() const;
  std::shared_ptr<const EnginePlan> plan() const;  // null before the first run of open shapes
  int device() const { return device_; }

  // Takes serialize()'s bytes apart. Throws kInvalidModel.
  static std::pair<Ranges, Tensor> unpack(const Tensor& blob, const std::string& name);

 private:
  std::shared_ptr<const EnginePlan> plan_for(const std::vector<Dims>& shapes) const;

  std::vector<Border> inputs_;
  std::vector<Border> outputs_;
  std::string name_;
  std::shared_ptr<const Driver> driver_;
  int device_;
  std::shared_ptr<const Planner> planner_;
  std::string no_gpu_;
  mutable std::mutex mutex_;
  mutable Ranges ranges_;
  mutable std::shared_ptr<const EnginePlan> plan_;
};

}  // namespace xrt::tensorrt
