// SPDX-License-Identifier: Apache-2.0
// Graph to ONNX's GraphProto. Internal to the files that speak protobuf.
//
// Values keep their names. Where ONNX wants more than Graph does, the message is adapted: a name in
// a sub-graph that also exists around it gets a suffix (ONNX allows no shadowing), an output that
// is listed twice, or that a sub-graph passes through from outside, goes through an Identity.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <string_view>

#include "onnx/proto.h"
#include "xrt/graph.h"

namespace xrt {

void graph_to_proto(const Graph& graph, const TensorWriter& tensor_writer, onnx::GraphProto* proto);

// One node by itself, its values named as in the graph; sub-graphs included.
void node_to_proto(const Graph& graph, NodeId id, onnx::NodeProto* proto);

// The versions to declare for the ops in use, sub-graphs included. Of the standard domain: the
// oldest (but not below 18) at which every node, as it is, means what it means at the pinned opset,
// so that consumers of older standards read the model.
std::map<std::string, std::int64_t> opsets_in_use(const Graph& graph);

}  // namespace xrt
