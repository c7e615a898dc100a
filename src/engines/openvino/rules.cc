// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/rules.h"

#include <algorithm>
#include <utility>

namespace xrt::openvino {
namespace {

// Why values of this dtype cannot pass through OpenVINO's CPU plugin unchanged.
std::optional<std::string> dtype_refusal(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "the CPU plugin computes float64 in float32";
    case DType::kString:
      return "strings are not tensors of the CPU plugin";
    case DType::kComplex64:
    case DType::kComplex128:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2FNUZ:
    case DType::kInt2:
      return "OpenVINO has no type " + std::string(to_string(dtype));
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
    case DType::kFloat8E8M0:
    case DType::kFloat4E2M1:
    case DType::kUInt4:
    case DType::kInt4:
    case DType::kUInt2:
      return std::string(to_string(dtype)) + " is a storage type of weights to the CPU plugin";
    default:
      return std::nullopt;
  }
}

std::optional<std::string> type_refusal(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.type.is_tensor()) {
    return "'" + value.name + "' is not a tensor but " + to_string(value.type);
  }
  if (value.type.dtype == DType::kUndefined) return "the dtype of '" + value.name + "' is unknown";
  if (!value.type.shape) {
    return "the CPU plugin needs to know the rank of '" + value.name + "'";
  }
  if (auto reason = dtype_refusal(value.type.dtype)) return "'" + value.name + "': " + *reason;
  return std::nullopt;
}

// 64-bit integers become int32 inside the CPU plugin: constants that do not fit would be clamped.
std::optional<std::string> range_refusal(const Graph& graph, ValueId id) {
  const Tensor* tensor = graph.constant(id);
  if (tensor == nullptr) return std::nullopt;
  const auto outside = [&](auto tag) {
    using T = decltype(tag);
    const T* values = tensor->data<T>();
    return std::any_of(values, values + tensor->count(),
                       [](T value) { return !std::in_range<std::int32_t>(value); });
  };
  bool bad = false;
  switch (tensor->dtype()) {
    case DType::kInt64:
      bad = outside(std::int64_t{});
      break;
    case DType::kUInt64:
      bad = outside(std::uint64_t{});
      break;
    case DType::kUInt32:
      bad = outside(std::uint32_t{});
      break;
    default:
      break;
  }
  if (!bad) return std::nullopt;
  return "constant '" + graph.value(id).name +
         "' has values outside the range of int32, in which the CPU plugin computes";
}

}  // namespace

std::optional<std::string> refusal(const Graph& graph, const Node& node) {
  if (!node.domain.empty()) return "OpenVINO has no ops of domain '" + node.domain + "'";
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (!id.valid()) continue;
    if (auto reason = type_refusal(graph, id)) return reason;
    // Bounds of a Slice mean "to the end" where they are larger than the dimension: clamping is
    // what they want.
    if (node.op == "Slice" && i > 0) continue;
    if (auto reason = range_refusal(graph, id)) return reason;
  }
  for (const ValueId id : node.outputs) {
    if (!id.valid()) continue;
    if (auto reason = type_refusal(graph, id)) return reason;
  }
  return std::nullopt;
}

}  // namespace xrt::openvino
