// SPDX-License-Identifier: Apache-2.0
// What the functions of one run read and wrote.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

struct RunRecord {
  // A function that an engine other than the fallback ran, or that was rounded to half precision,
  // with copies of its values on the host. Those of the bodies that the runtime drives are among
  // them, under their names in traces.
  struct Function {
    std::string name, engine;
    std::string key;  // compile_key()
    std::shared_ptr<const Graph> graph;
    std::vector<Data> inputs, outputs;
  };
  std::vector<Function> functions;
  std::size_t bytes_left = 0;         // what copies may still take
  std::vector<std::string> left_out;  // names of functions whose values would have taken more

  // A function of a body runs many times; its first run is recorded.
  bool has(const std::string& name, const std::string& key) const {
    return std::find(left_out.begin(), left_out.end(), name) != left_out.end() ||
           std::any_of(functions.begin(), functions.end(), [&](const Function& function) {
             return function.name == name && function.key == key;
           });
  }
};

}  // namespace xrt
