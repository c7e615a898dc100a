// SPDX-License-Identifier: Apache-2.0
// The registry of lowerings: one row per op says what the engine can do with it and how.
//
// supports(), ops() and traits() of the engine read this table, so that what is registered is what
// the engine claims, and nothing is claimed twice.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/engine.h"

namespace xrt::template_engine {

// Computes one node: from tensors of static shape into memory for the results. `workspace` has the
// bytes that the lowering asked for, aligned to 64.
using Kernel = std::function<void(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                  std::byte* workspace)>;

struct Lowering {
  // A no for nodes that the kernel cannot do; all shapes are static already.
  std::function<Support(const Graph& graph, const Node& node)> supports;
  // Called when a function is compiled; the kernel must keep nothing of graph and node.
  std::function<Kernel(const Graph& graph, const Node& node)> create;
  // Bytes of temporary memory that one run of the kernel needs; absent: none.
  std::function<std::size_t(const Graph& graph, const Node& node)> workspace_bytes = {};
  // What all nodes of the op have in common: may they be part of a training step, do they update
  // variables, which inputs may be written over.
  OpTraits traits = {};
  std::vector<std::string> devices = {"cpu"};
};

class LoweringRegistry {
 public:
  // All lowerings of this engine.
  static const LoweringRegistry& get();

  // `op` is a qualified name: "Relu", "ai.onnx.preview.training.Momentum". A second lowering of one
  // op throws.
  void add(std::string op, Lowering lowering);
  const Lowering* find(std::string_view op) const;  // null if there is none
  std::vector<std::string> ops() const;             // sorted

 private:
  std::map<std::string, Lowering, std::less<>> lowerings_;
};

// The families, one file each.
void add_elementwise(LoweringRegistry& registry);
void add_matmul(LoweringRegistry& registry);
void add_optimizers(LoweringRegistry& registry);

// A no unless every input and output is float32.
Support needs_float32(const Graph& graph, const Node& node);

}  // namespace xrt::template_engine
