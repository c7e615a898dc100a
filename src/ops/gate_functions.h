// SPDX-License-Identifier: Apache-2.0
// The functions that the `activations` of RNN, GRU and LSTM name, and their parameters.
#pragma once

#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

struct GateFunction {
  std::string name;  // in small letters: "hardsigmoid"
  float alpha = 0, beta = 0;

  bool operator==(const GateFunction&) const = default;
};

// Those of a node, per direction one after the other: one of an RNN, two of a GRU, three of an
// LSTM. `activation_alpha` and `activation_beta` are lists of what those functions want that have
// such a parameter, in their order; behind the end of a list a function has its default. Throws
// kInvalidModel for a name that the standard does not know, or another number of names.
XRT_API std::vector<GateFunction> gate_functions(const Node& node);

}  // namespace xrt
