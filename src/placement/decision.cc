// SPDX-License-Identifier: Apache-2.0
#include "placement/decision.h"

#include <nlohmann/json.hpp>

#include "xrt/error.h"

namespace xrt {

// nlohmann::json finds these two by their names.
inline void to_json(nlohmann::json& json, Precision precision) { json = to_string(precision); }
inline void from_json(const nlohmann::json& json, Precision& precision) {
  const std::optional<Precision> known = parse_precision(json.get<std::string>());
  if (!known) throw Error(ErrorCode::kInvalidModel, "decision: an unknown precision");
  precision = *known;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Explanation::CandidateRow, plan, precision, estimated_us,
                                   measured_us, error, chosen, note)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Decision, engines, precision, float32_nodes, placement,
                                   candidates, notes)

Decision named(const ProgramOptions& options) {
  Decision decision;
  decision.engines = options.engines;
  decision.precision = options.precision.value_or(Precision::kF32);
  return decision;
}

std::string to_json(const Decision& decision) {
  return nlohmann::json(decision).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<Decision> decision_from_json(std::string_view text) {
  try {
    return nlohmann::json::parse(text).get<Decision>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;  // the caller decides anew
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace xrt
