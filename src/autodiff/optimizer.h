// SPDX-License-Identifier: Apache-2.0
// Optimizers as nodes of the graph, with PyTorch's formulas.
//
// What depends on the step (learning rate, bias corrections) are scalar inputs of the graph, which
// the caller computes in double before each step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autodiff/emitter.h"
#include "xrt/autodiff.h"

namespace xrt::autodiff {

// One scalar input: its name and its value at step t = 1, 2, … with a learning rate.
struct StepScalar {
  std::string name;
  std::function<double(std::int64_t t, double rate)> value;
};

// One tensor that an optimizer keeps for a parameter.
struct OptimizerState {
  std::string suffix;  // "momentum"; its full name is "<parameter>:momentum"
  double initial = 0;
};

class XRT_API Optimizer {
 public:
  // Throws kInvalidArgument for a name or number that makes no sense.
  explicit Optimizer(OptimizerOptions options);

  const OptimizerOptions& options() const { return options_; }
  const std::vector<StepScalar>& scalars() const { return scalars_; }
  const std::vector<OptimizerState>& states() const { return states_; }

  // The gradients with clipping applied.
  std::vector<Var> clip(Emitter& e, std::vector<Var> gradients) const;

  struct Update {
    Var parameter;
    std::vector<Var> states;  // follow states()
  };
  // The new parameter and states; `scalars` follow scalars().
  Update update(Var parameter, Var gradient, const std::vector<Var>& states,
                const std::vector<Var>& scalars) const;

 private:
  Update sgd(Var p, Var g, const std::vector<Var>& s, const std::vector<Var>& c) const;
  Update adagrad(Var p, Var g, const std::vector<Var>& s, const std::vector<Var>& c) const;
  Update rmsprop(Var p, Var g, const std::vector<Var>& s, const std::vector<Var>& c) const;
  Update adam(Var p, Var g, const std::vector<Var>& s, const std::vector<Var>& c) const;
  Update lamb(Var p, Var g, const std::vector<Var>& s, const std::vector<Var>& c) const;

  OptimizerOptions options_;
  std::vector<StepScalar> scalars_;
  std::vector<OptimizerState> states_;
};

}  // namespace xrt::autodiff
