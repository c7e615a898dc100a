// SPDX-License-Identifier: Apache-2.0
// What became of a function's quantised nodes, for explanations.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "xrt/graph.h"

namespace xrt::native::dnn {

class Int8Report {
 public:
  // Before anything is fused. Quantised nodes are those that read what was dequantised from bytes
  // that the run computes, and the ops on bytes of the standard.
  explicit Int8Report(const Graph& graph);

  // The node does not run in integers although fusion replaced it.
  void stays_float(NodeId id, std::string reason) { reasons_[id] = std::move(reason); }

  // `graph`: after fusion, where those that run in integers are gone. Nothing where none was
  // quantised.
  std::vector<std::string> remarks(const Graph& graph) const;

 private:
  struct Quantised {
    NodeId id;
    std::string name, op;
  };
  std::vector<Quantised> nodes_;
  std::map<NodeId, std::string> reasons_;
};

}  // namespace xrt::native::dnn
