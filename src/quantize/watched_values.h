// SPDX-License-Identifier: Apache-2.0
// A graph that is run to see values inside of it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "xrt/quantize.h"

namespace xrt::quantization {

class WatchedValues {
 public:
  // `values` of the graph, in any order.
  WatchedValues(const Graph& graph, const std::vector<ValueId>& values, const GraphRunner& runner);

  const std::vector<std::string>& names() const { return names_; }
  // What the values are, in the order of the constructor's, for one value per graph input. Throws
  // kInvalidArgument for another number of inputs.
  std::vector<Tensor> run(const std::vector<Tensor>& sample) const;

 private:
  struct Place {
    bool is_input = false;
    std::size_t index = 0;  // among the sample, or the run's outputs
  };
  std::vector<std::string> names_;
  std::vector<Place> places_;
  std::size_t inputs_ = 0;
  GraphRun run_;
};

}  // namespace xrt::quantization
