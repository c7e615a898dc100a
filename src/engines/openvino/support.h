// SPDX-License-Identifier: Apache-2.0
// Which nodes OpenVINO runs, and how: asked per node instance.
//
// A node passes three gates: the rules (rules.h), the conversion of that node alone, and the CPU
// plugin's query_model about what it became. What the last two depend on (op, attributes, dtypes,
// ranks, which dimensions are known, small constants) is the signature under which the answer is
// kept for the life of the process, and all unknown signatures of a graph are probed as one model:
// a graph of ten thousand nodes costs one conversion and one query of as many nodes as it has
// kinds.
//
// Thread-safety: all members may be called at once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <openvino/runtime/core.hpp>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fork_mutex.h"
#include "xrt/engine.h"
#include "xrt/graph.h"

namespace xrt::openvino {

class SupportOracle {
 public:
  explicit SupportOracle(std::shared_ptr<ov::Core> core) : core_(std::move(core)) {}

  Support check(const Graph& graph, NodeId id);
  // By NodeId::index.
  std::vector<Support> check_all(const Graph& graph);
  // The graph with the nodes replaced that run by their function bodies only; nothing if there are
  // none. Its inputs and outputs are those of `graph`.
  std::optional<Graph> expanded(const Graph& graph);

 private:
  // kByBody: not the op itself, but all ops of its function body.
  enum class How { kNot, kDirectly, kByBody };
  struct Answer {
    How how = How::kNot;
    std::string reason;
  };
  struct Probe {
    const Graph* graph;
    NodeId node;
    std::string key;
  };
  using Results = std::map<std::string, ov::Output<ov::Node>>;  // by name of value

  std::vector<Answer> check_nodes(const Graph& graph, std::span<const NodeId> ids);
  std::vector<Answer> answer(std::span<const Probe> unknown);
  static Support to_support(const Answer& answer);
  std::vector<Answer> probe(std::span<const Probe> probes);
  std::vector<Answer> probe_together(std::span<const Probe> probes);
  // Why a sub-graph of the node, or one of theirs, cannot be converted.
  std::optional<std::string> unknown_inside(const Node& node);
  Answer probe_with_subgraphs(const Graph& graph, NodeId id);
  // Whether the results that stand for a node's outputs have its types.
  static Answer judge(const Graph& graph, NodeId id, const Results& results,
                      const std::map<std::string, std::string>& failed);
  std::vector<std::string> unsupported_ops(const std::vector<ov::OutputVector>& groups);

  std::shared_ptr<ov::Core> core_;
  ForkMutex mutex_;
  std::unordered_map<std::string, Answer> answers_;              // by signature
  std::unordered_map<std::string, std::string> plugin_answers_;  // by kind of ops
};

}  // namespace xrt::openvino
