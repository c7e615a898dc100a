// SPDX-License-Identifier: Apache-2.0
#include "engines/tvm/user_code.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <variant>

#include "ops/op_registry.h"
#include "xrt/error.h"

namespace xrt::tvm_engine {
namespace {

using Json = nlohmann::json;

// JSON knows neither bytes that are no UTF-8, nor infinities and NaN.
Json hex(const void* bytes, std::size_t count) {
  std::string text;
  text.reserve(2 * count);
  const auto* from = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", from[i]);
  return text;
}

Json value_of(std::int64_t value) { return value; }
Json value_of(float value) { return fmt::format("{:a}", static_cast<double>(value)); }
Json value_of(const std::string& value) { return hex(value.data(), value.size()); }

template <typename T>
Json values_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(value_of(value));
  return list;
}

Json tensor_of(const Tensor& tensor) {
  Json list = Json::array();
  list.push_back(std::string(to_string(tensor.dtype())));
  list.push_back(Json(std::vector<std::int64_t>(tensor.dims().begin(), tensor.dims().end())));
  list.push_back(hex(tensor.raw(), tensor.bytes()));
  return list;
}

std::optional<Json> attribute_of(const Attribute& attribute) {
  if (const auto* i = std::get_if<std::int64_t>(&attribute)) return Json{"int", value_of(*i)};
  if (const auto* f = std::get_if<float>(&attribute)) return Json{"float", value_of(*f)};
  if (const auto* s = std::get_if<std::string>(&attribute)) return Json{"text", value_of(*s)};
  if (const auto* t = std::get_if<Tensor>(&attribute)) {
    if (t->dtype() == DType::kString) return std::nullopt;
    return Json{"array", tensor_of(*t)};
  }
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute)) {
    return Json{"ints", values_of(*list)};
  }
  if (const auto* list = std::get_if<std::vector<float>>(&attribute)) {
    return Json{"floats", values_of(*list)};
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&attribute)) {
    return Json{"texts", values_of(*list)};
  }
  return std::nullopt;
}

Json code_of(const Graph& graph, const Node& node, std::string source) {
  const RegisteredOp* op = registered_op(graph, node);
  Json attributes = Json::object();
  for (const auto& [name, value] : complete_attributes(op->definition, node)) {
    std::optional<Json> encoded = attribute_of(value);
    if (!encoded) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("tvm: node '{}' ({}): attribute '{}' is of a kind that code for TVM "
                              "cannot be given",
                              node.name, node.qualified_op(), name));
    }
    attributes[name] = *std::move(encoded);
  }
  Json results = Json::array();
  for (const ValueId output : node.outputs) {
    const Type& type = graph.type(output);
    results.push_back(Json::array({std::string(to_string(type.dtype)), Json(*type.static_dims())}));
  }
  Json code = Json::object();
  code["node"] = node.name;
  code["op"] = node.qualified_op();
  code["output"] = graph.value(node.outputs[0]).name;
  code["source"] = std::move(source);
  code["attributes"] = std::move(attributes);
  code["results"] = std::move(results);
  return code;
}

}  // namespace

bool has_user_code(const Graph& graph, const Node& node) {
  return engine_code(graph, node, "tvm").has_value();
}

std::string user_code(const Graph& graph) {
  Json list = Json::array();
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (std::optional<std::string> source = engine_code(graph, node, "tvm")) {
      list.push_back(code_of(graph, node, *std::move(source)));
    }
  }
  try {
    return list.dump();
  } catch (const Json::type_error& error) {
    throw Error(ErrorCode::kEngine,
                fmt::format("tvm: code of a user's op, or a name beside it, is no UTF-8: {}",
                            error.what()));
  }
}

}  // namespace xrt::tvm_engine
