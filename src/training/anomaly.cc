// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "training/parts.h"
#include "xrt/program.h"

namespace xrt {
namespace {

template <typename T>
std::optional<std::int64_t> scan(const Tensor& tensor) {
  const T* data = tensor.data<T>();
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if (!std::isfinite(data[i])) return i;
  }
  return std::nullopt;
}

template <typename T>
std::string number(const Tensor& tensor, std::int64_t i) {
  return fmt::format("{}", tensor.data<T>()[i]);
}

std::string describe(const Tensor& tensor, std::int64_t i) {
  const std::string what =
      tensor.dtype() == DType::kFloat32 ? number<float>(tensor, i) : number<double>(tensor, i);
  return fmt::format("{} at element {} of {}{}", what, i, to_string(tensor.dtype()),
                     to_string(tensor.dims()));
}

}  // namespace

std::optional<std::int64_t> first_not_finite(const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat32) return scan<float>(tensor);
  if (tensor.dtype() == DType::kFloat64) return scan<double>(tensor);
  return std::nullopt;
}

std::string find_not_finite(const Graph& graph, const std::map<std::string, Data>& inputs) {
  for (const auto& [name, data] : inputs) {
    if (!data.is_tensor()) continue;
    if (const auto at = first_not_finite(data.tensor())) {
      return fmt::format("input '{}' holds {}", name, describe(data.tensor(), *at));
    }
  }
  Graph watched(graph);
  const std::size_t before = watched.outputs().size();
  std::vector<std::string> makers;
  for (const NodeId id : watched.topological_order()) {
    const Node& node = watched.node(id);
    for (const ValueId v : node.outputs) {
      if (!v.valid() || !watched.type(v).is_static() || watched.is_output(v)) continue;
      const DType dtype = watched.type(v).dtype;
      if (dtype != DType::kFloat32 && dtype != DType::kFloat64) continue;
      makers.push_back(fmt::format("node '{}' ({})", node.name, node.qualified_op()));
      watched.add_output(v);
    }
  }
  ProgramOptions options;
  options.engines = {fallback_engine()};
  const std::vector<Data> outputs = Program::compile(std::move(watched), options)->run(inputs);
  for (std::size_t i = 0; i < makers.size(); ++i) {
    const Tensor& made = outputs.at(before + i).tensor();
    if (const auto at = first_not_finite(made)) {
      return fmt::format("{} made {}", makers[i], describe(made, *at));
    }
  }
  return "every value is finite on the native engine";
}

}  // namespace xrt
