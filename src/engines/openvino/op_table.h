// SPDX-License-Identifier: Apache-2.0
// Names of the ops that have a lowering, for tables; whether a node is taken is another question.
#pragma once

#include <string>
#include <vector>

namespace xrt::openvino {

// Standard ops with a translator in OpenVINO's ONNX frontend or a lowering of ours, sorted.
std::vector<std::string> op_table();

}  // namespace xrt::openvino
