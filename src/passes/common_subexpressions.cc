// SPDX-License-Identifier: Apache-2.0
// Nodes that compute the same from the same inputs become one; equal small constants become one.
//
// Random ops and ops with sub-graphs are left alone, and so are two nodes that both make graph
// outputs: each output keeps its own name.
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "ir/printer.h"
#include "ir/rewrite.h"
#include "ops/schema.h"
#include "passes/passes.h"

namespace xrt {
namespace {

// Larger constants are weights, which are rarely repeated and cost time to hash.
constexpr std::size_t kMaxSharedBytes = std::size_t{64} << 10;

void add_tensor(Hasher& hash, const Tensor& tensor) {
  hash.add(static_cast<std::int64_t>(tensor.dtype()));
  hash.add(static_cast<std::int64_t>(tensor.rank()));
  for (const std::int64_t d : tensor.dims()) hash.add(d);
  if (tensor.dtype() == DType::kString) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) hash.add(tensor.strings()[i]);
  } else {
    hash.add_bytes(tensor.raw(), tensor.bytes());
  }
}

struct AttributeHash {
  Hasher& hash;
  void operator()(std::int64_t v) const { hash.add(v); }
  void operator()(float v) const { hash.add_bytes(&v, sizeof v); }
  void operator()(const std::string& v) const { hash.add(v); }
  void operator()(const Tensor& v) const { add_tensor(hash, v); }
  void operator()(const Type& v) const { hash.add(print(v)); }
  void operator()(const std::shared_ptr<Graph>&) const {}  // such nodes are not shared
  template <typename T>
  void operator()(const std::vector<T>& list) const {
    hash.add(static_cast<std::int64_t>(list.size()));
    for (const T& v : list) (*this)(v);
  }
};

struct DigestHash {
  std::size_t operator()(const Digest& digest) const { return digest.low; }
};
// Looked things up in only: no order comes of it.
template <typename Id>
using FirstOf = std::unordered_map<Digest, Id, DigestHash>;

Digest key_of(const Graph& graph, const Node& node) {
  Hasher hash;
  hash.add(node.domain).add(node.op);
  hash.add(static_cast<std::int64_t>(node.inputs.size()));
  for (const ValueId v : node.inputs) hash.add(v.index);
  hash.add(static_cast<std::int64_t>(node.outputs.size()));
  for (const ValueId v : node.outputs) {
    hash.add(v.valid() ? std::string_view("present") : std::string_view());
    // The type is part of what ops of unknown domains compute.
    if (v.valid()) hash.add(static_cast<std::int64_t>(graph.type(v).dtype));
  }
  for (const auto& [name, value] : node.attributes) {
    hash.add(name).add(static_cast<std::int64_t>(value.index()));
    std::visit(AttributeHash{hash}, value);
  }
  return hash.digest();
}

bool share_constants(Graph& graph) {
  bool changed = false;
  FirstOf<ValueId> first;
  for (const ValueId v : graph.constants()) {
    const Tensor& tensor = *graph.constant(v);
    if (tensor.bytes() > kMaxSharedBytes || graph.is_output(v)) continue;
    Hasher hash;
    add_tensor(hash, tensor);
    const auto [it, fresh] = first.emplace(hash.digest(), v);
    if (fresh || !graph.constant(it->second)->identical(tensor)) continue;
    graph.replace_uses(v, it->second);
    graph.remove_value(v);
    changed = true;
  }
  return changed;
}

bool share(Graph& graph, NodeId id, NodeId earlier) {
  const std::vector<ValueId> old = graph.node(id).outputs;
  const std::vector<ValueId> by = graph.node(earlier).outputs;
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (old[i].valid() && !can_replace_value(graph, old[i], by[i])) return false;
  }
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (old[i].valid()) replace_value(graph, old[i], by[i]);
  }
  graph.remove_node(id);
  return true;
}

}  // namespace

bool share_common_subexpressions(Graph& graph) {
  bool changed = share_constants(graph);
  FirstOf<NodeId> first;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (!Graph::subgraphs(node).empty()) {
      changed = edit_subgraphs(graph, id, share_common_subexpressions) || changed;
      continue;
    }
    if (!is_deterministic(node)) continue;
    const auto [it, fresh] = first.emplace(key_of(graph, node), id);
    if (!fresh) changed = share(graph, id, it->second) || changed;
  }
  return changed;
}

}  // namespace xrt
