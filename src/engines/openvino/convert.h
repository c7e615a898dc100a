// SPDX-License-Identifier: Apache-2.0
// A graph as an ov::Model, through OpenVINO's ONNX frontend and our own lowerings.
#pragma once

#include <map>
#include <memory>
#include <openvino/core/model.hpp>
#include <string>
#include <vector>

#include "xrt/graph.h"

namespace xrt::openvino {

// Parameters of the model follow graph.inputs(), its results computed_outputs(graph). Constants of
// the model share the memory of the graph's tensors.
// Throws what OpenVINO throws, and Error(kUnsupported) for what cannot be expressed.
std::shared_ptr<ov::Model> convert(const Graph& graph);

// Why convert_leniently failed at a node of an op that the frontend does not know.
inline constexpr const char* kNoTranslator = "its ONNX frontend has no translator";

// As convert, for graphs of unconnected nodes: a node that the frontend cannot convert does not
// stop the others. `failed` gets the reason by name of the output that it left uncomputed.
std::shared_ptr<ov::Model> convert_leniently(const Graph& graph,
                                             std::map<std::string, std::string>& failed);

// The values that are outputs and computed by a node, each once, in order. What is an input or a
// constant at the same time has no place in an ov::Model: the CPU plugin would let the output's
// memory stand in for the input's.
std::vector<ValueId> computed_outputs(const Graph& graph);

}  // namespace xrt::openvino
