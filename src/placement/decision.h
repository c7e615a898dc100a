// SPDX-License-Identifier: Apache-2.0
// Who shall run what: the outcome of placement as a plain value, which can be kept and applied to
// the same graph again.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/explanation.h"
#include "xrt/options.h"

namespace xrt {

// Values of Explanation::placement that code looks at.
inline constexpr const char* kEstimated = "estimated";
inline constexpr const char* kMeasured = "measured";
inline constexpr const char* kMeasuredBusy = "measured on a busy machine";
inline constexpr const char* kMeasuredEarlier = "measured earlier";

struct Decision {
  // In order of priority: a node goes to the first that takes it.
  std::vector<std::string> engines;
  Precision precision = Precision::kF32;
  // Nodes that stay in float32 whatever `precision` says, for what they compute has no place there.
  std::vector<std::string> float32_nodes = {};
  std::string placement = "named";  // see Explanation::placement
  std::vector<Explanation::CandidateRow> candidates;
  std::vector<std::string> notes;  // for explain()
};

// The decision that needs no choice: the engines, as the user named them; in float32 where the
// precision is to be chosen.
Decision named(const ProgramOptions& options);

std::string to_json(const Decision& decision);
// Nothing where the text is no decision.
std::optional<Decision> decision_from_json(std::string_view text);

}  // namespace xrt
