// SPDX-License-Identifier: Apache-2.0
// Nodes of older standard opsets, from 1 on, to the pinned one.
//
// ONNX's own version converter is not used: it copies all weights, needs the types of every value,
// and gets some ops wrong (a Resize of opset 10 samples at other places than one of opset 11 with
// default attributes). Most ops only gained types and optional attributes; the others are rewritten
// here, one function per op.
#pragma once

#include <cstdint>
#include <string_view>

#include "onnx/reader.h"
#include "xrt/graph.h"

namespace xrt {

// Rewrites a node of opset `version` before it is added; may add nodes and constants before it.
// Throws kUnsupported where the pinned opset cannot say the same.
void upgrade_node(Graph& graph, NodeDraft& draft, std::int64_t version);

// Whether rewriting a node of this opset needs the types of its operands.
bool upgrade_reads_types(std::string_view op, std::int64_t version);

// The opset that last changed the meaning of nodes that are valid before and after; 0: none did.
std::int64_t last_change(std::string_view op);

// Some rewritings depend on ranks, which are known only after inference: true if there were any.
bool finish_upgrade(Graph& graph);

}  // namespace xrt
