// SPDX-License-Identifier: Apache-2.0
// The order in which the nodes of an ONNX graph can be read.
#pragma once

#include <onnx/onnx_pb.h>

#include <vector>

#include "onnx/proto.h"

namespace xrt {

using NodeProtos = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// The nodes, each behind those that make what it and its sub-graphs read: as they stand where they
// are sorted, which the standard wants and some exporters forget; else sorted, and as near to that
// as possible. Nodes of a cycle stay as they stand.
std::vector<const onnx::NodeProto*> in_reading_order(const NodeProtos& nodes);

}  // namespace xrt
