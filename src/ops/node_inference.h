// SPDX-License-Identifier: Apache-2.0
// Types of the values of a graph that is still being built.
#pragma once

#include <functional>
#include <map>

#include "xrt/graph.h"

namespace xrt {

// infer_shapes() for one node after the other, each when it is added.
class NodeInference {
 public:
  // Types of the node's outputs, as far as they follow from those of its inputs. A node that breaks
  // its op's rule leaves them open: infer_shapes, which comes when the graph is whole, says so.
  void run(Graph& graph, NodeId node);

 private:
  struct Known {
    std::function<void(NodeId)> infer;
    NodeId last;
  };
  // What is known of each graph so far, by its address: where nodes begin anew, it is another graph
  // at the place of one that is gone.
  std::map<const Graph*, Known> known_;
};

}  // namespace xrt
