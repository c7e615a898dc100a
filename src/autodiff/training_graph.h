// SPDX-License-Identifier: Apache-2.0
// A model, its loss, its gradients and the weight updates as one graph.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "xrt/autodiff.h"
#include "xrt/graph.h"

namespace xrt::autodiff {

// A tensor that outlives a step: a graph input, and the output that is its next value.
struct Variable {
  std::string name;
  Tensor initial;        // memory of its own
  bool trained = false;  // a parameter; else an optimizer's state or a running statistic
};

enum class GradientScaling : std::uint8_t {
  kNone,
  // Gradients of parameters are multiplied by an input, which is what makes them float32 where the
  // function is brought to half precision.
  kFactor,
  // The loss's gradient is an input as well, and where a gradient is not finite nothing is updated.
  kChecked,
};

struct TrainingSetup {
  LossOptions loss;
  OptimizerOptions optimizer;
  std::vector<std::string> parameters;
  std::vector<std::string> frozen;
  std::int64_t prediction = 0;
  bool train_mode = true;
  RecomputeOptions recompute;
  GradientScaling scaling = GradientScaling::kNone;
  std::string reduction;  // TrainerOptions::reduction
};

// The model with everything that training changes as inputs, in evaluation mode.
struct OpenModel {
  Graph graph;
  std::vector<Variable> variables;  // parameters, then running statistics
  std::vector<std::string> data_inputs;
};

// Turns the constants that are trained, and running statistics, into inputs of the same name.
// Throws kInvalidArgument naming what is not there.
XRT_API OpenModel open_model(Graph model, const TrainingSetup& setup);

struct TrainingGraph {
  Graph graph;
  // Names of inputs and of the outputs that are written into them.
  std::vector<std::pair<std::string, std::string>> aliases;
  std::vector<Variable> states;      // the optimizer's
  std::vector<std::string> scalars;  // names of inputs that follow Optimizer::scalars()
  std::string loss;                  // name of the output
  std::string target;                // name of the input; empty for loss "output"
  std::string drop_key;              // uint32 scalar input; empty where nothing is dropped
  // Names of scalar inputs; empty where TrainingSetup::scaling has none.
  std::string loss_scale;
  std::string gradient_factor;
  std::string finite;  // name of an output: 1, or 0 where nothing was updated; kChecked alone
};

// Makes a graph simpler without changing what it computes: the passes, which are not of this room.
using Simplify = std::function<void(Graph&)>;

// From an open model whose data inputs have the types of one batch. `target`: its type, if given.
XRT_API TrainingGraph make_training_graph(const OpenModel& model, const TrainingSetup& setup,
                                          const Optimizer& optimizer,
                                          const std::optional<Type>& target,
                                          const Simplify& simplify);

// Only the loss, in evaluation mode: outputs "loss" and nothing else.
XRT_API Graph make_loss_graph(const OpenModel& model, const TrainingSetup& setup,
                              const std::optional<Type>& target);

inline constexpr const char* kTargetName = "target";

}  // namespace xrt::autodiff
