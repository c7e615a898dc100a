// SPDX-License-Identifier: Apache-2.0
#include "program/int8_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <utility>

#include "base/log.h"
#include "exec/native_evaluator.h"
#include "ops/shape_inference.h"
#include "passes/pass_manager.h"
#include "program/calibration.h"
#include "program/int8_form.h"
#include "program/request_queue.h"
#include "xrt/error.h"
#include "xrt/quantize.h"

namespace xrt {
namespace {

// A number of runs; nothing where the text is none.
std::optional<std::size_t> runs_of(const std::string& text) {
  std::size_t runs = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), runs);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return runs;
}

struct Quantised {
  std::shared_ptr<Program> program;
  std::vector<std::string> notes;
};

Quantised quantised(Graph graph, const ValueRanges& ranges, std::size_t samples,
                    const ProgramOptions& options) {
  QuantizeOptions how;
  int8_form_for(options).set(how);
  const QuantizeSummary done = quantize(graph, ranges, how);
  Quantised result;
  result.notes.push_back(fmt::format(
      "int8: {} of {} Conv, Gemm and MatMul nodes are quantised, {} values have a scale, by {} {}",
      done.sums, done.sums + done.kept, done.values, samples, samples == 1 ? "sample" : "samples"));
  log_info(result.notes.front());
  for (const std::string& note : notes_of(done)) result.notes.push_back("int8: " + note);
  result.program = Program::compile(std::move(graph), options);
  return result;
}

class Int8Program final : public Program {
 public:
  // Quantised already.
  Int8Program(Quantised made, const ProgramOptions& options) : made_(std::move(made)) {
    inputs_ = made_.program->inputs();
    outputs_ = made_.program->outputs();
    requests_ = queue_of(*this, streams(), options);
  }

  // To be quantised by its first runs.
  Int8Program(Graph graph, std::size_t runs, ProgramOptions options)
      : graph_(std::move(graph)), wanted_(runs), options_(std::move(options)) {
    const std::size_t own = graph_.outputs().size();
    calibrator_.emplace(graph_, QuantizeOptions(), [this](Graph watched) -> GraphRun {
      watched_ = Program::compile(std::move(watched), options_);
      return [this](const std::vector<Tensor>& sample) { return run_watched(sample); };
    });
    inputs_ = watched_->inputs();
    const std::vector<Port>& all = watched_->outputs();
    outputs_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own));
    requests_ = queue_of(*this, streams(), options_);
  }
  ~Int8Program() override { requests_.reset(); }  // its runs use the rest

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }

  using Program::run;
  void run(std::span<const Data> inputs, std::vector<Data>& outputs,
           const RunOptions& options) override {
    if (!calibrate(inputs, outputs, options)) current()->run(inputs, outputs, options);
  }

  Request submit(std::vector<Data> inputs, const RunOptions& options, std::vector<Data> outputs,
                 std::function<void(const Request&)> done) override {
    std::vector<Data> room = outputs;
    check_room(inputs, room);
    return requests_->add(std::move(inputs), std::move(outputs), options, std::move(done));
  }

  int streams() const override { return current()->streams(); }

  Explanation explain() override {
    const std::lock_guard lock(mutex_);
    if (made_.program != nullptr) {
      Explanation explanation = made_.program->explain();
      explanation.notes.insert(explanation.notes.end(), made_.notes.begin(), made_.notes.end());
      return explanation;
    }
    Explanation explanation = watched_->explain();
    explanation.notes.push_back(
        fmt::format("int8: {} of {} runs that calibrate are done, in floating point",
                    calibrator_->samples(), wanted_));
    return explanation;
  }

  void enable_profile(bool on) override {
    const std::lock_guard lock(mutex_);
    profiles_ = on;
    (made_.program != nullptr ? made_.program : watched_)->enable_profile(on);
  }
  std::vector<LaunchEvent> profile() const override { return current()->profile(); }
  std::vector<LaunchEvent> take_profile() override { return current()->take_profile(); }
  std::string graph_text() const override { return current()->graph_text(); }

 private:
  // The program that runs now: while it calibrates, the one that has further outputs.
  std::shared_ptr<Program> current() const {
    const std::lock_guard lock(mutex_);
    return made_.program != nullptr ? made_.program : watched_;
  }

  // False where the runs that calibrate are over. They take turns.
  bool calibrate(std::span<const Data> inputs, std::vector<Data>& outputs,
                 const RunOptions& options) {
    const std::lock_guard lock(mutex_);
    if (made_.program != nullptr) return false;
    if (calibrator_->samples() >= wanted_) {
      finish();
      return false;
    }
    check_room(inputs, outputs);
    std::vector<Tensor> sample;
    bool on_device = options.results == Results::kDevice;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& tensor = sample_of(inputs[i], i);
      const bool like_inputs = options.results == Results::kLikeInputs && !tensor.on_host();
      on_device = on_device || like_inputs;
      sample.push_back(tensor.to(Device()));
    }
    timeout_s_ = options.timeout_s;
    calibrator_->add(sample);
    const std::optional<Device> device = device_of(options_.device);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      deliver(std::move(results_[i]), on_device ? device : std::nullopt, outputs, i);
    }
    results_.clear();
    return true;
  }

  void finish() {
    made_ = quantised(std::move(graph_), calibrator_->ranges(), calibrator_->samples(), options_);
    made_.program->enable_profile(profiles_);
    calibrator_.reset();
    watched_.reset();
  }

  void check_room(std::span<const Data> inputs, std::vector<Data>& outputs) const {
    if (inputs.size() != inputs_.size()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("the program takes {} inputs, {} were given", inputs_.size(), inputs.size()));
    }
    if (!outputs.empty() && outputs.size() != outputs_.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the program has {} outputs, room for {} was given", outputs_.size(),
                              outputs.size()));
    }
    outputs.resize(outputs_.size());
  }

  const Tensor& sample_of(const Data& given, std::size_t i) const {
    if (given.is_tensor()) return given.tensor();
    const auto found = graph_.input_defaults().find(graph_.inputs()[i]);
    if (given.is_none() && found != graph_.input_defaults().end()) return found->second;
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("input '{}': runs that calibrate int8 take a tensor for it", inputs_[i].name));
  }

  // What the calibrator runs: results_ are all outputs.
  std::vector<Tensor> run_watched(const std::vector<Tensor>& sample) {
    const std::vector<Data> inputs(sample.begin(), sample.end());
    results_.clear();
    watched_->run(inputs, results_, {.results = Results::kHost, .timeout_s = timeout_s_});
    std::vector<Tensor> tensors;
    for (const Data& result : results_) {
      tensors.push_back(result.is_tensor() ? result.tensor() : Tensor());
    }
    return tensors;
  }

  void deliver(Data result, const std::optional<Device>& device, std::vector<Data>& outputs,
               std::size_t i) const {
    if (outputs[i].is_none()) {
      if (device && result.is_tensor()) result = result.tensor().to(*device);
      outputs[i] = std::move(result);
      return;
    }
    const Tensor& made = result.tensor();
    Tensor& given = outputs[i].tensor();
    if (given.dtype() != made.dtype() || given.dims() != made.dims()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("output '{}' is {}{}, memory was given for {}{}", outputs_[i].name,
                              to_string(made.dtype()), to_string(made.dims()),
                              to_string(given.dtype()), to_string(given.dims())));
    }
    copy_elements(made, given);
  }

  std::vector<Port> inputs_, outputs_;
  mutable std::mutex mutex_;
  Quantised made_;  // its program is null while the first runs calibrate
  bool profiles_ = false;

  // Of the runs that calibrate.
  Graph graph_;
  std::size_t wanted_ = 0;
  ProgramOptions options_;
  std::shared_ptr<Program> watched_;  // with the watched values behind its own outputs
  std::vector<Data> results_;
  double timeout_s_ = 0;
  std::optional<Calibrator> calibrator_;
  std::unique_ptr<RequestQueue> requests_;
};

}  // namespace

std::shared_ptr<Program> make_int8_program(Graph graph, const ProgramOptions& options) {
  const std::optional<std::size_t> runs = runs_of(options.int8_calibration);
  if (runs == std::size_t{0}) {
    throw Error(ErrorCode::kInvalidArgument, "int8_calibration is 0: at least one run is needed");
  }
  ProgramOptions inner = options;
  inner.use_int8 = false;
  inner.int8_calibration.clear();
  infer_shapes(graph);
  run_passes(graph, {.evaluate = native_evaluator(options.max_memory_bytes), .dump_dir = {}});
  if (runs) return std::make_shared<Int8Program>(std::move(graph), *runs, std::move(inner));
  const CalibrationTable table = load_any_table(options.int8_calibration, graph, {});
  const ValueRanges ranges = ranges_for(table, graph, {});
  return std::make_shared<Int8Program>(quantised(std::move(graph), ranges, table.samples, inner),
                                       inner);
}

}  // namespace xrt
