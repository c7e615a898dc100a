// SPDX-License-Identifier: Apache-2.0
// The registry of lowerings: one row per op says what the engine can do with it and how.
//
// supports(), ops() and traits() of the engine read this table, so that what is registered is what
// the engine claims, and nothing is claimed twice.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "xrt/engine.h"

namespace xrt::template_engine {

// Computes one node: `inputs` are float32 tensors of static shape, `output` is memory for the
// result. `scratch` has the bytes that the lowering asked for.
using Kernel = std::function<void(std::span<const Tensor> inputs, Tensor& output, float* scratch)>;

struct Lowering {
  // What all nodes of the op have in common.
  OpTraits traits;
  std::vector<std::string> devices = {"cpu"};
  std::size_t inputs = 1;
  // A no for nodes of the op that the kernel cannot do; every value is float32 and static already.
  std::function<Support(const Graph& graph, const Node& node)> supports = {};
  std::function<Kernel(const Graph& graph, const Node& node)> create;
  // Floats of scratch memory that one run of the kernel needs.
  std::function<std::size_t(const Graph& graph, const Node& node)> scratch = {};
};

// By qualified name of the op.
const std::map<std::string, Lowering>& lowerings();

}  // namespace xrt::template_engine
