// SPDX-License-Identifier: Apache-2.0
// A graph as an ov::Model, through OpenVINO's ONNX frontend and our own lowerings.
#pragma once

#include <memory>
#include <openvino/core/model.hpp>

#include "xrt/graph.h"

namespace xrt::openvino {

// Parameters and results of the model follow graph.inputs() and graph.outputs(). Constants of the
// model share the memory of the graph's tensors.
// Throws what OpenVINO throws, and Error(kUnsupported) for what cannot be expressed.
std::shared_ptr<ov::Model> convert(const Graph& graph);

}  // namespace xrt::openvino
