// SPDX-License-Identifier: Apache-2.0
// Operands whose values decide shapes or addresses, and what those values must satisfy.
//
// Compilers do not look at them: XLA takes the nearest element for an index that is out of range,
// OpenVINO memory that is not the tensor's. So the runtime looks, wherever it sees the values: in
// constants, and in what is handed to a function (exec/value_checks.h). Values that a function
// computes for itself nobody would see; computed_operands() names them, and the partition puts a
// border between who makes and who reads them (partition/partition.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

// What the elements of such an operand are.
enum class Decides : std::uint8_t {
  kIndex,        // of an axis of input 0 with n elements: from -n to n - 1
  kCoordinates,  // each row an index per axis of input 0
  kLabel,        // of axis 1 of input 0, as kIndex, or the attribute ignore_index
  kRow,          // of an axis with n elements: from 0 to n - 1
  kPlace,        // of the result's n elements: from 0 to n - 1
  kLength,       // of an axis with n elements: from 0 to n
  kMask,         // true for elements of an axis of input 0
  kSizes,        // of the result: from 0 on
  kShape,        // likewise, or -1 for what is left over
  kAmounts,      // any number of 32 bits: pads, offsets
  kBounds,       // any number: what is too large means the end
  kSteps,        // any number but 0
  kAxes,         // from -rank to rank - 1; those of a scalar as of one dimension
  kScales,       // finite and larger than 0
  kFinite,
  kOne,  // a tensor of one element
};

struct DecidingOperand {
  std::string_view op = {};
  std::size_t operand = 0;
  Decides decides = Decides::kIndex;
  bool shapes = false;           // the result's shape depends on it
  std::string_view axis = {};    // the attribute that names the axis; empty: none does
  std::int64_t otherwise = 0;    // the axis where no attribute names one
  std::size_t of = 0;            // the input whose axis it is
  std::string_view domain = {};  // of the op; empty: the standard's
};

// All of them, by op; and what the elements must be, for people.
XRT_API std::span<const DecidingOperand> all_deciding_operands();
XRT_API std::string_view wanted_of(Decides decides);

// The operands of the node that decide: empty for most ops.
XRT_API std::span<const DecidingOperand> deciding_operands(const Node& node);

// The sizes of the axes that the elements are held to, in turn: one, or of kCoordinates one per
// column, or none where the rule needs none. Nothing where they are not known.
XRT_API std::optional<std::vector<std::int64_t>> deciding_sizes(const Graph& graph,
                                                                const Node& node,
                                                                const DecidingOperand& operand);

// What is wrong with the elements of a tensor on the host, for a message: "index 7 is outside an
// axis of size 4"; nothing where all is well.
XRT_API std::optional<std::string> refusal(const Tensor& tensor, Decides decides,
                                           std::span<const std::int64_t> sizes);

// The input or constant whose elements the value has, each as it was or in a wider type; where they
// stand `in_order`, none was moved. Nothing where a node computes them.
XRT_API std::optional<ValueId> origin_of(const Graph& graph, ValueId value, bool in_order);

struct ComputedOperand {
  NodeId maker, reader;
};

// Where a node of the graph computes what decides a shape or an address in another one, and nobody
// can tell before a run that it is right: it does not follow from sizes alone (Shape), and is not
// in range by its nature (ArgMax, TopK); and where a node reads what has as many elements as data
// decides (NonZero). Sub-graphs are not looked at.
XRT_API std::vector<ComputedOperand> computed_operands(const Graph& graph);

struct SizedOperand {
  NodeId node;
  DecidingOperand operand;
};

// Operands that decide addresses and that nodes of the graph compute from sizes alone: the numbers
// of positions (Range of a Shape). They are known once the sizes are. Sub-graphs are not looked at.
XRT_API std::vector<SizedOperand> sized_operands(const Graph& graph);

// Whether a body of the node has an operand that nobody sees before a run: one that is computed,
// and what comes from outside the body counts as that, or a constant that is wrong, which is an
// error only if the body runs. The number of a Loop's turn is in range where its constant count
// says so.
XRT_API bool leaves_operands_unseen(const Graph& graph, const Node& node);

}  // namespace xrt
