// SPDX-License-Identifier: Apache-2.0
#include "quantize/watched_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "xrt/error.h"

namespace xrt::quantization {

WatchedValues::WatchedValues(const Graph& graph, const std::vector<ValueId>& values,
                             const GraphRunner& runner)
    : inputs_(graph.inputs().size()) {
  Graph watched = graph;
  const auto place_in = [](const std::vector<ValueId>& list, ValueId id) {
    return static_cast<std::size_t>(std::find(list.begin(), list.end(), id) - list.begin());
  };
  for (const ValueId id : values) {
    names_.push_back(graph.value(id).name);
    const std::size_t input = place_in(graph.inputs(), id);
    if (input < inputs_) {
      places_.push_back({true, input});
      continue;
    }
    const std::size_t output = place_in(watched.outputs(), id);
    if (output == watched.outputs().size()) watched.add_output(id);
    places_.push_back({false, output});
  }
  run_ = runner(std::move(watched));
}

std::vector<Tensor> WatchedValues::run(const std::vector<Tensor>& sample) const {
  if (sample.size() != inputs_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a sample has {} values for {} inputs", sample.size(), inputs_));
  }
  const std::vector<Tensor> outputs = run_(sample);
  std::vector<Tensor> found;
  found.reserve(places_.size());
  for (const Place& at : places_) {
    found.push_back(at.is_input ? sample[at.index] : outputs.at(at.index));
  }
  return found;
}

}  // namespace xrt::quantization
