// SPDX-License-Identifier: Apache-2.0
// Values of the forward pass that are computed again for the backward pass, instead of being kept.
//
// The forward pass is cut into segments. Values that lead from one segment to a later one are kept;
// what the backward pass reads of the others is computed again from kept values when the first
// gradient arrives at the segment. An op of the domain "xrt" sees to that moment:
//   After: X, token → Y.  Y is X; it may be used as soon as token has been computed.
#pragma once

#include <span>

#include "xrt/autodiff.h"
#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt::autodiff {

inline constexpr const char* kAfterOp = "After";

// `seed`: the gradient of `loss`, from which all other gradients follow. `variables`: inputs that
// are there all the time. Returns how many nodes are computed a second time.
XRT_API std::size_t recompute(Graph& graph, ValueId loss, ValueId seed,
                              std::span<const ValueId> variables, const RecomputeOptions& options);

}  // namespace xrt::autodiff
