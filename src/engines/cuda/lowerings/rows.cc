// SPDX-License-Identifier: Apache-2.0
// Ops that need all elements of a row for each of them: softmax and normalisations. fused.cc writes
// their kernels.
#include <fmt/format.h>

#include "engines/cuda/lowering.h"

namespace xrt::cuda {
namespace {

Support supports_rows(const GraphView& graph, const NodeView& node) {
  const TypeView type = graph.type(node.input(0));
  if (!is_float(type.dtype())) {
    return Support::no(fmt::format("there is no kernel of it for {}", to_string(type.dtype())));
  }
  if (type.rank() == 0) return Support::no("its operand has no axis");
  const bool is_written_out = node.op() == "LayerNormalization";  // with statistics (training.h)
  for (std::size_t i = 1; i < node.outputs().size() && !is_written_out; ++i) {
    if (node.output(i).valid()) return Support::no("its further results are not computed");
  }
  if (node.op() == "InstanceNormalization" && type.rank() < 3) {
    return Support::no("there are no elements of an instance");
  }
  // Statistics are computed in float.
  if (node.attr_int("stash_type", 1) != 1) return Support::no("its stash_type is not float32");
  return Support::yes();
}

}  // namespace

void add_rows(LoweringRegistry& registry) {
  for (const char* op : {"Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization",
                         "InstanceNormalization"}) {
    registry.add(op, {.supports = supports_rows, .over_rows = true});
  }
}

}  // namespace xrt::cuda
