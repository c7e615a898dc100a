// SPDX-License-Identifier: Apache-2.0
#include "report/noise.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "report/embed.h"
#include "report/page.h"

namespace xrt::report {
namespace {

using Json = nlohmann::ordered_json;

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json range_json(const ValueRange& range) {
  if (range.low == 0 && range.high == 0) return {};
  return {range.low, range.high};
}

Json data_of(const std::vector<NodeNoise>& nodes, const std::string& model) {
  Json data = {{"model", model}, {"nodes", Json::array()}};
  for (const NodeNoise& node : nodes) {
    data["nodes"].push_back({{"name", node.name},
                             {"op", node.op},
                             {"kept", node.kept},
                             {"alone_db", finite(node.alone)},
                             {"weights_db", finite(node.weights)},
                             {"reached_db", finite(node.reached)},
                             {"input", range_json(node.input)},
                             {"output", range_json(node.output)}});
  }
  return data;
}

}  // namespace

std::string noise_json(const std::vector<NodeNoise>& nodes, const std::string& model, int indent) {
  return data_of(nodes, model).dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string noise_html(const std::vector<NodeNoise>& nodes, const std::string& model) {
  return with_data(kNoiseTemplate, noise_json(nodes, model));
}

}  // namespace xrt::report
