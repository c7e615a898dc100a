// SPDX-License-Identifier: Apache-2.0
// Which nodes OpenVINO runs, and how: asked per node instance.
//
// A node passes three gates: the rules (rules.h), the conversion of a model of that node alone, and
// its compilation by the CPU plugin. What a conversion depends on (op, attributes, dtypes, ranks,
// which dimensions are known, small constants) is the signature under which the answer is kept for
// the life of the process, so a graph of ten thousand nodes costs as many probes as it has kinds of
// nodes.
//
// Thread-safety: all members may be called at once.
#pragma once

#include <memory>
#include <mutex>
#include <openvino/runtime/core.hpp>
#include <string>
#include <unordered_map>

#include "xrt/engine.h"

namespace xrt::openvino {

class SupportOracle {
 public:
  explicit SupportOracle(std::shared_ptr<ov::Core> core) : core_(std::move(core)) {}

  Support check(const Graph& graph, NodeId id);

 private:
  struct Answer {
    bool ok = false;
    std::string reason;
  };

  Answer probe(const Graph& graph, const Node& node);
  Answer probe_with_subgraphs(const Graph& graph, NodeId id);
  Answer try_model(const Graph& graph, const Node& node);

  std::shared_ptr<ov::Core> core_;
  std::mutex mutex_;
  std::unordered_map<std::string, Answer> answers_;
};

}  // namespace xrt::openvino
