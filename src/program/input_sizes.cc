// SPDX-License-Identifier: Apache-2.0
#include "program/input_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/nearest.h"
#include "ops/shape_inference.h"
#include "xrt/error.h"

namespace xrt {
namespace {

[[noreturn]] void refuse_sizes(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what);
}

// What declared dimensions become, by name. Two names for one dimension, or two sizes, are refused.
class Renaming {
 public:
  void add(const std::string& from, const Dim& to) {
    if (to == Dim(from)) return;
    const auto [known, is_new] = dims_.emplace(from, to);
    if (is_new || known->second == to) return;
    refuse_sizes(fmt::format("shapes: the dimension '{}' of the model is both '{}' and '{}'", from,
                             text(known->second), text(to)));
  }
  // What the model calls `dim`. Names swap at once: what a name became is not renamed again.
  Dim of(const Dim& dim) const {
    const auto found = dim.is_symbol() ? dims_.find(dim.symbol()) : dims_.end();
    return found == dims_.end() ? dim : found->second;
  }

 private:
  static std::string text(const Dim& dim) {
    return dim.is_known() ? std::to_string(dim.value()) : dim.symbol();
  }
  std::map<std::string, Dim> dims_;
};

std::vector<InputType> inputs_of(const Graph& graph) {
  std::vector<InputType> inputs;
  for (const ValueId v : graph.inputs()) inputs.push_back({graph.value(v).name, graph.type(v)});
  return inputs;
}

// The names of all dimensions that are no numbers, each once.
std::vector<std::string> open_dimensions(const std::vector<InputType>& inputs) {
  std::vector<std::string> names;
  for (const InputType& input : inputs) {
    if (!input.type.has_rank()) continue;
    for (std::size_t d = 0; d < input.type.rank(); ++d) {
      const Dim& dim = (*input.type.shape)[d];
      if (dim.is_known()) continue;
      const std::string name = dimension_name(input.name, d, dim);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

// What `shapes` says of an input, checked; what it says of declared names goes to `renaming`.
Shape wanted_shape(const InputType& input, const std::string& text, Renaming& renaming) {
  const std::string place = "shapes: input '" + input.name + "' (" + to_string(input.type) + ")";
  if (!input.type.is_tensor()) refuse_sizes(place + " is no tensor");
  Shape wanted = parse_shape(input.name, text);
  if (!input.type.has_rank()) return wanted;
  if (wanted.size() != input.type.rank()) {
    refuse_sizes(fmt::format("{} has {} dimensions, '{}' has {}", place, input.type.rank(), text,
                             wanted.size()));
  }
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    const Dim& declared = (*input.type.shape)[d];
    if (wanted[d] == Dim()) wanted[d] = declared;
    if (declared.is_symbol()) renaming.add(declared.symbol(), wanted[d]);
    if (!declared.is_known() || wanted[d] == declared) continue;
    refuse_sizes(fmt::format("{}: dimension {} is {} in the model and cannot be {}", place, d,
                             declared.value(),
                             wanted[d].is_known() ? std::to_string(wanted[d].value())
                                                  : "named '" + wanted[d].symbol() + "'"));
  }
  return wanted;
}

// Applies `shapes` and single sizes of `ranges`. Whether anything changed.
bool apply_shapes(std::vector<InputType>& inputs, const ProgramOptions& options) {
  std::vector<std::string> names;
  names.reserve(inputs.size());
  for (const InputType& input : inputs) names.push_back(input.name);
  for (const auto& [name, text] : options.shapes) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      refuse_sizes(
          fmt::format("shapes: the model has no input '{}'{}", name, suggestion(name, names)));
    }
  }
  const std::vector<InputType> before = inputs;
  Renaming renaming;
  std::vector<Shape> wanted(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto given = options.shapes.find(inputs[i].name);
    if (given == options.shapes.end()) continue;
    wanted[i] = wanted_shape(inputs[i], given->second, renaming);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Type& type = inputs[i].type;
    if (!type.has_rank()) {
      if (options.shapes.contains(inputs[i].name)) type = Type::tensor(type.dtype, wanted[i]);
      continue;
    }
    for (std::size_t d = 0; d < type.rank(); ++d) {
      Dim& dim = (*type.shape)[d];
      dim = dim == Dim() && !wanted[i].empty() ? wanted[i][d] : renaming.of(dim);
    }
  }

  const std::vector<std::string> open = open_dimensions(inputs);
  for (const NamedRange& range : named_ranges(options)) {
    if (std::find(open.begin(), open.end(), range.name) == open.end()) {
      refuse_sizes(
          fmt::format("ranges: the inputs have no open dimension '{}'{}", range.name,
                      open.empty() ? "; all their sizes are fixed" : suggestion(range.name, open)));
    }
    if (range.least != range.most) continue;
    for (InputType& input : inputs) {
      for (std::size_t d = 0; d < input.type.rank(); ++d) {
        Dim& dim = (*input.type.shape)[d];
        if (dim.is_known() || dimension_name(input.name, d, dim) != range.name) continue;
        dim = Dim(range.least);
      }
    }
  }
  return !std::equal(inputs.begin(), inputs.end(), before.begin(), before.end(),
                     [](const InputType& a, const InputType& b) { return a.type == b.type; });
}

}  // namespace

std::string dimension_name(const std::string& input, std::size_t position, const Dim& dim) {
  return dim.is_symbol() ? dim.symbol() : fmt::format("{}[{}]", input, position);
}

ProgramOptions refine_inputs(Graph& graph, ProgramOptions options) {
  std::vector<InputType> inputs = inputs_of(graph);
  if (apply_shapes(inputs, options)) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      graph.set_type(graph.inputs()[i], inputs[i].type);
    }
    infer_shapes(graph, /*reset=*/true);
  }
  return with_ranges_of(inputs, std::move(options));
}

ProgramOptions with_ranges_of(const std::vector<InputType>& inputs, ProgramOptions options) {
  const std::vector<std::string> open = open_dimensions(inputs);
  std::vector<NamedRange> ranges = named_ranges(options);
  std::erase_if(ranges, [&](const NamedRange& range) {
    return std::find(open.begin(), open.end(), range.name) == open.end();
  });
  const auto is_known = [&](const std::string& name) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const NamedRange& range) { return range.name == name; });
  };
  for (const InputType& input : inputs) {
    if (options.max_batch_size == 0 || input.type.rank() == 0) continue;
    const Dim& first = input.type.shape->front();
    if (first.is_known()) continue;
    const std::string name = dimension_name(input.name, 0, first);
    if (!is_known(name))
      ranges.push_back({name, 1, options.max_batch_size, options.max_batch_size});
  }
  options.ranges = to_option(ranges);
  return options;
}

}  // namespace xrt
