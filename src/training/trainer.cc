// SPDX-License-Identifier: Apache-2.0
// One program per set of input shapes. Its outputs that are new values of variables (weights,
// optimizer states, running statistics) are written over the old ones by aliases. Only where
// anomalies are looked for has each variable a second buffer: the step writes there, and they
// change places when all is well.
//
// What runs a program, or reads or writes the variables, is done by one thread at a time, which has
// the turn; it may come back to the trainer within it, from a schedule or an op in Python. What
// others may ask for meanwhile is guarded by mutex_, for moments only. A child that fork() made has
// a turn of its own.
#include "xrt/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "autodiff/losses.h"
#include "autodiff/training_graph.h"
#include "base/fork_mutex.h"
#include "base/interrupt.h"
#include "base/per_process.h"
#include "exec/native_evaluator.h"
#include "ir/rewrite.h"
#include "ops/shape_inference.h"
#include "passes/pass_manager.h"
#include "training/loss_scale.h"
#include "training/parts.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::size_t kMaximumPrograms = 16;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, what); }

struct State {
  std::string name;
  Tensor now;
  Tensor next;  // only where anomalies are looked for
};

using Schedule = std::function<double(std::int64_t)>;
using Signature = std::vector<std::pair<DType, Dims>>;

// Where an input of a step's program comes from.
struct Source {
  enum class Kind : std::uint8_t {
    kData,
    kState,
    kScalar,
    kKey,
    kLossScale,
    kGradientFactor,
  } kind = Kind::kData;
  std::size_t index = 0;
};

struct StepProgram {
  std::int64_t classes = 0;  // that the target tells apart; 0: unknown, or none
  std::shared_ptr<Program> program;
  std::vector<Source> sources;
  std::vector<std::pair<std::size_t, std::size_t>> updates;  // output, state
  std::vector<Tensor> scalars;                               // what kScalar inputs are
  Tensor key, loss_scale, gradient_factor;
  Tensor loss;
  std::optional<std::size_t> finite;  // the output that tells whether weights were updated
  std::optional<Graph> watched;       // kept where anomalies are looked for
};

void put(Tensor& tensor, double value) {
  if (tensor.dtype() == DType::kFloat64) {
    *tensor.data<double>() = value;
  } else {
    *tensor.data<float>() = static_cast<float>(value);
  }
}

double scalar_value(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat64:
      return *tensor.data<double>();
    case DType::kFloat32:
      return *tensor.data<float>();
    default:
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("a loss of type {}; cast it to float32", to_string(tensor.dtype())));
  }
}

void simplify(Graph& graph) { run_passes(graph, {.evaluate = native_evaluator(), .dump_dir = {}}); }

autodiff::TrainingSetup setup_of(const TrainerOptions& options, const LossScale& scale) {
  autodiff::TrainingSetup setup;
  setup.loss = options.loss;
  setup.optimizer = options.optimizer;
  setup.parameters = options.parameters;
  setup.frozen = options.frozen;
  setup.prediction = options.prediction;
  setup.train_mode = options.train_mode;
  setup.recompute = options.recompute;
  setup.reduction = options.reduction;
  if (scale.is_used()) {
    setup.scaling = autodiff::GradientScaling::kChecked;
  } else if (options.program.precision != Precision::kF32) {
    setup.scaling = autodiff::GradientScaling::kFactor;
  }
  return setup;
}

struct LossProgram {
  std::int64_t classes = 0;  // as above
  std::shared_ptr<Program> program;
};

class TrainerImpl final : public Trainer {
 public:
  TrainerImpl(Graph model, const TrainerOptions& options)
      : options_(options),
        scale_(options.loss_scale, options.program.precision),
        setup_(setup_of(options, scale_)),
        optimizer_(options.optimizer),
        model_(autodiff::open_model(std::move(model), setup_)),
        rate_(options.optimizer.learning_rate) {
    for (const autodiff::Variable& variable : model_.variables) {
      if (variable.trained) parameters_.push_back(variable.name);
      add_state(variable.name, variable.initial);
    }
    for (autodiff::Variable& variable : model_.variables) {
      const Tensor initial = std::exchange(variable.initial, {});
      if (!variable.trained) continue;
      for (const autodiff::OptimizerState& state : optimizer_.states()) {
        add_state(variable.name + ":" + state.suffix,
                  autodiff::filled(initial.dtype(), initial.dims(), state.initial));
      }
    }
    inputs_ = model_.data_inputs;
    if (setup_.loss.kind != "output") inputs_.emplace_back(autodiff::kTargetName);
    // What is wrong with model and loss is found here where shapes allow, not at the first step.
    bool known = true;
    for (const ValueId v : model_.graph.inputs()) known = known && model_.graph.type(v).is_static();
    if (known) build_graph(model_.graph, std::nullopt);
  }

  double step(const std::map<std::string, Data>& inputs) override {
    const Turn turn = take_turn();
    if (const auto schedule = this->schedule()) {
      const double rate = (*schedule)(step_count());
      const std::lock_guard lock(mutex_);
      rate_ = rate;
    }
    const std::shared_ptr<StepProgram> step = program_for(inputs);
    check_classes(inputs, step->classes);
    const std::vector<Data> values = values_of(*step, inputs);
    std::vector<Data> outputs(step->program->outputs().size());
    outputs[0] = step->loss;
    if (options_.detect_anomaly) {
      for (const auto& [output, state] : step->updates) outputs[output] = states_[state].next;
    }
    step->program->run(values, outputs);
    const double loss = scalar_value(outputs[0].tensor());
    if (options_.detect_anomaly) check_finite(*step, values, loss);
    const bool updated = !step->finite || *outputs[*step->finite].tensor().data<float>() > 0.5F;
    const std::lock_guard lock(mutex_);
    if (options_.detect_anomaly) {
      for (const auto& [output, state] : step->updates) {
        std::swap(states_[state].now, states_[state].next);
      }
    }
    scale_.update(updated, step_);
    ++step_;
    return loss;
  }

  double loss(const std::map<std::string, Data>& inputs) override {
    const Turn turn = take_turn();
    const std::shared_ptr<LossProgram> made = loss_program(check_inputs(inputs));
    check_classes(inputs, made->classes);
    return scalar_value(run_with_state(*made->program, inputs)[0].tensor());
  }

  std::vector<Data> evaluate(const std::map<std::string, Data>& inputs) override {
    const Turn turn = take_turn();
    return run_with_state(*evaluation_program(), inputs);
  }

  double learning_rate() const override {
    const std::lock_guard lock(mutex_);
    return rate_;
  }
  void set_learning_rate(double rate) override {
    if (!(rate >= 0)) fail("a learning rate must not be negative");
    std::shared_ptr<const Schedule> before;  // it ends without the lock: its code is the user's
    const std::lock_guard lock(mutex_);
    rate_ = rate;
    schedule_.swap(before);
  }
  void set_schedule(Schedule schedule) override {
    std::shared_ptr<const Schedule> other;
    if (schedule) other = std::make_shared<const Schedule>(std::move(schedule));
    const std::lock_guard lock(mutex_);
    schedule_.swap(other);
  }
  std::int64_t step_count() const override {
    const std::lock_guard lock(mutex_);
    return step_;
  }
  double loss_scale() const override {
    const std::lock_guard lock(mutex_);
    return scale_.value();
  }
  std::int64_t skipped_steps() const override {
    const std::lock_guard lock(mutex_);
    return scale_.skipped();
  }
  std::vector<std::string> input_names() const override { return inputs_; }
  std::vector<std::string> parameter_names() const override { return parameters_; }

  std::map<std::string, Tensor> state() const override {
    std::map<std::string, Tensor> values;
    const std::lock_guard lock(mutex_);
    for (const State& s : states_) values.emplace(s.name, s.now);
    return values;
  }

  void set_state(const std::map<std::string, Tensor>& values) override {
    const Turn turn = take_turn();
    for (const auto& [name, value] : values) {
      const auto found = index_.find(name);
      if (found == index_.end()) fail(fmt::format("the training state has no '{}'", name));
      const Tensor& own = states_[found->second].now;
      if (own.dtype() != value.dtype() || own.dims() != value.dims()) {
        fail(fmt::format("'{}' is {}{}; {}{} was given", name, to_string(own.dtype()),
                         to_string(own.dims()), to_string(value.dtype()), to_string(value.dims())));
      }
    }
    for (const auto& [name, value] : values) {
      Tensor& own = states_[index_.at(name)].now;
      if (own.bytes() > 0) std::memmove(own.raw(), value.raw(), own.bytes());
    }
  }

  void save(const std::filesystem::path& path) const override {
    const Turn turn = take_turn();
    Checkpoint checkpoint{.step = 0,
                          .learning_rate = 0,
                          .scaled = scale_.is_used(),
                          .loss_scale = {},
                          .state = state()};
    {
      const std::lock_guard lock(mutex_);
      checkpoint.step = step_;
      checkpoint.learning_rate = rate_;
      checkpoint.loss_scale = scale_.state();
    }
    write_checkpoint(path, checkpoint);
  }

  void load(const std::filesystem::path& path) override {
    const Checkpoint checkpoint = read_checkpoint(path);
    const Turn turn = take_turn();
    std::string missing;
    for (const State& s : states_) {
      if (!checkpoint.state.contains(s.name)) missing = s.name;
    }
    try {
      if (!missing.empty()) fail(fmt::format("'{}' is missing", missing));
      set_state(checkpoint.state);
    } catch (const Error& error) {
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("checkpoint '{}' is of another model or optimizer: {}", path.string(),
                              error.what()));
    }
    const std::lock_guard lock(mutex_);
    step_ = checkpoint.step;
    rate_ = checkpoint.learning_rate;
    scale_.restore(checkpoint.loss_scale, checkpoint.scaled);
  }

  Graph model() const override {
    const Turn turn = take_turn();
    Graph graph(model_.graph.name());
    graph.opsets() = model_.graph.opsets();
    graph.metadata() = model_.graph.metadata();
    std::vector<ValueId> arguments;
    for (const ValueId v : model_.graph.inputs()) {
      const std::string& name = model_.graph.value(v).name;
      const auto found = index_.find(name);
      arguments.push_back(found == index_.end()
                              ? graph.add_input(name, model_.graph.type(v))
                              : graph.add_constant(name, states_[found->second].now.clone()));
    }
    const std::vector<ValueId> outputs = splice(graph, model_.graph, arguments, "");
    for (const ValueId v : outputs) graph.add_output(v);
    return graph;
  }

  Explanation explain() override {
    Explanation explanation = newest()->program->explain();
    const std::lock_guard lock(mutex_);
    if (scale_.is_used()) {
      explanation.notes.push_back(fmt::format("loss scale {:g}: {} of {} steps were skipped",
                                              scale_.value(), scale_.skipped(), step_));
    }
    return explanation;
  }
  std::string graph_text() const override { return newest()->program->graph_text(); }

 private:
  // `initial` belongs to the trainer from here on.
  void add_state(const std::string& name, const Tensor& initial) {
    if (!index_.emplace(name, states_.size()).second) {
      fail(fmt::format("two values of the training state are named '{}'", name));
    }
    states_.push_back({name, initial, {}});
    if (options_.detect_anomaly) {
      states_.back().next = Tensor::allocate(initial.dtype(), initial.dims());
    }
  }

  using Turn = std::unique_lock<std::recursive_timed_mutex>;

  // Waits until no other thread has it, or the user interrupts. By the system's clock: GCC 12's
  // ThreadSanitizer does not see a lock that is taken by the steady one.
  Turn take_turn() const {
    constexpr std::chrono::milliseconds kPatience{50};
    Turn turn(turn_.get(), std::defer_lock);
    while (!turn.try_lock_until(std::chrono::system_clock::now() + kPatience)) {
      throw_if_interrupted();
    }
    return turn;
  }

  std::shared_ptr<const Schedule> schedule() const {
    const std::lock_guard lock(mutex_);
    return schedule_;
  }

  std::shared_ptr<const StepProgram> newest() const {
    const std::lock_guard lock(mutex_);
    if (programs_.empty()) fail("no step has been made: there is no training program yet");
    return programs_.front().second;
  }

  ProgramOptions program_options() const {
    ProgramOptions program = options_.program;
    program.training = true;
    return program;
  }

  // dtypes and shapes of the inputs, in order of inputs_.
  Signature check_inputs(const std::map<std::string, Data>& inputs) const {
    Signature signature;
    for (const std::string& name : inputs_) {
      const auto found = inputs.find(name);
      if (found == inputs.end() || !found->second.is_tensor()) {
        fail(fmt::format("input '{}' was not given; the inputs are {}", name,
                         fmt::join(inputs_, ", ")));
      }
      signature.emplace_back(found->second.tensor().dtype(), found->second.tensor().dims());
    }
    if (inputs.size() != inputs_.size()) {
      for (const auto& [name, value] : inputs) {
        if (std::find(inputs_.begin(), inputs_.end(), name) == inputs_.end()) {
          fail(fmt::format("there is no input '{}'; the inputs are {}", name,
                           fmt::join(inputs_, ", ")));
        }
      }
    }
    return signature;
  }

  std::optional<Type> given_target(const Signature& signature) const {
    if (setup_.loss.kind == "output") return std::nullopt;
    return Type::tensor(signature.back().first, signature.back().second);
  }

  // That the target of the loss tells apart; 0 where it holds none, or their number is not known.
  std::int64_t classes_of(const Graph& graph) const {
    const auto prediction = static_cast<std::size_t>(setup_.prediction);
    if (!autodiff::takes_classes(setup_.loss) || prediction >= graph.outputs().size()) return 0;
    const Type& type = graph.type(graph.outputs()[prediction]);
    if (!type.has_rank() || type.rank() < 2 || !(*type.shape)[1].is_known()) return 0;
    return (*type.shape)[1].value();
  }

  // Numbers of classes that there are not would be counted from the end, or be an error of a node
  // that no model has.
  void check_classes(const std::map<std::string, Data>& inputs, std::int64_t classes) const {
    if (classes == 0) return;
    const Tensor& target = inputs.at(autodiff::kTargetName).tensor();
    const bool floats = target.dtype() == DType::kFloat32;
    if (!target.on_host() || (!floats && !is_integer(target.dtype()))) return;
    const std::vector<std::int64_t> whole =
        floats ? std::vector<std::int64_t>() : target.to_int64();
    for (std::int64_t i = 0; i < target.count(); ++i) {
      const double given = floats ? double{target.data<float>()[i]}
                                  : static_cast<double>(whole[static_cast<std::size_t>(i)]);
      if (given == static_cast<double>(setup_.loss.ignore_index)) continue;
      if (given >= 0 && given < static_cast<double>(classes) && given == std::floor(given))
        continue;
      fail(fmt::format("the target holds {} at element {}: the prediction has classes 0 to {}",
                       given, i, classes - 1));
    }
  }

  // The model with inputs of these shapes.
  Graph specialised(const Signature& signature) const {
    Graph graph(model_.graph);
    for (std::size_t i = 0; i < model_.data_inputs.size(); ++i) {
      const ValueId input = *graph.find_value(model_.data_inputs[i]);
      const Type type = Type::tensor(signature[i].first, signature[i].second);
      const Type& declared = graph.type(input);
      bool fits = declared.dtype == type.dtype || declared.dtype == DType::kUndefined;
      if (declared.has_rank()) {
        fits = fits && declared.rank() == type.rank();
        for (std::size_t d = 0; fits && d < type.rank(); ++d) {
          const Dim& dim = (*declared.shape)[d];
          fits = !dim.is_known() || dim == (*type.shape)[d];
        }
      }
      if (!fits) {
        fail(fmt::format("input '{}' is {}; {} was given", model_.data_inputs[i],
                         to_string(declared), to_string(type)));
      }
      graph.set_type(input, type);
    }
    infer_shapes(graph, /*reset=*/true);
    return graph;
  }

  autodiff::TrainingGraph build_graph(Graph model, const std::optional<Type>& target) const {
    autodiff::OpenModel open{std::move(model), model_.variables, model_.data_inputs};
    return autodiff::make_training_graph(open, setup_, optimizer_, target, simplify);
  }

  // Of a list with the newest first: what it has for `signature`, which is the newest now, or null.
  template <typename Entry>
  std::shared_ptr<Entry> find(std::list<std::pair<Signature, std::shared_ptr<Entry>>>& entries,
                              const Signature& signature) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const auto& entry) { return entry.first == signature; });
    if (found == entries.end()) return nullptr;
    entries.splice(entries.begin(), entries, found);
    return found->second;
  }

  // The oldest one goes where there are too many; who has it keeps it.
  template <typename Entry>
  void keep(std::list<std::pair<Signature, std::shared_ptr<Entry>>>& entries, Signature signature,
            std::shared_ptr<Entry> entry) {
    std::list<std::pair<Signature, std::shared_ptr<Entry>>> gone;  // ends without the lock
    const std::lock_guard lock(mutex_);
    entries.emplace_front(std::move(signature), std::move(entry));
    if (entries.size() > kMaximumPrograms) gone.splice(gone.end(), entries, --entries.end());
  }

  std::shared_ptr<StepProgram> program_for(const std::map<std::string, Data>& inputs) {
    const Signature signature = check_inputs(inputs);
    if (auto found = find(programs_, signature)) return found;
    auto step = std::make_shared<StepProgram>(compile(signature));
    keep(programs_, signature, step);
    return step;
  }

  std::shared_ptr<LossProgram> loss_program(const Signature& signature) {
    if (auto found = find(losses_, signature)) return found;
    autodiff::OpenModel model{specialised(signature), {}, {}};
    auto made = std::make_shared<LossProgram>();
    made->classes = classes_of(model.graph);
    simplify(model.graph);
    Graph graph = autodiff::make_loss_graph(model, setup_, given_target(signature));
    made->program = Program::compile(std::move(graph), program_options());
    keep(losses_, signature, made);
    return made;
  }

  std::shared_ptr<Program> evaluation_program() {
    {
      const std::lock_guard lock(mutex_);
      if (evaluation_) return evaluation_;
    }
    std::shared_ptr<Program> made = Program::compile(Graph(model_.graph), program_options());
    const std::lock_guard lock(mutex_);
    return evaluation_ = std::move(made);
  }

  StepProgram compile(const Signature& signature) const {
    Graph model = specialised(signature);
    StepProgram step;
    step.classes = classes_of(model);
    autodiff::TrainingGraph training = build_graph(std::move(model), given_target(signature));
    if (options_.detect_anomaly) step.watched = training.graph;
    ProgramOptions program = program_options();
    if (!options_.detect_anomaly) program.aliases = training.aliases;
    step.program = Program::compile(std::move(training.graph), program);
    for (const Port& port : step.program->inputs()) {
      step.sources.push_back(source_of(port, training, step));
    }
    const std::vector<Port>& outputs = step.program->outputs();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      for (const auto& [input, output] : training.aliases) {
        if (output == outputs[i].name) step.updates.emplace_back(i, index_.at(input));
      }
      if (!training.finite.empty() && outputs[i].name == training.finite) step.finite = i;
    }
    step.loss = Tensor::allocate(outputs[0].type.dtype, *outputs[0].type.static_dims());
    return step;
  }

  Source source_of(const Port& port, const autodiff::TrainingGraph& training,
                   StepProgram& step) const {
    if (const auto found = index_.find(port.name); found != index_.end()) {
      return {Source::Kind::kState, found->second};
    }
    const auto data = std::find(inputs_.begin(), inputs_.end(), port.name);
    if (data != inputs_.end()) {
      return {Source::Kind::kData, static_cast<std::size_t>(data - inputs_.begin())};
    }
    if (port.name == training.drop_key) {
      step.key = Tensor::allocate(DType::kUInt32, {});
      return {Source::Kind::kKey, 0};
    }
    if (port.name == training.loss_scale) {
      step.loss_scale = Tensor::allocate(port.type.dtype, {});
      return {Source::Kind::kLossScale, 0};
    }
    if (port.name == training.gradient_factor) {
      step.gradient_factor = Tensor::allocate(port.type.dtype, {});
      return {Source::Kind::kGradientFactor, 0};
    }
    const auto scalar = std::find(training.scalars.begin(), training.scalars.end(), port.name);
    if (scalar == training.scalars.end()) {
      throw Error(ErrorCode::kInternal, "the training program has an input '" + port.name + "'");
    }
    step.scalars.resize(training.scalars.size());
    const auto i = static_cast<std::size_t>(scalar - training.scalars.begin());
    step.scalars[i] = Tensor::allocate(port.type.dtype, {});
    return {Source::Kind::kScalar, i};
  }

  // Of the step's program. Its scalars are written.
  std::vector<Data> values_of(StepProgram& step, const std::map<std::string, Data>& inputs) {
    write_scalars(step);
    std::vector<Data> values(step.sources.size());
    for (std::size_t i = 0; i < step.sources.size(); ++i) {
      const Source& source = step.sources[i];
      switch (source.kind) {
        case Source::Kind::kData:
          values[i] = inputs.at(inputs_[source.index]);
          break;
        case Source::Kind::kState:
          values[i] = states_[source.index].now;
          break;
        case Source::Kind::kScalar:
          values[i] = step.scalars[source.index];
          break;
        case Source::Kind::kKey:
          values[i] = step.key;
          break;
        case Source::Kind::kLossScale:
          values[i] = step.loss_scale;
          break;
        case Source::Kind::kGradientFactor:
          values[i] = step.gradient_factor;
          break;
      }
    }
    return values;
  }

  void write_scalars(StepProgram& step) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < step.scalars.size(); ++i) {
      const std::int64_t updates = step_ - scale_.skipped();
      put(step.scalars[i], optimizer_.scalars()[i].value(updates + 1, rate_));
    }
    if (step.loss_scale.defined()) put(step.loss_scale, scale_.value());
    if (step.gradient_factor.defined()) put(step.gradient_factor, 1 / scale_.value());
    if (step.key.defined()) {
      // One key per seed and step; the multiplications keep neighbours apart.
      std::uint64_t key = options_.seed * 0xD1342543DE82EF95U +
                          static_cast<std::uint64_t>(step_) * 0x9E3779B97F4A7C15U;
      key = (key ^ key >> 32U) * 0xBF58476D1CE4E5B9U;
      *step.key.data<std::uint32_t>() = static_cast<std::uint32_t>(key >> 32U);
    }
  }

  void check_finite(const StepProgram& step, const std::vector<Data>& values, double loss) const {
    std::string what;
    if (!std::isfinite(loss)) what = fmt::format("the loss is {}", loss);
    for (const auto& [output, state] : step.updates) {
      if (what.empty() && first_not_finite(states_[state].next)) {
        what = fmt::format("the next value of '{}' is not finite", states_[state].name);
      }
    }
    if (what.empty()) return;
    std::map<std::string, Data> inputs;
    for (std::size_t i = 0; i < step.sources.size(); ++i) {
      inputs.emplace(step.program->inputs()[i].name, values[i]);
    }
    fail(fmt::format("step {}: {}: {}. The weights are as they were before the step", step_, what,
                     find_not_finite(*step.watched, inputs)));
  }

  std::vector<Data> run_with_state(Program& program, const std::map<std::string, Data>& inputs) {
    std::vector<Data> values;
    for (const Port& port : program.inputs()) {
      const auto found = index_.find(port.name);
      if (found != index_.end()) {
        values.emplace_back(states_[found->second].now);
        continue;
      }
      const auto given = inputs.find(port.name);
      if (given == inputs.end()) fail(fmt::format("input '{}' was not given", port.name));
      values.push_back(given->second);
    }
    std::vector<Data> outputs;
    program.run(values, outputs);
    return outputs;
  }

  TrainerOptions options_;
  LossScale scale_;
  autodiff::TrainingSetup setup_;
  autodiff::Optimizer optimizer_;
  autodiff::OpenModel model_;
  std::vector<State> states_;
  std::map<std::string, std::size_t> index_;
  std::vector<std::string> parameters_;
  std::vector<std::string> inputs_;
  mutable MemberPerProcess<std::recursive_timed_mutex> turn_;
  mutable ForkMutex mutex_;  // of all below, of scale_, and of which tensors states_ has
  std::list<std::pair<Signature, std::shared_ptr<StepProgram>>> programs_;  // newest first
  std::list<std::pair<Signature, std::shared_ptr<LossProgram>>> losses_;
  std::shared_ptr<Program> evaluation_;
  double rate_;
  std::int64_t step_ = 0;
  std::shared_ptr<const Schedule> schedule_;  // null: none
};

}  // namespace

Trainer::~Trainer() = default;

std::unique_ptr<Trainer> Trainer::create(Graph model, const TrainerOptions& options) {
  return std::make_unique<TrainerImpl>(std::move(model), options);
}

}  // namespace xrt
