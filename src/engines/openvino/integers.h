// SPDX-License-Identifier: Apache-2.0
// Integers that the CPU plugin computes exactly: it turns those of 64 bits into int32, and for some
// ops those of 32 bits into float32.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "xrt/graph.h"

namespace xrt::openvino {

// Integer inputs of the node are computed exactly up to this absolute value.
std::int64_t integer_bound(const Graph& graph, const Node& node);

// By value, up to what absolute value its readers, and those behind them, are exact.
std::vector<std::int64_t> integer_bounds(const Graph& graph);

// The first of some integers beyond an absolute value, if there is one.
std::optional<std::string> beyond(const Tensor& integers, std::int64_t bound);

// Why OpenVINO must not compute a node of bytes, or nothing.
std::optional<std::string> byte_refusal(const Graph& graph, const Node& node);

// Which integers of a graph may be large although those that it is given are not: functions look at
// what they are given, not at what they compute or have as an attribute. The graph has to live as
// long.
class GrownIntegers {
 public:
  explicit GrownIntegers(const Graph& graph);
  // Why OpenVINO must not run a node of the graph that reads or makes them, or nothing.
  std::optional<std::string> refusal(const Node& node) const;

 private:
  // Of a float to 64 bits.
  std::optional<std::string> cast_refusal(const Node& node) const;

  const Graph& graph_;
  // By value: it is computed of an input of the graph; it is a wide integer of which a product is.
  std::vector<bool> given_, grown_;
  std::vector<std::int64_t> bounds_;  // where a node has them as an attribute
};

}  // namespace xrt::openvino
