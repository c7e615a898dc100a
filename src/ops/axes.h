// SPDX-License-Identifier: Apache-2.0
// Which attributes and operands of ONNX's ops name axes, and of what. One table serves the check
// in front of type inference and the canonical form.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

struct AxisFact {
  std::string_view op = {};         // of the standard domain
  std::string_view attribute = {};  // one axis or a list of them; empty: the operand
  int operand = -1;                 // likewise, an integer tensor
  int counted = 0;                  // the input whose axes are counted; -1: those of output 0
  int more = 0;                     // axes of the result beyond those of the input
  bool one_past = false;            // the number of axes is allowed, too
  bool ignored = false;             // the op ignores it where it does not fit
};

// What is known of an op: empty for one that names no axes.
XRT_API std::span<const AxisFact> axis_facts(const Node& node);

// The number of axes that a fact counts, where the types tell.
XRT_API std::optional<std::int64_t> counted_axes(const Graph& graph, const Node& node,
                                                 const AxisFact& fact);

// Throws kInvalidModel for an axis that is out of range; says nothing where the rank is unknown.
void check_axes(const Graph& graph, const Node& node);

}  // namespace xrt
