// SPDX-License-Identifier: Apache-2.0
// Our own lowerings of ONNX ops to OpenVINO's, for ops that its ONNX frontend lacks or reads
// differently from the standard. Each is a conversion extension, which takes the place of the
// frontend's own translator for that op.
#pragma once

#include <memory>
#include <openvino/core/extension.hpp>
#include <string>
#include <vector>

namespace xrt::openvino {

const std::vector<std::shared_ptr<ov::Extension>>& lowering_extensions();
// Names of the ops that they lower, sorted.
std::vector<std::string> lowered_ops();

}  // namespace xrt::openvino
