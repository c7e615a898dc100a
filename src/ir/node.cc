// SPDX-License-Identifier: Apache-2.0
// Typed access to a node's attributes.
#include "xrt/error.h"
#include "xrt/graph.h"

namespace xrt {
namespace {

// The attribute as T, null if absent; a value of another type is the model's fault.
template <typename T>
const T* find(const Node& node, std::string_view name, const char* wanted) {
  const auto it = node.attributes.find(name);
  if (it == node.attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&it->second);
  if (value == nullptr) {
    throw Error(ErrorCode::kInvalidModel, "node '" + node.name + "' (" + node.qualified_op() +
                                              "): attribute '" + std::string(name) +
                                              "' is not of type " + wanted);
  }
  return value;
}

}  // namespace

std::int64_t Node::attr_int(std::string_view attribute, std::int64_t fallback) const {
  const auto* v = find<std::int64_t>(*this, attribute, "int");
  return v != nullptr ? *v : fallback;
}

float Node::attr_float(std::string_view attribute, float fallback) const {
  const auto* v = find<float>(*this, attribute, "float");
  return v != nullptr ? *v : fallback;
}

std::string Node::attr_string(std::string_view attribute, std::string_view fallback) const {
  const auto* v = find<std::string>(*this, attribute, "string");
  return v != nullptr ? *v : std::string(fallback);
}

std::vector<std::int64_t> Node::attr_ints(std::string_view attribute,
                                          std::vector<std::int64_t> fallback) const {
  const auto* v = find<std::vector<std::int64_t>>(*this, attribute, "ints");
  if (v != nullptr) return *v;
  return fallback;
}

std::vector<float> Node::attr_floats(std::string_view attribute,
                                     std::vector<float> fallback) const {
  const auto* v = find<std::vector<float>>(*this, attribute, "floats");
  if (v != nullptr) return *v;
  return fallback;
}

std::vector<std::string> Node::attr_strings(std::string_view attribute) const {
  const auto* v = find<std::vector<std::string>>(*this, attribute, "strings");
  return v != nullptr ? *v : std::vector<std::string>{};
}

const Tensor* Node::attr_tensor(std::string_view attribute) const {
  return find<Tensor>(*this, attribute, "tensor");
}

std::shared_ptr<const Graph> Node::attr_graph(std::string_view attribute) const {
  const auto* v = find<std::shared_ptr<Graph>>(*this, attribute, "graph");
  return v != nullptr ? *v : nullptr;
}

std::string Node::qualified_op() const { return domain.empty() ? op : domain + "." + op; }

}  // namespace xrt
