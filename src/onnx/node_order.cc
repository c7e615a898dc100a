// SPDX-License-Identifier: Apache-2.0
#include "onnx/node_order.h"

#include <cstddef>
#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace xrt {
namespace {

using ReadNames = std::unordered_set<std::string_view>;

void add_reads(const onnx::NodeProto& node, int depth, ReadNames& names);

// ReadNames that a sub-graph reads and does not define.
void add_captures(const onnx::GraphProto& body, int depth, ReadNames& names) {
  if (depth > kMaxGraphNesting) return;  // the reader refuses it
  ReadNames used;
  for (const auto& node : body.node()) add_reads(node, depth, used);
  for (const auto& output : body.output()) used.insert(output.name());
  for (const auto& input : body.input()) used.erase(input.name());
  for (const auto& tensor : body.initializer()) used.erase(tensor.name());
  for (const auto& tensor : body.sparse_initializer()) used.erase(tensor.values().name());
  for (const auto& node : body.node()) {
    for (const auto& output : node.output()) used.erase(output);
  }
  names.merge(used);
}

void add_reads(const onnx::NodeProto& node, int depth, ReadNames& names) {
  for (const auto& input : node.input()) {
    if (!input.empty()) names.insert(input);
  }
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) add_captures(attribute.g(), depth + 1, names);
    for (const auto& body : attribute.graphs()) add_captures(body, depth + 1, names);
  }
}

}  // namespace

std::vector<const onnx::NodeProto*> in_reading_order(const NodeProtos& nodes) {
  const auto count = static_cast<std::size_t>(nodes.size());
  std::unordered_map<std::string_view, std::size_t> made;
  std::vector<const onnx::NodeProto*> order;
  order.reserve(count);
  for (const auto& node : nodes) {
    for (const auto& output : node.output()) {
      if (!output.empty()) made.emplace(output, order.size());
    }
    order.push_back(&node);
  }
  std::vector<std::vector<std::size_t>> readers(count);
  std::vector<std::size_t> missing(count, 0);  // nodes that have to come before
  bool sorted = true;
  for (std::size_t i = 0; i < count; ++i) {
    ReadNames names;
    add_reads(*order[i], 0, names);
    for (const std::string_view name : names) {
      const auto it = made.find(name);
      if (it == made.end()) continue;
      sorted = sorted && it->second < i;
      readers[it->second].push_back(i);
      ++missing[i];
    }
  }
  if (sorted) return order;
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<const onnx::NodeProto*> result;
  result.reserve(count);
  while (!ready.empty()) {
    const std::size_t i = ready.top();
    ready.pop();
    result.push_back(order[i]);
    for (const std::size_t reader : readers[i]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  return result.size() == count ? result : order;
}

}  // namespace xrt
