// SPDX-License-Identifier: Apache-2.0
// Training: a model, a loss and an optimizer as one graph, run by any list of engines.
//
//   xrt::TrainerOptions options;
//   options.loss.kind = "cross_entropy";
//   options.optimizer.name = "adam";
//   options.program.engines = {"native"};
//   auto trainer = xrt::Trainer::create(xrt::import_onnx("model.onnx"), options);
//   double loss = trainer->step({{"images", batch}, {"target", labels}});
//   std::vector<xrt::Data> logits = trainer->evaluate({{"images", test}});
//   trainer->save("run.xrtstate");
//
// One step is one run of one program: loss, gradients and weight updates. Weights, optimizer states
// and running statistics are inputs that their new values are written into.
//
// Thread-safety: the functions may be called by any thread. Steps, losses, evaluations and what
// copies the state as a whole (set_state, save, load, model) are done one at a time: who comes
// second waits. A schedule may call the trainer that asks it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/autodiff.h"
#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/program.h"
#include "xrt/registry.h"
#include "xrt/tensor.h"

namespace xrt {

// Small gradients vanish in half precision, so the loss's gradient is multiplied by a scale, and
// those of the weights are divided by it in float32. A step with a gradient that is not finite
// changes no weight: it is skipped. The rules are those of PyTorch's GradScaler.
struct LossScaleOptions {
  // dynamic; static: the scale stays, steps are skipped all the same; none. Empty: dynamic where
  // the precision of TrainerOptions::program is f16 or to be chosen, else none.
  std::string kind = {};
  double initial = 65536;
  // dynamic: a step that is skipped multiplies the scale by `backoff`, as many others in a row as
  // `growth_interval` says by `growth`.
  double growth = 2;
  double backoff = 0.5;
  std::int64_t growth_interval = 2000;
};

struct TrainerOptions {
  LossOptions loss;
  OptimizerOptions optimizer;
  LossScaleOptions loss_scale = {};
  // How the programs of steps, losses and evaluation are loaded; `aliases` are the trainer's own.
  // With a precision below f32 weights, optimizer states and updates stay in float32.
  ProgramOptions program = {.engines = {fallback_engine()}};
  // Constants of the model (ONNX initializers) that are trained. Empty: every floating-point one
  // of at least one axis from which a gradient leads to the loss.
  std::vector<std::string> parameters = {};
  std::vector<std::string> frozen = {};  // not trained
  std::int64_t prediction = 0;           // which output of the model the loss compares
  // Batch normalisation uses the batch's statistics and updates the running ones, Dropout drops.
  bool train_mode = true;
  std::uint64_t seed = 0;  // of dropout
  RecomputeOptions recompute = {};
  // A step whose loss is not finite is an error that names the first values that are not, and
  // leaves weights as they were.
  bool detect_anomaly = false;
  // "domain:op", a registered op of any number of inputs and as many outputs of the same types, or
  // empty. It gets the loss and the gradients of all parameters before they are scaled, cut or
  // used, and returns what takes their place: how processes that train together agree.
  std::string reduction = {};
};

class XRT_API Trainer {
 public:
  virtual ~Trainer();

  // Throws kInvalidArgument (loss, optimizer or names that do not fit), kUnsupported (a node
  // without a gradient, by name), kNotFound (engine).
  static std::unique_ptr<Trainer> create(Graph model, const TrainerOptions& options = {});

  // One update on one batch: the model's inputs and "target" (but for loss "output"), by name. The
  // first step of each set of shapes compiles. Returns the loss before the update, without scale.
  virtual double step(const std::map<std::string, Data>& inputs) = 0;
  // The loss of a batch, without an update, in evaluation mode.
  virtual double loss(const std::map<std::string, Data>& inputs) = 0;
  // The model's outputs in evaluation mode, with the weights as they are.
  virtual std::vector<Data> evaluate(const std::map<std::string, Data>& inputs) = 0;

  virtual double learning_rate() const = 0;
  virtual void set_learning_rate(double rate) = 0;
  // Asked before each step for the rate of step n = 0, 1, …; empty: learning_rate() stays.
  virtual void set_schedule(std::function<double(std::int64_t step)> schedule) = 0;
  // Calls of step(), those that were skipped included.
  virtual std::int64_t step_count() const = 0;
  // What the next step's loss is scaled by; 1 without loss scaling.
  virtual double loss_scale() const = 0;
  // Steps that changed no weight because a gradient was not finite. Optimizers do not count them.
  virtual std::int64_t skipped_steps() const = 0;

  // Names of inputs that step() wants, "target" last.
  virtual std::vector<std::string> input_names() const = 0;
  // Names of what is trained, in the model's order.
  virtual std::vector<std::string> parameter_names() const = 0;
  // Parameters, buffers ("running_mean" …) and optimizer states ("<parameter>:momentum" …), by
  // name. The tensors are the live ones: the next step changes them.
  virtual std::map<std::string, Tensor> state() const = 0;
  // Copies values in; names and shapes must be those of state() (a part of them is allowed).
  // kInvalidArgument names what does not fit, and nothing is changed.
  virtual void set_state(const std::map<std::string, Tensor>& values) = 0;

  // Everything that training needs to go on: state, step count, learning rate, loss scale. The file
  // is written beside and renamed, so that a crash leaves the old one whole.
  virtual void save(const std::filesystem::path& path) const = 0;
  // kInvalidModel where the file is damaged or of another model; then nothing is changed.
  virtual void load(const std::filesystem::path& path) = 0;
  // The model with the weights as they are now as constants.
  virtual Graph model() const = 0;

  // Of the newest training program; throws kInvalidArgument before the first step.
  virtual Explanation explain() = 0;
  virtual std::string graph_text() const = 0;
};

// Learning rates by step, for set_schedule(). `warmup` steps rise linearly to `rate` first.
XRT_API std::function<double(std::int64_t)> constant_schedule(double rate, std::int64_t warmup = 0);
// rate * factor^(step / every)
XRT_API std::function<double(std::int64_t)> step_schedule(double rate, std::int64_t every,
                                                          double factor, std::int64_t warmup = 0);
// Half a cosine from `rate` down to `last` at step `total`.
XRT_API std::function<double(std::int64_t)> cosine_schedule(double rate, std::int64_t total,
                                                            double last = 0,
                                                            std::int64_t warmup = 0);
// Linearly from `rate` down to `last` at step `total`.
XRT_API std::function<double(std::int64_t)> linear_schedule(double rate, std::int64_t total,
                                                            double last = 0,
                                                            std::int64_t warmup = 0);

}  // namespace xrt
