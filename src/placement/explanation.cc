// SPDX-License-Identifier: Apache-2.0
#include "xrt/explanation.h"

#include <nlohmann/json.hpp>

namespace xrt {

std::string Explanation::to_json() const {
  using nlohmann::json;
  json node_rows = json::array();
  for (const NodeRow& n : nodes) {
    node_rows.push_back({{"name", n.name},
                         {"op", n.op},
                         {"engine", n.engine},
                         {"function", n.function},
                         {"inputs", n.inputs},
                         {"outputs", n.outputs},
                         {"input_types", n.input_types},
                         {"output_types", n.output_types},
                         {"refusals", n.refusals}});
  }
  json launch_rows = json::array();
  for (const LaunchRow& l : launches) {
    launch_rows.push_back({{"function", l.function},
                           {"engine", l.engine},
                           {"nodes", l.nodes},
                           {"input_bytes", l.input_bytes},
                           {"output_bytes", l.output_bytes},
                           {"workspace_bytes", l.workspace_bytes},
                           {"weight_bytes", l.weight_bytes},
                           {"compile_ms", l.compile_ms},
                           {"from_cache", l.from_cache},
                           {"mean_us", l.mean_us},
                           {"runs", l.runs},
                           {"reads", l.reads},
                           {"writes", l.writes}});
  }
  json candidate_rows = json::array();
  for (const CandidateRow& c : candidates) {
    candidate_rows.push_back({{"plan", c.plan},
                              {"precision", to_string(c.precision)},
                              {"estimated_us", c.estimated_us},
                              {"measured_us", c.measured_us},
                              {"error", c.error},
                              {"chosen", c.chosen},
                              {"note", c.note}});
  }
  // Names come from models and may hold any bytes.
  return json{{"nodes", std::move(node_rows)},
              {"launches", std::move(launch_rows)},
              {"nodes_per_engine", nodes_per_engine},
              {"arena_bytes", arena_bytes},
              {"notes", notes},
              {"placement", placement},
              {"precision", to_string(precision)},
              {"candidates", std::move(candidate_rows)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace xrt
