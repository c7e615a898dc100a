// SPDX-License-Identifier: Apache-2.0
// Ops of ONNX Runtime in ops of the standard: its domains com.microsoft and com.microsoft.nchwc,
// and what it still knows of the standard's domain that the standard does not have.
//
// Every engine gets the standard's ops and knows of nothing else. One table says which op has a
// rewriting; another why some have none.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "onnx/reader.h"
#include "xrt/graph.h"

namespace xrt {

// Whether translate_contributed_op() says something about the op: a rewriting, or why there is
// none. Not in opsets in which the domain has the op itself.
bool is_contributed_op(std::string_view domain, std::string_view op, std::int64_t version);

// Rewrites the draft; may add nodes and constants in front of it. `infer` is run for each node, and
// may throw where there are too many of them. Throws kInvalidModel where inputs or attributes are
// missing, kUnsupported with the reason where the op, or what the node asks of it, has no
// rewriting.
void translate_contributed_op(Graph& graph, NodeDraft& draft,
                              const std::function<void(Graph& graph, NodeId node)>& infer);

// For documents and tests: every op of the tables, sorted. `reason` is empty where it is rewritten.
struct ContributedOp {
  std::string_view domain, op, reason;
};
std::vector<ContributedOp> contributed_ops();

}  // namespace xrt
