// SPDX-License-Identifier: Apache-2.0
#include "report/html.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "report/page.h"
#include "xrt/version.h"

namespace xrt::report {
namespace {

using Json = nlohmann::ordered_json;

Json ports_json(const std::vector<Port>& ports) {
  Json list = Json::array();
  for (const Port& port : ports) {
    list.push_back({{"name", port.name}, {"type", to_string(port.type)}});
  }
  return list;
}

Json node_json(const Explanation::NodeRow& node) {
  return {{"name", node.name},
          {"op", node.op},
          {"engine", node.engine},
          {"function", node.function},
          {"inputs", node.inputs},
          {"outputs", node.outputs},
          {"input_types", node.input_types},
          {"output_types", node.output_types},
          {"refusals", node.refusals}};
}

Json launch_json(const Explanation::LaunchRow& launch) {
  return {{"function", launch.function},
          {"engine", launch.engine},
          {"nodes", launch.nodes},
          {"input_bytes", launch.input_bytes},
          {"output_bytes", launch.output_bytes},
          {"workspace_bytes", launch.workspace_bytes},
          {"compile_ms", launch.compile_ms},
          {"from_cache", launch.from_cache},
          {"mean_us", launch.mean_us},
          {"runs", launch.runs},
          {"reads", launch.reads},
          {"writes", launch.writes}};
}

Json candidate_json(const Explanation::CandidateRow& candidate) {
  return {{"plan", candidate.plan},
          {"precision", candidate.precision},
          {"estimated_us", candidate.estimated_us},
          {"measured_us", candidate.measured_us},
          {"error", candidate.error},
          {"chosen", candidate.chosen},
          {"note", candidate.note}};
}

void replace_once(std::string& text, std::string_view from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) {
    throw Error(ErrorCode::kInternal, "the page's template lacks " + std::string(from));
  }
  text.replace(at, from.size(), to);
}

}  // namespace

std::string html(const Explanation& explanation, const std::vector<Port>& inputs,
                 const std::vector<Port>& outputs, const std::string& title) {
  Json data = {{"title", title},
               {"version", version()},
               {"inputs", ports_json(inputs)},
               {"outputs", ports_json(outputs)},
               {"nodes_per_engine", explanation.nodes_per_engine},
               {"arena_bytes", explanation.arena_bytes},
               {"notes", explanation.notes},
               {"placement", explanation.placement},
               {"precision", explanation.precision},
               {"candidates", Json::array()},
               {"nodes", Json::array()},
               {"launches", Json::array()}};
  for (const Explanation::NodeRow& node : explanation.nodes) {
    data["nodes"].push_back(node_json(node));
  }
  for (const Explanation::LaunchRow& launch : explanation.launches) {
    data["launches"].push_back(launch_json(launch));
  }
  for (const Explanation::CandidateRow& candidate : explanation.candidates) {
    data["candidates"].push_back(candidate_json(candidate));
  }
  const std::string dumped = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  // A name must not be able to end the script element that holds the data.
  std::string safe;
  safe.reserve(dumped.size());
  for (const char c : dumped) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  std::string page(kPageTemplate);
  replace_once(page, "__XRT_DATA__", safe);
  return page;
}

}  // namespace xrt::report
