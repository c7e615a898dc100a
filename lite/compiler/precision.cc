// SPDX-License-Identifier: Apache-2.0
#include "precision.h"

#include <fmt/format.h>

#include <algorithm>

#include "xrt/error.h"
#include "xrt/graph_runner.h"

namespace xrt::lite {

void quantize_by_samples(Graph& graph, const CompileOptions& options,
                         std::vector<std::string>& notes) {
  const std::vector<NodeId> nodes = graph.nodes();
  const bool quantized = std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    return graph.node(id).domain.empty() && graph.node(id).op == "QuantizeLinear";
  });
  if (!options.samples) {
    if (quantized) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("model '{}' has no QuantizeLinear: int8 needs samples to calibrate "
                            "with (--calibrate DIR)",
                            graph.name()));
  }
  if (quantized) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("model '{}' has QuantizeLinear already: samples (--calibrate) are for "
                            "models in floating point",
                            graph.name()));
  }
  std::vector<Port> inputs;
  for (const ValueId id : graph.inputs()) {
    inputs.push_back({graph.value(id).name, graph.type(id), false});
  }
  QuantizeOptions how = options.quantize;
  how.round_results = true;  // lite's integer kernels end in bytes
  Calibrator calibrator(graph, how, program_runner());
  options.samples(inputs, [&](const std::vector<Tensor>& sample) { calibrator.add(sample); });
  const QuantizeSummary done = quantize(graph, calibrator.ranges(), how);
  notes.push_back(
      fmt::format("int8: {} of {} Conv, Gemm and MatMul nodes, calibrated with {} samples",
                  done.sums, done.sums + done.kept, calibrator.samples()));
  for (const std::string& note : notes_of(done)) notes.push_back("int8: " + note);
}

}  // namespace xrt::lite
