// SPDX-License-Identifier: Apache-2.0
#include "exec/least_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/work_scope.h"
#include "ops/op_facts.h"
#include "partition/cost.h"

namespace xrt {
namespace {

// Memory that values share: a view and what it is of are one.
struct Buffer {
  std::size_t bytes = 0;
  std::size_t last_read = 0;  // position of a node; 0: none reads it
};

// Whether the result may be computed where it is read, from the first operand.
bool shares_memory(const Node& node) {
  if (op_facts(node).moves == Moves::kView) return true;
  return node.domain.empty() && (node.op == "DequantizeLinear" || node.op == "Cast");
}

class Buffers {
 public:
  Buffers(const Graph& graph, bool narrow) : graph_(graph), narrow_(narrow) {
    buffer_of_.resize(graph.value_capacity(), kNone);
  }

  // Of the node at a position; those that it reads must be there.
  void add(const Node& node, std::size_t position) {
    for (const ValueId v : node.inputs) read(v, position);
    for (const Graph* body : Graph::subgraphs(node)) {
      for (const Capture& capture : body->captures()) read(capture.outer, position);
    }
    for (const ValueId v : node.outputs) {
      if (v.valid()) buffer_of_[index(v)] = made(node, v);
    }
  }

  // What the function returns is its caller's.
  void leave_out(ValueId v) {
    if (buffer_of_[index(v)] != kNone) buffers_[buffer_of_[index(v)]].bytes = 0;
  }

  // Bytes that come alive with the value and the position that they are last read at.
  const Buffer* begun_by(ValueId v) const {
    const std::size_t at = buffer_of_[index(v)];
    return at != kNone && first_[at] == v ? &buffers_[at] : nullptr;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  static std::size_t index(ValueId v) { return static_cast<std::size_t>(v.index); }

  void read(ValueId v, std::size_t position) {
    if (!v.valid() || buffer_of_[index(v)] == kNone) return;
    buffers_[buffer_of_[index(v)]].last_read = position;
  }

  std::size_t made(const Node& node, ValueId v) {
    const Type& type = graph_.type(v);
    std::size_t bytes = type.is_tensor() && type.is_static() ? value_bytes(graph_, v) : 0;
    if (narrow_ && type.dtype == DType::kFloat32) bytes /= 2;
    const ValueId source = node.input(0);
    if (shares_memory(node) && source.valid() && buffer_of_[index(source)] != kNone) {
      Buffer& shared = buffers_[buffer_of_[index(source)]];
      shared.bytes = std::min(shared.bytes, bytes);
      return buffer_of_[index(source)];
    }
    // Of what the function is given: no memory of its own.
    if (shares_memory(node)) bytes = 0;
    buffers_.push_back({.bytes = bytes});
    first_.push_back(v);
    return buffers_.size() - 1;
  }

  const Graph& graph_;
  const bool narrow_;
  std::vector<std::size_t> buffer_of_;  // by value
  std::vector<Buffer> buffers_;
  std::vector<ValueId> first_;  // the value that a buffer begins with
};

}  // namespace

LeastMemory least_memory(const Graph& function, bool narrow) {
  const std::vector<NodeId> nodes = function.topological_order();
  Buffers buffers(function, narrow);
  for (std::size_t i = 0; i < nodes.size(); ++i) buffers.add(function.node(nodes[i]), i + 1);
  for (const ValueId v : function.outputs()) buffers.leave_out(v);

  LeastMemory most;
  std::size_t alive = 0;
  std::vector<std::size_t> freed(nodes.size() + 1, 0);  // by the position of the last reader
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = function.node(nodes[i]);
    std::size_t inside = 0;
    for (const Graph* body : Graph::subgraphs(node)) {
      inside = std::max(inside, least_memory(*body, narrow).bytes);
    }
    alive -= freed[i + 1];
    const std::size_t before = alive;
    for (const ValueId v : node.outputs) {
      const Buffer* buffer = v.valid() ? buffers.begun_by(v) : nullptr;
      if (buffer == nullptr || buffer->last_read <= i + 1) continue;
      alive += buffer->bytes;
      freed[buffer->last_read] += buffer->bytes;
    }
    const std::size_t now = std::max(alive, before + inside);
    if (now <= most.bytes) continue;
    most.bytes = now;
    most.node = fmt::format("node '{}' ({})", node.name, node.qualified_op());
  }
  return most;
}

void check_least_memory(const LeastMemory& least) {
  if (least.bytes == 0) return;
  WorkScope::check_room(least.bytes,
                        [&] { return "what is alive after " + least.node + " at once"; });
}

}  // namespace xrt
