// SPDX-License-Identifier: Apache-2.0
// Which version of an operator-set domain holds for a graph.
#pragma once

#include <onnx/defs/schema.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "onnx/proto.h"
#include "xrt/graph.h"

namespace xrt {

// What the graph declares, else the newest version that is known; 1 where nothing is known of the
// domain. The standard's is pinned.
inline std::int64_t opset_of(const Graph& graph, std::string_view domain) {
  if (normal_domain(domain).empty()) return kOnnxOpset;
  const std::string name(domain);
  const auto declared = graph.opsets().find(name);
  if (declared != graph.opsets().end()) return declared->second;
  const auto& known = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  const auto found = known.find(name);
  return found == known.end() ? 1 : found->second.second;
}

}  // namespace xrt
