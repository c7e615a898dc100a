// SPDX-License-Identifier: Apache-2.0
// What the functions of one run read and wrote.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

struct RunRecord {
  // A function that an engine other than the fallback ran, or that was rounded to half precision,
  // with copies of its values on the host.
  struct Function {
    std::string name, engine;
    std::string key;  // compile_key()
    std::shared_ptr<const Graph> graph;
    std::vector<Data> inputs, outputs;
  };
  std::vector<Function> functions;
  std::size_t bytes_left = 0;  // what copies may still take
  std::size_t left_out = 0;    // functions whose values would have taken more
};

}  // namespace xrt
