// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "quantize/observer.h"
#include "quantize/scheme.h"
#include "xrt/error.h"

namespace xrt {
namespace {

std::span<const float> elements(const Tensor& t) {
  return {t.data<float>(), static_cast<std::size_t>(t.count())};
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// Of the scheme's values, where `clipping` stands for what no rule says.
std::vector<std::unique_ptr<quantization::Observer>> observers_of(
    const quantization::Scheme& scheme, const QuantizeOptions& options, Clipping clipping) {
  QuantizeOptions own = options;
  std::vector<std::unique_ptr<quantization::Observer>> made;
  for (const std::optional<Clipping>& ruled : scheme.clippings) {
    own.clipping = ruled.value_or(clipping);
    made.push_back(quantization::make_observer(own));
  }
  return made;
}

}  // namespace

const std::vector<std::string>& clipping_names() {
  static const std::vector<std::string> names = {"minmax", "moving_average", "percentile",
                                                 "entropy", "mse"};
  return names;
}

Clipping clipping_of(std::string_view text) {
  const std::vector<std::string>& names = clipping_names();
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<Clipping>(found - names.begin());
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("clipping '{}': there are {}", text, fmt::join(names, ", ")));
}

struct Calibrator::State {
  std::vector<std::string> input_names, value_names;
  std::vector<Type> input_types;
  std::vector<Clipping> clippings;
  // Of each clipping, those of value_names.
  std::vector<std::vector<std::unique_ptr<quantization::Observer>>> observers;
  struct Place {
    bool is_input = false;
    std::size_t index = 0;
  };
  std::vector<Place> places;  // of value_names, among the sample or the run's outputs
  GraphRun run;
  std::size_t samples = 0;
  std::size_t given = 0;  // those that do not count, too
};

Calibrator::Calibrator(const Graph& graph, const QuantizeOptions& options,
                       const GraphRunner& runner, std::vector<Clipping> clippings)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.clippings = std::move(clippings);
  if (s.clippings.empty()) s.clippings.push_back(options.clipping);
  const quantization::Scheme scheme = quantization::make_scheme(graph, options);
  if (scheme.nodes.empty() && !scheme.too_small.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("graph '{}' has nothing to quantise: {}", graph.name(),
                            too_small_note(scheme.too_small)));
  }
  if (scheme.nodes.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("graph '{}' has no Conv, Gemm or MatMul by constant float32 weights to "
                            "quantise (a model with QuantizeLinear already is quantised)",
                            graph.name()));
  }
  Graph watched = graph;
  for (const ValueId id : graph.inputs()) {
    s.input_names.push_back(graph.value(id).name);
    s.input_types.push_back(graph.type(id));
  }
  for (const Clipping clipping : s.clippings) {
    s.observers.push_back(observers_of(scheme, options, clipping));
  }
  for (std::size_t i = 0; i < scheme.values.size(); ++i) {
    const ValueId id = scheme.values[i];
    s.value_names.push_back(graph.value(id).name);
    // A graph input is seen in the sample, everything else as an output.
    const auto input = std::find(graph.inputs().begin(), graph.inputs().end(), id);
    if (input != graph.inputs().end()) {
      s.places.push_back({true, static_cast<std::size_t>(input - graph.inputs().begin())});
      continue;
    }
    const auto& outputs = watched.outputs();
    const auto known = std::find(outputs.begin(), outputs.end(), id);
    s.places.push_back({false, static_cast<std::size_t>(known - outputs.begin())});
    if (known == outputs.end()) watched.add_output(id);
  }
  s.run = runner(std::move(watched));
}

Calibrator::Calibrator(Calibrator&&) noexcept = default;
Calibrator& Calibrator::operator=(Calibrator&&) noexcept = default;
Calibrator::~Calibrator() = default;

std::size_t Calibrator::samples() const { return state_->samples; }

void Calibrator::add(const std::vector<Tensor>& sample) {
  State& s = *state_;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("calibration sample {}: {}", s.given + 1, why));
  };
  if (sample.size() != s.input_names.size()) {
    refuse(fmt::format("{} values for {} inputs", sample.size(), s.input_names.size()));
  }
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const Type& want = s.input_types[i];
    const auto dims = want.static_dims();
    if (!sample[i].defined()) refuse(fmt::format("input '{}' is missing", s.input_names[i]));
    if (sample[i].dtype() != want.dtype || (dims && sample[i].dims() != *dims)) {
      refuse(fmt::format("input '{}' must be {}, not {}{}", s.input_names[i], to_string(want),
                         to_string(sample[i].dtype()), to_string(sample[i].dims())));
    }
    if (want.dtype != DType::kFloat32) continue;
    for (const float v : elements(sample[i])) {
      if (!std::isfinite(v)) {
        refuse(fmt::format("input '{}' holds {}", s.input_names[i], v));
      }
    }
  }
  const std::vector<Tensor> outputs = s.run(sample);
  const auto value = [&](std::size_t i) {
    const State::Place& at = s.places[i];
    return elements(at.is_input ? sample[at.index] : outputs.at(at.index));
  };
  // A sample counts for all values or for none.
  for (std::size_t i = 0; i < s.value_names.size(); ++i) {
    if (all_finite(value(i))) continue;
    refuse(fmt::format("value '{}' is not finite: the model overflows on it in float32",
                       s.value_names[i]));
  }
  ++s.given;
  bool any = false;
  for (std::size_t i = 0; i < s.value_names.size(); ++i) any = any || !value(i).empty();
  if (!any) return;
  for (const auto& observers : s.observers) {
    for (std::size_t i = 0; i < observers.size(); ++i) observers[i]->add(value(i));
  }
  ++s.samples;
}

ValueRanges Calibrator::ranges() const { return ranges(state_->clippings.front()); }

ValueRanges Calibrator::ranges(Clipping clipping) const {
  const State& s = *state_;
  if (s.samples == 0) {
    throw Error(ErrorCode::kInvalidArgument, "calibration needs at least one sample");
  }
  const auto found = std::find(s.clippings.begin(), s.clippings.end(), clipping);
  if (found == s.clippings.end()) {
    throw Error(ErrorCode::kInternal,
                "a calibrator is asked for a clipping that it does not watch");
  }
  const auto& observers = s.observers[static_cast<std::size_t>(found - s.clippings.begin())];
  ValueRanges result;
  for (std::size_t i = 0; i < observers.size(); ++i) {
    result[s.value_names[i]] = observers[i]->range();
  }
  return result;
}

}  // namespace xrt
