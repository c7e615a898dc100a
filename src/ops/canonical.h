// SPDX-License-Identifier: Apache-2.0
// The canonical form of a node: one way to write what the standard lets a model write in several.
// Passes, gradients, the quantiser, engines and the lite compiler read this form.
//
// - Padding is explicit: convolutions and pools have `pads`, `strides`, `dilations` (where the op
//   has them) and `kernel_shape` in full. There is no auto_pad, and ConvTranspose has no
//   output_shape; rows that no window reaches are output_padding.
// - Axes count from the front: attributes, and operands that are constants.
// - -1 among the sizes of Reshape is the number, where others are copied and those behind tell it.
// - The standard's defaults are written out, also where it gives them in words (`perm` of
// Transpose).
//
// What the types do not tell yet stays as the model has it: SAME_UPPER and SAME_LOWER with a stride
// above 1 and output_shape while the spatial sizes are symbolic, kernel_shape while that of the
// weights is, axes while the rank is unknown, axes that are computed. Engines with static shapes
// never see these; an engine that takes open shapes asks ops/sizes/padding.h at run time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// True if it changed the node. The types of its inputs are to be inferred. A node that breaks the
// rules of its op stays as it is, for type inference to refuse; kInvalidModel for an unknown
// auto_pad.
XRT_API bool canonicalize_node(Graph& graph, NodeId id);
// Whether the canonical form says in another way what a default of this attribute says.
bool is_said_otherwise(std::string_view attribute);
// What the canonical form of a convolution or pool sets, and the attributes that it lacks; nothing
// for other ops.
struct CanonicalWindow {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> set;
  std::vector<std::string> removed;
};
std::optional<CanonicalWindow> canonical_window(const Graph& graph, const Node& node);
// Every node, sub-graphs too.
XRT_API bool canonicalize(Graph& graph);

}  // namespace xrt
