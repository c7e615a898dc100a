// SPDX-License-Identifier: Apache-2.0
#include "xrt/graph_runner.h"

#include <utility>

#include "xrt/program.h"

namespace xrt {

GraphRunner program_runner(std::vector<std::string> engines) {
  return [engines = std::move(engines)](Graph graph) -> GraphRun {
    const auto program = Program::compile(std::move(graph), {.engines = engines});
    return [program](const std::vector<Tensor>& inputs) {
      const std::vector<Data> values(inputs.begin(), inputs.end());
      std::vector<Data> outputs;
      program->run(values, outputs);
      std::vector<Tensor> tensors;
      tensors.reserve(outputs.size());
      for (const Data& output : outputs) tensors.push_back(output.tensor());
      return tensors;
    };
  };
}

}  // namespace xrt
