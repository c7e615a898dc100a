// SPDX-License-Identifier: Apache-2.0
#include "constants.h"

#include <fmt/format.h>

#include <cstring>

#include "xrt/error.h"

namespace xrt::lite {

bool fill_constants(Graph& graph) {
  bool changed = false;
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (!node.domain.empty() || node.op != "ConstantOfShape") continue;
    const Tensor* shape = graph.constant(node.input(0));
    const ValueId output = node.output(0);
    if (shape == nullptr || shape->dtype() != DType::kInt64 || graph.is_output(output)) continue;
    const std::vector<std::int64_t> dims = shape->to_int64();
    if (element_count(dims) > std::int64_t{1} << 31) {
      throw Error(ErrorCode::kResource,
                  fmt::format("node '{}' (ConstantOfShape): {} elements are more than a lite model "
                              "holds (2^31)",
                              node.name, element_count(dims)));
    }
    const Tensor* value = node.attr_tensor("value");
    const Tensor element = value != nullptr ? *value : Tensor::scalar(0.0F);
    if (element.count() != 1 || bit_width(element.dtype()) < 8) continue;
    Tensor filled = Tensor::allocate(element.dtype(), dims);
    const std::size_t size = element.bytes();
    for (std::int64_t i = 0; i < filled.count(); ++i) {
      std::memcpy(filled.data<char>() + static_cast<std::size_t>(i) * size, element.raw(), size);
    }
    graph.set_constant(output, std::move(filled));
    graph.remove_node(id);
    changed = true;
  }
  return changed;
}

}  // namespace xrt::lite
