// SPDX-License-Identifier: Apache-2.0
// The registry of lowerings: one row per op says what the engine can do with it and how.
//
// supports() and ops() of the engine read this table, so that what is registered is what the engine
// claims, and nothing is claimed twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/engine.h"

namespace xrt::template_engine {

using Dims = std::vector<std::int64_t>;

// A dense tensor that a kernel reads or writes.
struct Operand {
  void* memory = nullptr;
  Dims dims;
  template <typename T>
  T* data() const {
    return static_cast<T*>(memory);
  }
  std::int64_t count() const {
    std::int64_t product = 1;
    for (const std::int64_t dim : dims) product *= dim;
    return product;
  }
};

// Computes one node, of static shapes, into memory for the results. `workspace` has the bytes that
// the lowering asked for, aligned to 64.
using Kernel = std::function<void(std::span<const Operand> inputs, std::span<const Operand> outputs,
                                  std::byte* workspace)>;

struct Lowering {
  // A no for nodes that the kernel cannot do; all shapes are static already.
  std::function<Support(const GraphView& graph, const NodeView& node)> supports;
  // Called when a function is compiled; the kernel must keep nothing of graph and node.
  std::function<Kernel(const GraphView& graph, const NodeView& node)> create;
  // Bytes of temporary memory that one run of the kernel needs; absent: none.
  std::function<std::size_t(const GraphView& graph, const NodeView& node)> workspace_bytes = {};
  bool training = true;  // nodes of training steps too
  // Positions of the node's inputs that the kernel can write its results over.
  std::vector<std::int32_t> mutable_inputs = {};
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
Support needs_float32(const GraphView& graph, const NodeView& node);

// The node's inputs, then its outputs.
std::vector<ValueId> values_of(const NodeView& node);

}  // namespace xrt::template_engine
