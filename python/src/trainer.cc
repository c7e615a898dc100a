// SPDX-License-Identifier: Apache-2.0
#include "trainer.h"

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gil.h"
#include "graph.h"
#include "options.h"
#include "program.h"
#include "values/convert.h"
#include "xrt/autodiff.h"
#include "xrt/error.h"
#include "xrt/onnx.h"
#include "xrt/trainer.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

using Options = nb::dict;

// Moves entry `key` of `options` to `field`; what is left over in the end is unknown.
template <typename T>
void take(Options& options, const char* key, T& field) {
  if (!options.contains(key)) return;
  const nb::object given = options[key];
  try {
    field = nb::cast<T>(given);
  } catch (const nb::cast_error&) {
    const std::string what = fmt::format("{} is {}, which is of a wrong type or too large", key,
                                         nb::cast<std::string>(nb::repr(given)));
    throw nb::type_error(what.c_str());
  }
  nb::del(options[key]);
}

void refuse_rest(const Options& options, const char* what) {
  for (auto [key, value] : options) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: there is no option '{}'", what, nb::cast<std::string>(key)));
  }
}

LossOptions loss_options(Options options) {
  LossOptions loss;
  take(options, "kind", loss.kind);
  take(options, "reduction", loss.reduction);
  take(options, "label_smoothing", loss.label_smoothing);
  take(options, "ignore_index", loss.ignore_index);
  take(options, "class_probabilities", loss.class_probabilities);
  take(options, "delta", loss.delta);
  refuse_rest(options, "loss");
  return loss;
}

OptimizerOptions optimizer_options(Options options) {
  OptimizerOptions optimizer;
  take(options, "name", optimizer.name);
  take(options, "learning_rate", optimizer.learning_rate);
  take(options, "weight_decay", optimizer.weight_decay);
  take(options, "momentum", optimizer.momentum);
  take(options, "dampening", optimizer.dampening);
  take(options, "nesterov", optimizer.nesterov);
  take(options, "alpha", optimizer.alpha);
  take(options, "centered", optimizer.centered);
  take(options, "beta1", optimizer.beta1);
  take(options, "beta2", optimizer.beta2);
  take(options, "amsgrad", optimizer.amsgrad);
  take(options, "learning_rate_decay", optimizer.learning_rate_decay);
  take(options, "initial_accumulator", optimizer.initial_accumulator);
  take(options, "epsilon", optimizer.epsilon);
  take(options, "clip_value", optimizer.clip_value);
  take(options, "clip_norm", optimizer.clip_norm);
  refuse_rest(options, "optimizer");
  return optimizer;
}

LossScaleOptions loss_scale_options(Options options) {
  LossScaleOptions scale;
  take(options, "kind", scale.kind);
  take(options, "initial", scale.initial);
  take(options, "growth", scale.growth);
  take(options, "backoff", scale.backoff);
  take(options, "growth_interval", scale.growth_interval);
  refuse_rest(options, "loss_scale");
  return scale;
}

TrainerOptions trainer_options(Options options) {
  TrainerOptions trainer;
  Options loss, optimizer, loss_scale, program;
  take(options, "loss", loss);
  take(options, "optimizer", optimizer);
  take(options, "loss_scale", loss_scale);
  take(options, "program", program);
  take(options, "parameters", trainer.parameters);
  take(options, "frozen", trainer.frozen);
  take(options, "prediction", trainer.prediction);
  take(options, "train_mode", trainer.train_mode);
  take(options, "seed", trainer.seed);
  take(options, "detect_anomaly", trainer.detect_anomaly);
  take(options, "reduction", trainer.reduction);
  Options recompute;
  take(options, "recompute", recompute);
  take(recompute, "kind", trainer.recompute.kind);
  take(recompute, "segments", trainer.recompute.segments);
  refuse_rest(recompute, "recompute");
  refuse_rest(options, "Trainer");
  trainer.loss = loss_options(std::move(loss));
  trainer.optimizer = optimizer_options(std::move(optimizer));
  trainer.loss_scale = loss_scale_options(std::move(loss_scale));
  for (auto [key, value] : program) {
    const auto name = nb::cast<std::string>(key);
    if (find_option(name).trainer) continue;
    throw Error(ErrorCode::kInvalidArgument, fmt::format("Trainer has no option '{}'", name));
  }
  set_options(trainer.program, program);
  return trainer;
}

// A Graph, the bytes of an ONNX model, or a path.
Graph read_model(const nb::object& model) {
  if (const Graph* graph = as_graph(model)) return *graph;
  if (nb::isinstance<nb::bytes>(model)) {
    const auto bytes = nb::cast<nb::bytes>(model);
    return import_onnx_bytes({bytes.c_str(), bytes.size()});
  }
  return import_onnx(nb::cast<std::filesystem::path>(model));
}

class PyTrainer {
 public:
  PyTrainer(const nb::object& model, const Options& options) {
    const TrainerOptions converted = trainer_options(Options(options));
    Graph graph = read_model(model);
    ReleasedGil release;
    trainer_ = Trainer::create(std::move(graph), converted);
  }

  double step(const nb::dict& inputs) {
    const auto data = convert(inputs);
    ReleasedGil release;
    return trainer_->step(data);
  }

  double loss(const nb::dict& inputs) {
    const auto data = convert(inputs);
    ReleasedGil release;
    return trainer_->loss(data);
  }

  nb::list evaluate(const nb::dict& inputs) {
    const auto data = convert(inputs);
    std::vector<Data> outputs;
    {
      ReleasedGil release;
      outputs = trainer_->evaluate(data);
    }
    nb::list results;
    for (const Data& output : outputs) results.append(to_python(output));
    return results;
  }

  nb::dict state(bool copy) const {
    nb::dict result;
    for (const auto& [name, tensor] : trainer_->state()) {
      result[name.c_str()] = to_python(copy ? tensor.clone() : tensor);
    }
    return result;
  }

  void set_state(const nb::dict& values) {
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, data] : convert(values)) tensors.emplace(name, data.tensor());
    ReleasedGil release;
    trainer_->set_state(tensors);
  }

  Graph model() const {
    ReleasedGil release;
    return trainer_->model();
  }

  Trainer& trainer() const { return *trainer_; }

 private:
  static std::map<std::string, Data> convert(const nb::dict& values) {
    std::map<std::string, Data> data;
    for (auto [key, value] : values) {
      const auto name = nb::cast<std::string>(key);
      data.emplace(name, to_data(value, Type{}, fmt::format("input '{}'", name), Access::kRead));
    }
    return data;
  }

  std::unique_ptr<Trainer> trainer_;
};

nb::object explain_trainer(const PyTrainer& self) {
  Explanation explanation;
  {
    ReleasedGil release;
    explanation = self.trainer().explain();
  }
  return explanation_object(std::move(explanation), {}, {});
}

}  // namespace

void bind_trainer(nb::module_& module) {
  nb::class_<PyTrainer>(module, "Trainer", "See openxrt.Trainer.")
      .def(nb::init<const nb::object&, const Options&>(), nb::arg("model"), nb::arg("options"))
      .def("step", &PyTrainer::step, nb::arg("inputs"))
      .def("loss", &PyTrainer::loss, nb::arg("inputs"))
      .def("evaluate", &PyTrainer::evaluate, nb::arg("inputs"))
      .def("state", &PyTrainer::state, nb::arg("copy") = true)
      .def("set_state", &PyTrainer::set_state, nb::arg("values"))
      .def("save",
           [](const PyTrainer& self, const std::filesystem::path& path) {
             ReleasedGil release;
             self.trainer().save(path);
           })
      .def("load",
           [](const PyTrainer& self, const std::filesystem::path& path) {
             ReleasedGil release;
             self.trainer().load(path);
           })
      .def("model", [](const PyTrainer& self) { return graph_object(self.model()); })
      .def("explain", explain_trainer)
      .def("graph_text", [](const PyTrainer& self) { return self.trainer().graph_text(); })
      .def_prop_rw(
          "learning_rate", [](const PyTrainer& self) { return self.trainer().learning_rate(); },
          [](const PyTrainer& self, double rate) { self.trainer().set_learning_rate(rate); })
      .def_prop_ro("step_count", [](const PyTrainer& self) { return self.trainer().step_count(); })
      .def_prop_ro("loss_scale", [](const PyTrainer& self) { return self.trainer().loss_scale(); })
      .def_prop_ro("skipped_steps",
                   [](const PyTrainer& self) { return self.trainer().skipped_steps(); })
      .def_prop_ro("input_names",
                   [](const PyTrainer& self) { return self.trainer().input_names(); })
      .def_prop_ro("parameter_names",
                   [](const PyTrainer& self) { return self.trainer().parameter_names(); });

  module.def(
      "gradient_kind",
      [](const std::string& domain, const std::string& op) {
        switch (gradient_kind(domain, op)) {
          case GradientKind::kRule:
            return "rule";
          case GradientKind::kZero:
            return "zero";
          case GradientKind::kExpanded:
            return "expanded";
          case GradientKind::kNone:
            break;
        }
        return "none";
      },
      nb::arg("domain"), nb::arg("op"),
      "How an op is differentiated: \"rule\", \"zero\", \"expanded\" or \"none\".");
}

}  // namespace xrt::python
