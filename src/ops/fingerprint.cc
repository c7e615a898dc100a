// SPDX-License-Identifier: Apache-2.0
#include "ops/fingerprint.h"

#include <type_traits>

#include "ops/op_registry.h"

namespace xrt {
namespace {

void add_graph(Hasher& hasher, const Graph& graph);

void add_tensor(Hasher& hasher, const Tensor& tensor) {
  hasher.add(static_cast<std::int64_t>(tensor.dtype())).add(to_string(tensor.dims()));
  if (tensor.dtype() == DType::kString) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) hasher.add(tensor.strings()[i]);
  } else if (tensor.bytes() > 0) {
    hasher.add_bytes(tensor.raw(), tensor.bytes());
  }
}

struct AttributeHasher {
  Hasher& hasher;

  void operator()(std::int64_t v) const { hasher.add(v); }
  void operator()(float v) const { hasher.add_bytes(&v, sizeof(v)); }
  void operator()(const std::string& v) const { hasher.add(v); }
  void operator()(const Tensor& v) const { add_tensor(hasher, v); }
  void operator()(const Type& v) const { hasher.add(to_string(v)); }
  void operator()(const std::shared_ptr<Graph>& v) const { add_graph(hasher, *v); }
  template <typename T>
  void operator()(const std::vector<T>& list) const {
    hasher.add(static_cast<std::int64_t>(list.size()));
    for (const T& v : list) (*this)(v);
  }
};

void add_graph(Hasher& hasher, const Graph& graph) {
  // Ids are numbered by first appearance, so that dead ids do not count.
  std::vector<std::int64_t> number(graph.value_capacity(), -1);
  std::int64_t next = 0;
  const auto add_value = [&](ValueId id) {
    if (!id.valid()) {
      hasher.add(std::int64_t{-1});
      return;
    }
    std::int64_t& n = number[static_cast<std::size_t>(id.index)];
    if (n >= 0) {
      hasher.add(n);
      return;
    }
    n = next++;
    const Value& value = graph.value(id);
    hasher.add(n).add(static_cast<std::int64_t>(value.origin)).add(to_string(value.type));
    if (value.origin == Origin::kConstant) add_tensor(hasher, value.constant);
  };
  for (const auto& [domain, version] : graph.opsets()) hasher.add(domain).add(version);
  for (const ValueId v : graph.inputs()) {
    hasher.add(graph.value(v).name);
    add_value(v);
  }
  for (const Capture& c : graph.captures()) {
    hasher.add(static_cast<std::int64_t>(c.outer.index));
    add_value(c.inner);
  }
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    hasher.add(node.domain).add(node.op).add(static_cast<std::int64_t>(node.inputs.size()));
    if (const RegisteredOp* op = registered_op(graph, node)) hasher.add(op->key);
    for (const ValueId v : node.inputs) add_value(v);
    hasher.add(static_cast<std::int64_t>(node.outputs.size()));
    for (const ValueId v : node.outputs) add_value(v);
    for (const auto& [name, attribute] : node.attributes) {
      hasher.add(name).add(static_cast<std::int64_t>(attribute.index()));
      std::visit(AttributeHasher{hasher}, attribute);
    }
  }
  for (const ValueId v : graph.outputs()) {
    hasher.add(graph.value(v).name);
    add_value(v);
  }
}

}  // namespace

Digest fingerprint(const Graph& graph) {
  Hasher hasher;
  add_graph(hasher, graph);
  return hasher.digest();
}

}  // namespace xrt
