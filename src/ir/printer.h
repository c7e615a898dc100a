// SPDX-License-Identifier: Apache-2.0
// Graph as text, which parse_graph() (parser.h) reads back.
//
//   graph tiny(%x: float32[N,3], %k: int64[] = tensor int64[] {5}) -> (%y) {
//     opset "" = 28
//     constant %w: float32[3] = {1, 2, 0.5}
//     %y: float32[N,3] = Mul(%x, %w) @scale
//   }
//
// Nodes come in topological order. A name that is not a plain word is quoted, `_` is an absent
// input or output, `@` precedes a node's name, "domain::Op" an op of another domain. Attributes
// follow in braces with their kind: 1, 0.5f, "text", ints[1, 2], tensor float32[2] {1, 2}, type …,
// graph …; a sub-graph names what it captures: `capture %inner: float32[3] = %outer`.
// Elements are numbers where they are few, else hex"…" or base64"…" of the buffer.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

struct PrintOptions {
  // Buffers of more bytes are printed as digest"…", which says whether two are the same, but cannot
  // be read back.
  std::size_t digest_above = 1024;
  static PrintOptions exact() { return {std::numeric_limits<std::size_t>::max()}; }
};

XRT_API std::string print(const Graph& graph, const PrintOptions& options = {});
// A type as in the text: symbols that are no plain words are quoted.
XRT_API std::string print(const Type& type);

}  // namespace xrt
